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

	"orgops/apiclient/schema"
	"orgops/internal/untrusted"
)

const (
	// pageSize is the most that the service returns at once: every page costs a request of
	// the tenant's rate.
	pageSize = 100

	// maxCheckpoint bounds the opaque text that goes back in the query, in bytes.
	maxCheckpoint = 4096

	// maxPages bounds a list, in case a server returns ever new checkpoints. A tenant has
	// at most 100,000 organizations: 1,000 pages.
	maxPages = 2000
)

// Listed is one record of a list. A record outside the specification does not prevent the
// others of its page from being read.
type Listed[T any] struct {
	// Record is the record. If Err is not nil, it has the members that could be read: they
	// may identify the record, and prove nothing.
	Record T
	Err    error // nil, or a *RecordError
}

// RecordError says why a record of a list is outside the specification.
type RecordError struct {
	Place string // of the record in its page, such as "domains[3]"
	ID    string // of the record; empty: it has none that could be in a path
	Err   error  // the rule that it breaks, on one line
}

func (e *RecordError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("%s, which has no valid id: %v", e.Place, e.Err)
	}
	return fmt.Sprintf("%s, id %s: %v", e.Place, e.ID, e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

type record interface {
	Check() error       // the first rule of the specification that the record breaks
	Identifier() string // its id, unchecked
}

type list struct {
	operation, path string
	member          string // of the answer, which holds the records
	invalid         error  // as of a request
	client          string // whose association the organizations say; empty: none's
}

// all returns the records of all pages of the list. A record outside the specification
// comes with its *RecordError, and the list goes on; any other error ends it.
func all[T record](ctx context.Context, c *Client, l list) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[string]bool{} // checkpoints
		for from := ""; ; {
			records, next, a, err := pageOf[T](ctx, c, l, from)
			if err != nil {
				yield(none, err)
				return
			}
			for _, r := range records {
				if ctx.Err() != nil {
					yield(none, l.request(from).transportError(false, ownReason(ctx, context.Cause(ctx))))
					return
				}
				if !yield(r.Record, r.Err) {
					return
				}
			}
			switch {
			case next == "":
				return
			case seen[next]:
				err = fmt.Errorf("its \"next\" %s was given before: the list would never end", untrusted.Value(next))
			case len(seen) == maxPages:
				err = fmt.Errorf("more than %d pages: the list would never end", maxPages)
			}
			if err != nil {
				yield(none, l.request(from).answerError(a, err))
				return
			}
			seen[next] = true
			from = next
		}
	}
}

// request returns the request of the page at a checkpoint, which is empty for the first.
func (l list) request(from string) request {
	query := url.Values{"take": {strconv.Itoa(pageSize)}}
	if from != "" {
		query.Set("from", from)
	}
	if l.client != "" {
		query.Set("include_client_association_for", l.client)
	}
	return request{operation: l.operation, method: http.MethodGet, path: l.path, query: query,
		limit: maxPageBytes, invalid: l.invalid}
}

// pageOf returns one page of the list, and the checkpoint of the next one, which is empty
// after the last.
func pageOf[T record](ctx context.Context, c *Client, l list,
	from string) (records []Listed[T], next string, a answer, err error) {
	_, a, err = call(ctx, c, l.request(from), func(members map[string]json.RawMessage, a answer) (err error) {
		records, next, err = readPage[T](members, l.member, a.mask)
		return err
	})
	if err != nil {
		return nil, "", a, err
	}
	return records, next, a, nil
}

func readPage[T record](members map[string]json.RawMessage, member string,
	m mask) (records []Listed[T], next string, err error) {
	var raw []json.RawMessage
	if members[member] != nil {
		err = json.Unmarshal(members[member], &raw)
	}
	if err == nil && raw == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, "", fmt.Errorf("want an array %q in it: %w", member, err)
	}
	records = make([]Listed[T], 0, len(raw))
	bad := 0
	for i, text := range raw {
		l := readRecord[T](text, fmt.Sprintf("%s[%d]", member, i), m)
		if l.Err != nil {
			bad++
		}
		if bad > pageSize {
			return nil, "", fmt.Errorf("more than %d of its records are outside the specification, the last one %w",
				pageSize, l.Err)
		}
		records = append(records, l)
	}
	if raw := members["next"]; raw != nil {
		if err := json.Unmarshal(raw, &next); err != nil { // null: stays empty
			return nil, "", fmt.Errorf("want a string or null in \"next\": %w", err)
		}
	}
	if len(next) > maxCheckpoint {
		return nil, "", fmt.Errorf("its \"next\" is longer than %d bytes", maxCheckpoint)
	}
	return records, next, nil
}

func readRecord[T record](text json.RawMessage, place string, m mask) Listed[T] {
	var l Listed[T]
	err := wantRecord(text, &l.Record)
	if err == nil {
		err = l.Record.Check()
	}
	if err == nil {
		return l
	}
	bad := &RecordError{Place: place, Err: m.err(err)}
	if id := l.Record.Identifier(); schema.IsID(id) {
		bad.ID = m.text(id)
	}
	l.Err = bad
	return l
}

// wantRecord decodes an object into a record. If members have wrong types, the others are
// decoded all the same, and the error names the first.
func wantRecord(text json.RawMessage, into any) error {
	if !bytes.HasPrefix(text, []byte{'{'}) {
		return fmt.Errorf("%s, got %s", schema.WantObject, untrusted.JSON(text))
	}
	err := json.Unmarshal(text, into)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return err
	}
	want := schema.WantObject
	switch wrong.Type.Kind() {
	case reflect.String:
		want = schema.WantText
	case reflect.Bool:
		want = schema.WantBool
	}
	return fmt.Errorf("%s: %s, got %s", untrusted.Plain(wrong.Field, untrusted.MaxName), want,
		untrusted.JSON(wrong.Value))
}
