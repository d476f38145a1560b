package cli

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	unknownMember = regexp.MustCompile(`field (\S+) not found in type .*`)
	noDuration    = regexp.MustCompile("cannot unmarshal \\S+ `(.*)` into time.Duration$")
	goType        = regexp.MustCompile(` into \S+$`)
)

// YAMLError says what YAML found in a file without naming Go's types.
func YAMLError(err error) error {
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var found []string
	for _, text := range wrong.Errors {
		text = unknownMember.ReplaceAllString(text, "unknown member $1")
		text = noDuration.ReplaceAllString(text, `want a duration such as 72h, got "$1"`)
		found = append(found, goType.ReplaceAllString(text, ""))
	}
	return errors.New(strings.Join(found, "; "))
}
