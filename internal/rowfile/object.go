package rowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Object is a JSON object: its members, in their order.
type Object []Member

// Member is a member of an object, its value as it was written.
type Member struct {
	Name  string
	Value json.RawMessage
}

// DecodeObject reads exactly one JSON object, which text begins with. A name that occurs twice in
// one object, at any depth, is refused: readers differ in which of the two they take. The error is
// of one line, for people.
func DecodeObject(text []byte) (o Object, err error) {
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
			o = append(o, Member{name, json.RawMessage(bytes.Clone(value))})
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
	return o, err
}

// JSON returns the object as JSON, without blanks between its members.
func (o Object) JSON() []byte {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonString(m.Name)...)
		out = append(out, ':')
		out = append(out, m.Value...)
	}
	return append(out, '}')
}

// Own returns the members without those that an export added and those that the schema ignores.
func (o Object) Own(s Schema) (own Object) {
	exported := slices.ContainsFunc(o, func(m Member) bool { return ignored(m.Name) })
	for _, m := range o {
		if !s.added(m.Name, exported) && !s.leftOut(m.Name) {
			own = append(own, m)
		}
	}
	return own
}

// whole returns the object as its text has it, but for the members that are not its own.
func (o Object) whole(text []byte, s Schema) json.RawMessage {
	own := o.Own(s)
	if len(own) == len(o) {
		return text
	}
	return own.JSON()
}

// CellMember returns the cell of a column of CSV as the member of JSON Lines that it would be: true
// or false if the column is Bool and the cell one of the words for them, else text.
func CellMember(column tasks.Column, cell string) Member {
	if word, ok := words[strings.ToLower(cell)]; column.Bool && ok {
		return Member{column.Name, json.RawMessage(word)}
	}
	return Member{column.Name, jsonString(cell)}
}

// jsonString returns a string as JSON.
func jsonString(s string) json.RawMessage {
	out, _ := json.Marshal(s) // a string always has a JSON form
	return out
}
