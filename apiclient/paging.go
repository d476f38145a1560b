package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
)

const (
	// pageSize is the most that the service gives at once: every page costs a
	// request of the tenant's budget.
	pageSize = 100

	// maxCheckpoint bounds the opaque text that goes back in the query.
	maxCheckpoint = 4096

	// maxEmptyPages in a row are followed; a server that hands out ever new
	// checkpoints and no records would be asked for ever.
	maxEmptyPages = 100
)

// Listed is one record of a list. A record outside the specification does not
// keep the others of its page from being read.
type Listed[T any] struct {
	// Record is the record. If Err is not nil, it holds the members that could be
	// read, which may name the record and prove nothing.
	Record T
	Err    error // nil, or a *RecordError
}

// RecordError says why a record of a list is outside the specification.
type RecordError struct {
	Place string // of the record in its page, such as "domains[3]"
	ID    string // of the record; empty: it has none that could be in a path
	Err   error  // the rule that it breaks, on one line
}

// Error names the place, the id and the rule.
func (e *RecordError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("%s, which has no valid id: %v", e.Place, e.Err)
	}
	return fmt.Sprintf("%s, id %s: %v", e.Place, e.ID, e.Err)
}

// Unwrap returns Err.
func (e *RecordError) Unwrap() error { return e.Err }

// record is a record of a list.
type record interface {
	check() error       // what the record lacks of the specification
	identifier() string // its id as it was read
}

// page is one answer of a list: its records, and where the next begins (empty:
// it was the last).
type page[T any] struct {
	records []Listed[T]
	next    string
}

// list returns the records of all pages of the list at path, which are in member.
// A record outside the specification comes with its *RecordError, and the list
// goes on; any other error ends it.
func list[T record](ctx context.Context, c *Client, operation, path, member string) iter.Seq2[T, error] {
	k := request{operation: operation, method: http.MethodGet, path: path, limit: maxPageBytes}
	return func(yield func(T, error) bool) {
		var none T
		checkpoints := checkpoints{seen: map[string]bool{}}
		for from := ""; ; {
			p, a, err := getPage[T](ctx, c, k, from, member)
			if err != nil {
				yield(none, err)
				return
			}
			for _, l := range p.records {
				if ctx.Err() != nil {
					yield(none, k.transportError(false, ownReason(ctx, context.Cause(ctx))))
					return
				}
				if !yield(l.Record, l.Err) {
					return
				}
			}
			if p.next == "" {
				return
			}
			if err := checkpoints.follow(p.next, len(p.records)); err != nil {
				yield(none, k.answerError(a, err))
				return
			}
			from = p.next
		}
	}
}

// pageOf is the one page of the list at path that begins at a checkpoint, empty for
// the first, and where the next begins, empty where it was the last.
func pageOf[T record](ctx context.Context, c *Client, operation, path, from, member string) (records []Listed[T], next string, err error) {
	k := request{operation: operation, method: http.MethodGet, path: path, limit: maxPageBytes}
	p, _, err := getPage[T](ctx, c, k, from, member)
	return p.records, p.next, err
}

func getPage[T record](ctx context.Context, c *Client, k request, from, member string) (page[T], answer, error) {
	k.query = url.Values{"take": {strconv.Itoa(pageSize)}}
	if from != "" {
		k.query.Set("from", from)
	}
	a, err := c.do(ctx, k)
	if err != nil {
		return page[T]{}, a, err
	}
	var p page[T]
	var members map[string]json.RawMessage
	err = k.decode(a, &members, func() error {
		var err error
		p, err = readPage[T](members, member, a.mask)
		return err
	})
	return p, a, err
}

func readPage[T record](members map[string]json.RawMessage, member string, m mask) (page[T], error) {
	var p page[T]
	var raw []json.RawMessage
	if err := json.Unmarshal(members[member], &raw); err != nil || raw == nil {
		return p, fmt.Errorf("want an array %q in it: %w", member, orMissing(err, members[member]))
	}
	p.records = make([]Listed[T], 0, len(raw))
	bad := 0
	for i, text := range raw {
		l := readRecord[T](text, fmt.Sprintf("%s[%d]", member, i), m)
		if l.Err != nil {
			bad++
		}
		if bad > pageSize {
			return p, fmt.Errorf("more than %d of its records are outside the specification, the last one %w", pageSize, l.Err)
		}
		p.records = append(p.records, l)
	}
	if next := members["next"]; next != nil {
		if err := json.Unmarshal(next, &p.next); err != nil { // null: stays empty
			return p, fmt.Errorf("want a string or null in \"next\": %w", err)
		}
	}
	if len(p.next) > maxCheckpoint {
		return p, fmt.Errorf("its \"next\" is longer than %d bytes", maxCheckpoint)
	}
	return p, nil
}

// readRecord reads one record of a page.
func readRecord[T record](text json.RawMessage, place string, m mask) Listed[T] {
	var l Listed[T]
	err := wantRecord(text, &l.Record)
	if err == nil {
		err = l.Record.check()
	}
	if err == nil {
		return l
	}
	bad := &RecordError{Place: place, Err: m.err(err)}
	if id := l.Record.identifier(); isID(id) {
		bad.ID = m.text(id)
	}
	l.Err = bad
	return l
}

// wantRecord decodes an object into a record. Where members are of wrong types,
// the others are decoded all the same, and the error names the first.
func wantRecord(text json.RawMessage, into any) error {
	if !bytes.HasPrefix(text, []byte{'{'}) {
		return fmt.Errorf("%s, got %s", wantObject, rawValue(text))
	}
	err := json.Unmarshal(text, into)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return err
	}
	want := wantObject
	switch wrong.Type.Kind() {
	case reflect.String:
		want = wantText
	case reflect.Bool:
		want = wantBool
	}
	return fmt.Errorf("%s: %s, got %s", plain(wrong.Field, maxName), want, plain(wrong.Value, maxValue))
}

func orMissing(err error, raw json.RawMessage) error {
	if raw == nil || err == nil {
		return errors.New("there is none")
	}
	return err
}

// checkpoints sees to it that a list gets on.
type checkpoints struct {
	seen  map[string]bool
	empty int // pages without a record, in a row
}

func (c *checkpoints) follow(next string, records int) error {
	if c.seen[next] {
		return fmt.Errorf("its \"next\" %s was given before: the list would never end", textValue(next))
	}
	c.seen[next] = true
	if records > 0 {
		c.empty = 0
		return nil
	}
	if c.empty++; c.empty > maxEmptyPages {
		return fmt.Errorf("%d empty pages in a row: the list would never end", c.empty)
	}
	return nil
}

// failed is a list that could not be asked for.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
