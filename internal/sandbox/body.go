package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"

	bodyLimit = 1 << 20 // bytes; a DELETE of 100 clients has some 4,000
	bodyDepth = 16      // levels; a template has 4
)

// A body, whichever of the two forms it came in, is read into one tree of
// map[string]any, []any and leaves. JSON's leaves are string, bool,
// json.Number and nil; a form's are formText, since a form does not say
// whether true is a word or a truth: the rules know what a member must be.

// mediaType is the body's declared type without its parameters.
func mediaType(h http.Header) string {
	t, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return t
}

// parseBody reads a body of one of the two types that the API accepts.
func parseBody(mediaType string, body []byte) (any, error) {
	if mediaType == formType {
		return parseForm(string(body))
	}
	return parseJSON(body)
}

// parseJSON is stricter than encoding/json: one value, valid UTF-8, no member
// twice, no depth without end.
func parseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("body goes on after its JSON value")
	}
	return v, nil
}

var errNotJSON = errors.New("body is not valid JSON")

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > bodyDepth {
		return nil, errors.New("body is nested too deep")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, errNotJSON
	}
	switch t {
	case json.Delim('{'):
		return jsonObject(dec, depth)
	case json.Delim('['):
		return jsonArray(dec, depth)
	}
	return t, nil
}

func jsonObject(dec *json.Decoder, depth int) (any, error) {
	members := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, errNotJSON
		}
		name, ok := t.(string)
		if !ok {
			return nil, errNotJSON
		}
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("member given twice: %s", capped(name))
		}
		if members[name], err = jsonValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNotJSON
	}
	return members, nil
}

func jsonArray(dec *json.Decoder, depth int) (any, error) {
	elements := []any{}
	for dec.More() {
		v, err := jsonValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNotJSON
	}
	return elements, nil
}

// capped is a stranger's text as far as a message repeats it.
func capped(s string) string {
	const most = 60
	s = strings.ToValidUTF8(s, "�")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '�'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most]) + "…"
	}
	return s
}
