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
func decodeObject(text []byte) ([]member, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("not a JSON object: it must begin with {")
	}
	if err := checkOneValue(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, notJSON(text, err)
	}
	var members []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, notJSON(text, err)
		}
		m := member{name: fmt.Sprint(name)}
		if err := d.Decode(&m.value); err != nil {
			return nil, notJSON(text, err)
		}
		members = append(members, m)
	}
	return members, nil
}

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
	return checkDouble(whole)
}

// checkDouble walks a valid value.
func checkDouble(text []byte) error {
	type level struct {
		names  map[string]bool // nil in an array
		atName bool
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notJSON(text, err)
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].names != nil {
			top := &levels[n-1]
			top.atName = !top.atName
			if top.atName {
				name := fmt.Sprint(token)
				if top.names[name] {
					return fmt.Errorf("member %s occurs twice", quoted(name))
				}
				top.names[name] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
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
