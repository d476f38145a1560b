package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
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

// page is one answer of a list: its records, and where the next begins (empty:
// it was the last).
type page[T any] struct {
	records []T
	next    string
}

// list walks the pages of the list at path, whose records stand under member.
// check tells what a record lacks.
func list[T any](ctx context.Context, c *Client, operation, path, member string, check func(T) error) iter.Seq2[T, error] {
	k := request{operation: operation, method: http.MethodGet, path: path, limit: maxPageBytes}
	return func(yield func(T, error) bool) {
		var none T
		checkpoints := checkpoints{seen: map[string]bool{}}
		for from := ""; ; {
			p, a, err := getPage(ctx, c, k, from, member, check)
			if err != nil {
				yield(none, err)
				return
			}
			for _, record := range p.records {
				if ctx.Err() != nil {
					yield(none, k.transportError(false, ownReason(ctx, context.Cause(ctx))))
					return
				}
				if !yield(record, nil) {
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
func pageOf[T any](ctx context.Context, c *Client, operation, path, from, member string, check func(T) error) (records []T, next string, err error) {
	k := request{operation: operation, method: http.MethodGet, path: path, limit: maxPageBytes}
	p, _, err := getPage(ctx, c, k, from, member, check)
	return p.records, p.next, err
}

func getPage[T any](ctx context.Context, c *Client, k request, from, member string, check func(T) error) (page[T], answer, error) {
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
		p, err = readPage(members, member, check)
		return err
	})
	return p, a, err
}

func readPage[T any](members map[string]json.RawMessage, member string, check func(T) error) (page[T], error) {
	var p page[T]
	if err := json.Unmarshal(members[member], &p.records); err != nil || p.records == nil {
		return p, fmt.Errorf("want an array %q in it: %w", member, orMissing(err, members[member]))
	}
	for i, record := range p.records {
		if err := check(record); err != nil {
			return p, fmt.Errorf("%s[%d]: %w", member, i, err)
		}
	}
	if next := members["next"]; next != nil {
		if err := json.Unmarshal(next, &p.next); err != nil { // null: stays empty
			return p, fmt.Errorf("want a string or null in \"next\": %w", err)
		}
	}
	if len(p.next) > maxCheckpoint {
		return p, fmt.Errorf("its \"next\" is longer than %d octets", maxCheckpoint)
	}
	return p, nil
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
