package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orgops/internal/untrusted"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"

	bodyLimit = 1 << 20 // bytes; a DELETE of 100 clients has some 4,000
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

// parseJSON reads one value. Unlike encoding/json it refuses invalid UTF-8 and duplicate
// members.
func parseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("body is not UTF-8")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	value, err := dec.ReadValue()
	if twice, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return nil, errors.New("member given twice: " + capped(twice.JSONPointer.LastToken()))
	}
	tree := json.NewDecoder(bytes.NewReader(value))
	tree.UseNumber()
	var v any
	if err != nil || tree.Decode(&v) != nil {
		return nil, errors.New("body is not valid JSON")
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("body goes on after its JSON value")
	}
	return v, nil
}

// capped returns the beginning of a text of others for a message.
func capped(s string) string { return untrusted.Plain(s, 60) }
