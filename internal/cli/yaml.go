package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ReadYAML decodes a settings file, YAML or JSON, whose only member is a list of that name; "": the
// file is the list. It returns the line on which each entry begins. Unknown members, and a second
// document, are refused. Errors name the line, and no type of Go.
func ReadYAML(text []byte, list string, into any) (lines []int, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is a second document: put all %s into one", cmp.Or(list, "entries"))
	}
	places := map[string][]yaml.Node{}
	if list == "" {
		var entries []yaml.Node
		err = yaml.Unmarshal(text, &entries)
		places[list] = entries
	} else {
		err = yaml.Unmarshal(text, &places)
	}
	if err != nil {
		return nil, yamlError(err)
	}
	for _, entry := range places[list] {
		lines = append(lines, entry.Line)
	}
	return lines, nil
}

var (
	secretMember  = regexp.MustCompile(`field (client_secret|token|secret) not found in type (tenant|webhooks)\..*`)
	unknownMember = regexp.MustCompile(`field (\S+) not found in type .*`)
	goType        = regexp.MustCompile(` into (struct \{.*\}|\S+)$`)
)

// yamlError removes the types of Go from an error.
func yamlError(err error) error {
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var found []string
	for _, text := range wrong.Errors {
		text = secretMember.ReplaceAllString(text, "unknown member $1: secrets are not in this file: "+
			"put it into a file or a variable, and name that by ${1}_file or ${1}_env")
		text = unknownMember.ReplaceAllString(text, "unknown member $1")
		found = append(found, goType.ReplaceAllString(text, ""))
	}
	return errors.New(strings.Join(found, "; "))
}
