package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orgops/internal/untrusted"
)

// member is a member of a JSON object, its value as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// decodeObject reads exactly one JSON object and returns its members in their order. A name
// that occurs twice in one object, at any depth, is refused: readers differ in which of the
// two they take.
func decodeObject(text []byte) (members []member, err error) {
	if !bytes.HasPrefix(text, []byte{'{'}) {
		return nil, errors.New("not a JSON object: it must begin with {")
	}
	// Half a surrogate pair is refused. Text that is no UTF-8 is read to be given back.
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(!utf8.Valid(text)))
	_, err = d.ReadToken() // {
	for err == nil && d.PeekKind() != '}' {
		var token jsontext.Token
		if token, err = d.ReadToken(); err == nil {
			name := token.String() // before the next read
			var value jsontext.Value
			value, err = d.ReadValue()
			members = append(members, member{name, json.RawMessage(bytes.Clone(value))})
		}
	}
	if err == nil {
		_, err = d.ReadToken() // }
	}
	switch fault, _ := errors.AsType[*jsontext.SyntacticError](err); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, fmt.Errorf("member %s occurs twice", untrusted.Value(fault.JSONPointer.LastToken()))
	case fault != nil:
		return nil, fmt.Errorf("not JSON: %w at byte %d", fault.Err, fault.ByteOffset)
	case err == nil && len(bytes.TrimSpace(text[d.InputOffset():])) > 0:
		return nil, fmt.Errorf("not JSON: more text after the object, at byte %d", d.InputOffset())
	}
	return members, err
}

// objectOf writes members as an object.
func objectOf(members []member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonString(m.name)...)
		out = append(out, ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// jsonString returns a string as JSON.
func jsonString(s string) []byte {
	out, _ := json.Marshal(s) // a string always has a JSON form
	return out
}
