package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// rowFields are the columns of a kind, to be decoded into: field returns a
// *string or a **bool, nil for a name that is none.
type rowFields interface {
	field(name string) any
}

// decodeRow decodes a row, strictly.
func decodeRow[R any, F interface {
	*R
	rowFields
}](object json.RawMessage) (R, error) {
	var r R
	if decodePlain(string(object), F(&r)) {
		return r, nil
	}
	var again R // decodePlain may have begun
	err := decodeStrict(object, &again)
	return again, err
}

// decodePlain reads an object as rows are written nearly always: without blanks,
// its members text without escapes, true or false. It says whether it could;
// anything else is encoding/json's, which takes five times as long, to read or to
// explain.
func decodePlain(object string, into rowFields) bool {
	rest, ok := cutByte(object, '{')
	if !ok {
		return false
	}
	for more := true; more; {
		var name, text string
		if name, rest, ok = cutText(rest); !ok {
			return false
		}
		if rest, ok = cutByte(rest, ':'); !ok {
			return false
		}
		switch to := into.field(name).(type) {
		case *string:
			if text, rest, ok = cutText(rest); !ok {
				return false
			}
			*to = text
		case **bool:
			if *to, rest = cutBool(rest); *to == nil {
				return false
			}
		default:
			return false
		}
		rest, more = cutByte(rest, ',')
	}
	return rest == "}"
}

func cutByte(text string, b byte) (rest string, ok bool) {
	if text == "" || text[0] != b {
		return text, false
	}
	return text[1:], true
}

// cutText cuts a JSON string that holds what it says byte for byte.
func cutText(text string) (value, rest string, ok bool) {
	text, ok = cutByte(text, '"')
	if !ok {
		return "", text, false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"':
			return text[:i], text[i+1:], true
		case c == '\\', c < ' ', c > '~':
			return "", text, false
		}
	}
	return "", text, false
}

func cutBool(text string) (value *bool, rest string) {
	if rest, ok := strings.CutPrefix(text, "true"); ok {
		return new(true), rest
	}
	if rest, ok := strings.CutPrefix(text, "false"); ok {
		return new(false), rest
	}
	return nil, text
}

// decodeStrict reads a whole object: unknown members and anything after the object are
// refused.
func decodeStrict(object []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data after the JSON object")
	}
	return nil
}
