package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// member is a member of a JSON object, its value as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// decodeObject reads exactly one JSON object and gives its members in their
// order. A name that stands twice in one object, at any depth, is refused:
// readers differ in which of the two they take.
func decodeObject(text []byte) (members []member, err error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("not a JSON object: it must begin with {")
	}
	if err := checkOneValue(text); err != nil {
		return nil, err
	}
	type level struct {
		names  map[string]bool // nil in an array
		atName bool
	}
	var levels []level
	begins := int64(0) // where the colon before the last member's value, or a blank before that, is
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, notJSON(text, err)
		}
		depth := len(levels)
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:depth-1]
		} else if depth > 0 && levels[depth-1].names != nil {
			top := &levels[depth-1]
			if top.atName = !top.atName; top.atName {
				name := fmt.Sprint(token)
				if top.names[name] {
					return nil, fmt.Errorf("member %s occurs twice", quoted(name))
				}
				top.names[name] = true
				if depth == 1 {
					members, begins = append(members, member{name: name}), d.InputOffset()
				}
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
		if len(levels) == 1 && len(members) > 0 { // the last member's value has ended
			members[len(members)-1].value = bytes.TrimLeft(text[begins:d.InputOffset()], ": \t\r\n")
		}
	}
}

// checkOneValue returns an error unless the text is one JSON value.
func checkOneValue(text []byte) error {
	var whole json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&whole); err != nil {
		return notJSON(text, err)
	}
	end := d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("not JSON: more follows the value that ends at byte %d", end)
	}
	return nil
}

// notJSON says where the text stops being JSON.
func notJSON(text []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("not JSON: it ends after %d bytes in the middle of a value", len(text))
	}
	return fmt.Errorf("not JSON: %w", err)
}
