package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// member is a member of a JSON object, its value as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// decodeObject reads exactly one JSON object and returns its members in their order. A name
// that occurs twice in one object, at any depth, is refused: readers differ in which of the
// two they take.
func decodeObject(text []byte) ([]member, error) {
	if !bytes.HasPrefix(text, []byte{'{'}) {
		return nil, errors.New("not a JSON object: it must begin with {")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, notJSON(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if _, err := d.Token(); err != nil { // {
		return nil, notJSON(err)
	}
	var members []member
	err := readMembers(d, func(name string) error {
		begins := d.InputOffset() // the colon before the value, or a blank before that, is there
		err := checkNames(d)
		members = append(members, member{name, bytes.TrimLeft(text[begins:d.InputOffset()], ": \t\r\n")})
		return err
	})
	return members, err
}

// readMembers reads an object after its brace. member is called after each name, and reads
// the value.
func readMembers(d *json.Decoder, member func(name string) error) error {
	names := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return notJSON(err)
		}
		name := fmt.Sprint(token)
		if names[name] {
			return fmt.Errorf("member %s occurs twice", quoted(name))
		}
		names[name] = true
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := d.Token() // }
	return err
}

// checkNames reads a value and returns an error if a name occurs twice in one of its objects.
func checkNames(d *json.Decoder) error {
	token, err := d.Token()
	switch token {
	case json.Delim('{'):
		return readMembers(d, func(string) error { return checkNames(d) })
	case json.Delim('['):
		for err == nil && d.More() {
			err = checkNames(d)
		}
		if err == nil {
			_, err = d.Token() // ]
		}
	}
	return err
}

// notJSON says where a text stops being JSON.
func notJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("not JSON: %w", err)
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
