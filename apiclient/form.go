package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"orgops/internal/untrusted"
)

// BodyFormat is the format of request bodies; answers are always JSON (specification 4).
type BodyFormat string

// The two formats.
const (
	BodyJSON BodyFormat = "json"
	BodyForm BodyFormat = "form"
)

// The media types of bodies.
const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// ParseBodyFormat reads a format's name.
func ParseBodyFormat(name string) (BodyFormat, error) {
	if f := BodyFormat(name); f == BodyJSON || f == BodyForm {
		return f, nil
	}
	return "", fmt.Errorf("want %s or %s, got %s", BodyJSON, BodyForm, untrusted.Value(name))
}

func (f BodyFormat) encode(body any) (encoded []byte, mediaType string, err error) {
	encoded, err = json.Marshal(body)
	if err == nil && f == BodyForm {
		encoded, err = formOf(encoded)
		return encoded, formType, err
	}
	return encoded, jsonType, err
}

// formOf writes a JSON object as a form, names in brackets:
//
//	status=verified&use_for_organization_discovery=true
//	clients[]=a&clients[]=b
//	presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1][family_name]=true
//
// An object without members becomes its name with an empty value, since a form cannot
// express it otherwise; null is omitted.
func formOf(object []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return nil, fmt.Errorf("a form needs an object: %w", err)
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		pairs = appendPairs(pairs, name, members[name])
	}
	return []byte(strings.Join(pairs, "&")), nil
}

func appendPairs(pairs []string, name string, value any) []string {
	switch v := value.(type) {
	case nil:
		return pairs
	case map[string]any:
		if len(v) == 0 {
			return append(pairs, url.QueryEscape(name)+"=")
		}
		for _, member := range slices.Sorted(maps.Keys(v)) {
			pairs = appendPairs(pairs, name+"["+member+"]", v[member])
		}
		return pairs
	case []any:
		for _, element := range v {
			pairs = appendPairs(pairs, name+"[]", element)
		}
		return pairs
	}
	return append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(fmt.Sprint(value)))
}
