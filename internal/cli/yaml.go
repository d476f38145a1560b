package cli

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	unknownMember = regexp.MustCompile(`field (\S+) not found in type .*`)
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
		found = append(found, goType.ReplaceAllString(unknownMember.ReplaceAllString(text, "unknown member $1"), ""))
	}
	return errors.New(strings.Join(found, "; "))
}
