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

// A body of either format is read into a tree of map[string]any, []any and leaves. JSON's
// leaves are string, bool, json.Number and nil; a form's are formText, since a form does
// not distinguish strings and booleans: the rules know the type of a member.

// mediaType returns the body's declared type without its parameters.
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

// parseJSON reads one value. Unlike encoding/json it refuses invalid UTF-8, duplicate
// members and great depth.
func parseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	if dec.Decode(&value) != nil {
		return nil, errors.New("body is not valid JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("body goes on after its JSON value")
	}
	dec = json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	return jsonValue(dec, 0)
}

// jsonValue reads the next value of a valid body, whose tokens have no errors.
func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > bodyDepth {
		return nil, errors.New("body is nested too deep")
	}
	switch t, _ := dec.Token(); t {
	case json.Delim('{'):
		members := map[string]any{}
		for dec.More() {
			token, _ := dec.Token()
			name := fmt.Sprint(token)
			if _, twice := members[name]; twice {
				return nil, fmt.Errorf("member given twice: %s", capped(name))
			}
			v, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			members[name] = v
		}
		_, _ = dec.Token() // its closing brace
		return members, nil
	case json.Delim('['):
		elements := []any{}
		for dec.More() {
			v, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			elements = append(elements, v)
		}
		_, _ = dec.Token()
		return elements, nil
	default:
		return t, nil
	}
}

// capped returns the beginning of a text of others for a message.
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
