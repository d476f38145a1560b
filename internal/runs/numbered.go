package runs

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"orgops/internal/ledger"
)

const (
	// rowsPage is the number of rows that are read at once.
	rowsPage = 128
	// notedRows is the most open rows that [Ledger.Notes] reads.
	notedRows = 4096
)

// numbered reads the rows of a run by their numbers, which count over its
// segments.
type numbered struct {
	core *ledger.Ledger
	run  ledger.Run
	// past has the number after each segment's last row.
	past []int64
}

// rowsOf returns the rows of a run that are committed.
func (l *Ledger) rowsOf(ctx context.Context, run ledger.Run) (numbered, error) {
	c := numbered{core: l.core, run: run}
	if run.Staged() {
		return c, nil
	}
	sums, err := l.core.Sums(ctx, run)
	past := int64(0)
	for _, s := range sums {
		past += int64(s.Rows)
		c.past = append(c.past, past)
	}
	return c, err
}

// first returns the number of a segment's first row.
func (c numbered) first(segment int) int64 {
	if segment == 0 {
		return 0
	}
	return c.past[segment-1]
}

// place returns the place of a row; found is false if the run has no such row.
func (c numbered) place(item int64) (segment int, row ledger.Row, found bool) {
	segment = sort.Search(len(c.past), func(i int) bool { return c.past[i] > item })
	if item < 0 || segment == len(c.past) {
		return 0, 0, false
	}
	return segment, ledger.Row(item - c.first(segment)), true
}

func (c numbered) segment(number int) ledger.Segment {
	return ledger.Segment{Tenant: c.run.Tenant, Run: c.run.ID, Incarnation: c.run.Incarnation, Number: number}
}

// from calls f for each segment that has rows from item on, with the first of these,
// until it returns false or an error.
func (c numbered) from(ctx context.Context, item int64,
	f func(segment int, row ledger.Row) (more bool, err error)) error {
	number, row, found := c.place(max(item, 0))
	for ; found && number < len(c.past); number++ {
		if err := ctx.Err(); err != nil {
			return err // some clients ignore the contexts of their commands
		}
		if more, err := f(number, row); err != nil || !more {
			return err
		}
		row = 0
	}
	return nil
}

// each calls f for the rows from item on, in order, until it returns false.
func (c numbered) each(ctx context.Context, item int64, n int, f func(item int64, row ledger.RowState) bool) error {
	return c.from(ctx, item, func(number int, row ledger.Row) (bool, error) {
		for {
			page, err := c.core.Rows(ctx, c.segment(number), row, min(n, rowsPage))
			if err != nil || len(page) == 0 {
				return true, err
			}
			for _, state := range page {
				if !f(c.first(number)+int64(state.Row), state) {
					return false, nil
				}
			}
			if row += ledger.Row(len(page)); c.first(number)+int64(row) >= c.past[number] {
				return true, nil
			}
		}
	})
}

// contents returns up to n rows as they were stored, from item on.
func (c numbered) contents(ctx context.Context, item int64, n int) (all [][]byte, err error) {
	if n == 0 {
		return nil, nil
	}
	var damaged error
	err = c.each(ctx, item, n, func(number int64, row ledger.RowState) bool {
		if number != item+int64(len(all)) {
			return false // those between are lost
		}
		if damaged = row.Err; row.Content == nil && damaged != nil {
			return false
		}
		damaged = nil
		all = append(all, row.Content)
		return len(all) < n
	})
	if err = cmp.Or(err, damaged); err != nil {
		return nil, err
	}
	return all, nil
}

// open calls yield for the open rows from item on, in order, until it returns false.
// Segments without open rows are skipped.
func (c numbered) open(ctx context.Context, item int64, yield func(item int64, row ledger.RowState) bool) error {
	segments, err := c.core.OpenSegments(ctx, c.run)
	if err != nil {
		return err
	}
	return c.from(ctx, item, func(number int, from ledger.Row) (bool, error) {
		for len(segments) > 0 && segments[0].Number < number {
			segments = segments[1:]
		}
		if len(segments) == 0 || segments[0].Number > number {
			return len(segments) > 0, nil
		}
		rows, err := c.core.Unsettled(ctx, c.segment(number), from)
		for err == nil && len(rows) > 0 {
			var page []ledger.RowState
			if page, err = c.core.Rows(ctx, c.segment(number), rows[0], rowsPage); len(page) == 0 {
				break
			}
			for _, state := range page {
				if state.Phase != ledger.PhaseSettled && !yield(c.first(number)+int64(state.Row), state) {
					return false, nil
				}
			}
			past, _ := slices.BinarySearch(rows, page[len(page)-1].Row+1)
			rows = rows[past:]
		}
		return true, err
	})
}

// results calls yield for the stored results of rows from item on, in order, until it
// returns false.
func (c numbered) results(ctx context.Context, item int64, yield func(item int64, r ledger.Result) bool) error {
	return c.from(ctx, item, func(number int, from ledger.Row) (bool, error) {
		for r, err := range c.core.Results(ctx, c.segment(number), from) {
			if err != nil {
				return false, err
			}
			if !yield(c.first(number)+int64(r.Row), r.Result) {
				return false, nil
			}
		}
		return true, nil
	})
}
