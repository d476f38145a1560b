package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
)

const (
	// coreRowsPage is how many rows of the core are read at once.
	coreRowsPage = 128
	// notedRows is how many open rows of the core are read for [Ledger.Notes].
	notedRows = 4096
)

// coreRows reads the rows of a run of the core by their numbers, which count over its
// segments.
type coreRows struct {
	core *ledger.Ledger
	run  ledger.Run
	// past has the number after each segment's last row.
	past []int64
}

// rowsOf returns the rows of a run that are committed.
func (l *Ledger) rowsOf(ctx context.Context, run ledger.Run) (coreRows, error) {
	c := coreRows{core: l.core, run: run}
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
func (c coreRows) first(segment int) int64 {
	if segment == 0 {
		return 0
	}
	return c.past[segment-1]
}

// place returns where a row is: in no segment if the run has no such row.
func (c coreRows) place(item int64) (segment int, row ledger.Row, found bool) {
	segment = sort.Search(len(c.past), func(i int) bool { return c.past[i] > item })
	if item < 0 || segment == len(c.past) {
		return 0, 0, false
	}
	return segment, ledger.Row(item - c.first(segment)), true
}

func (c coreRows) segment(number int) ledger.Segment {
	return ledger.Segment{Run: c.run.ID, Incarnation: c.run.Incarnation, Number: number}
}

// from calls f for each segment that has rows from item on, with the first of these,
// until it returns false or an error.
func (c coreRows) from(ctx context.Context, item int64, f func(segment int, row ledger.Row) (more bool, err error)) error {
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
func (c coreRows) each(ctx context.Context, item int64, n int, f func(item int64, row ledger.RowState) bool) error {
	return c.from(ctx, item, func(number int, row ledger.Row) (bool, error) {
		for {
			page, err := c.core.Rows(ctx, c.segment(number), row, min(n, coreRowsPage))
			if errors.Is(err, ledger.ErrNotFound) && c.run.Control.Incomplete {
				return true, nil // Redis has lost the segment
			}
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
func (c coreRows) contents(ctx context.Context, item int64, n int) (all [][]byte, err error) {
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
func (c coreRows) open(ctx context.Context, item int64, yield func(item int64, row ledger.RowState) bool) error {
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
			if page, err = c.core.Rows(ctx, c.segment(number), rows[0], coreRowsPage); len(page) == 0 {
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

// results calls yield for the rows from item on whose outcome is kept, in order, until it
// returns false.
func (c coreRows) results(ctx context.Context, item int64, yield func(item int64, r ledger.Result) bool) error {
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

// coreFate returns what became of a settled row.
func coreFate(item int64, r ledger.Result) Fate {
	return Fate{Item: item, Outcome: string(r.Outcome), Detail: quote(r.Detail, maxDetail)}
}

// openRow returns an open row with why it is open.
func (c coreRows) openRow(item int64, row ledger.RowState) OpenRow {
	open := OpenRow{Item: item, Reason: c.note(row), Next: row.Due}
	if open.Reason != "" {
		return open
	}
	if open.Next.Before(time.Now()) {
		open.Next = time.Time{} // it was given back, and waits for a worker
	}
	switch row.Phase {
	case ledger.PhaseReleased:
		open.Reason = "released to a worker"
	case ledger.PhaseInProgress:
		open.Reason = "in progress since " + row.Since.Format(time.RFC3339)
	}
	return open
}

// note returns how the last execution left an open row, in words.
func (c coreRows) note(row ledger.RowState) string {
	if row.Err != nil {
		return quote(row.Err.Error(), maxDetail)
	}
	note := engine.ParseNote(row.Checkpoint.Memo)
	text := string(note.Outcome)
	if note.Reason == "" {
		note.Reason = c.verification(row).Sentence
	}
	if note.Reason != "" {
		text += ": " + note.Reason
	}
	return quote(cmp.Or(row.Checkpoint.Note, text), maxDetail)
}

// verification returns what the memo of an open row says about its domain; the zero
// [kinds.OpenVerify] if the row is of another kind, or of a newer version.
func (c coreRows) verification(row ledger.RowState) kinds.OpenVerify {
	memo := engine.ParseNote(row.Checkpoint.Memo).Memo
	if c.run.Kind != kinds.Verify || len(memo) == 0 {
		return kinds.OpenVerify{}
	}
	open, err := kinds.ReadOpenVerify(row.Content, memo)
	if err != nil {
		return kinds.OpenVerify{}
	}
	return open
}

// RecordMark is the name by which [Ledger.Row] returns the record of the domain of a row.
const RecordMark = "record"

// kept returns what is kept of an open row by that name.
func (c coreRows) kept(row ledger.RowState, name string) (kept, evidence []byte, err error) {
	open := c.verification(row)
	if open.Record != nil && name == RecordMark {
		kept, err = json.Marshal(open.Record)
	}
	return kept, open.Evidence, err
}

// ItemOf returns the number of a row of a segment of the core over all segments of its run.
func (l *Ledger) ItemOf(ctx context.Context, seg ledger.Segment, row ledger.Row) (int64, error) {
	if seg.Number == 0 {
		return int64(row), nil
	}
	run, err := l.core.Get(ctx, seg.Run)
	if err != nil {
		return 0, err
	}
	c, err := l.rowsOf(ctx, run)
	if err == nil && (run.Incarnation != seg.Incarnation || seg.Number > len(c.past)) {
		err = fmt.Errorf("run %s: segment %d: %w", seg.Run, seg.Number, ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	return c.first(seg.Number) + int64(row), nil
}

// coreRowsFrom returns up to n rows of a run of the core, as they were stored.
func (l *Ledger) coreRowsFrom(ctx context.Context, run ledger.Run, first int64, n int) ([][]byte, error) {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return nil, err
	}
	return c.contents(ctx, first, n)
}

// eachCoreFate is eachFate for a run of the core.
func (l *Ledger) eachCoreFate(ctx context.Context, run ledger.Run, first int64, yield func(Fate) bool) error {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return err
	}
	return c.results(ctx, first, func(item int64, r ledger.Result) bool {
		f := coreFate(item, r)
		return f.Outcome == "done" && f.Detail == "" || yield(f)
	})
}

// eachCoreOpen is eachOpen for a run of the core.
func (l *Ledger) eachCoreOpen(ctx context.Context, run ledger.Run, first int64, yield func(OpenRow) bool) error {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return err
	}
	return c.open(ctx, first, func(item int64, row ledger.RowState) bool { return yield(c.openRow(item, row)) })
}

// coreNotes is [Ledger.Notes] for a run of the core: it reads the first open rows.
func (l *Ledger) coreNotes(ctx context.Context, run ledger.Run, most int) (noted []OpenRow, total int64, err error) {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return nil, 0, err
	}
	read, cut := 0, false
	err = c.open(ctx, 0, func(item int64, row ledger.RowState) bool {
		if cut = read == notedRows || len(noted) >= most; cut {
			return false
		}
		read++
		if c.note(row) != "" {
			noted = append(noted, c.openRow(item, row))
		}
		return true
	})
	if err != nil || !cut {
		return noted, int64(len(noted)), err
	}
	segments, err := l.core.OpenSegments(ctx, run)
	if err == nil {
		total, err = l.core.Waiting(ctx, segments...)
	}
	return noted, max(total, int64(len(noted))), err
}

// eachCoreEvidence calls yield for the rows with evidence of a run of the core, until it
// returns false.
func (l *Ledger) eachCoreEvidence(ctx context.Context, run ledger.Run, yield func(RowEvidence) bool) error {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return err
	}
	return c.results(ctx, 0, func(item int64, r ledger.Result) bool {
		return len(r.Evidence) == 0 || yield(RowEvidence{item, r.Evidence})
	})
}

// coreRow is [Ledger.Row] for a run of the core. A row that the run does not have is open.
func (l *Ledger) coreRow(ctx context.Context, run ledger.Run, item int64, name string) (RowState, error) {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return RowState{}, err
	}
	state := RowState{Open: OpenRow{Item: item}}
	var unreadable error
	err = c.each(ctx, item, 1, func(item int64, row ledger.RowState) bool {
		if row.Phase == ledger.PhaseSettled {
			f := coreFate(item, row.Result)
			state = RowState{Fate: &f, Evidence: row.Result.Evidence}
		} else {
			state.Open = c.openRow(item, row)
			state.Kept, state.Evidence, unreadable = c.kept(row, name)
		}
		return false
	})
	return state, cmp.Or(err, unreadable)
}

// coreOutcomes is [Ledger.OutcomesOf] for a run of the core.
func (l *Ledger) coreOutcomes(ctx context.Context, run ledger.Run, items []int64) ([]string, error) {
	outcomes, wanted := make([]string, len(items)), map[int64][]int{}
	for i, item := range items {
		wanted[item] = append(wanted[item], i)
	}
	if len(items) == 0 {
		return outcomes, nil
	}
	last := slices.Max(items)
	err := l.eachCoreFate(ctx, run, slices.Min(items), func(f Fate) bool {
		for _, i := range wanted[f.Item] {
			outcomes[i] = f.Outcome
		}
		return f.Item < last
	})
	return outcomes, err
}

// searchCore is search for a run of the core.
func (l *Ledger) searchCore(ctx context.Context, run ledger.Run, within func(text []byte) bool, yield func(StoredRow) bool) error {
	c, err := l.rowsOf(ctx, run)
	if err != nil {
		return err
	}
	var damaged error
	err = c.each(ctx, 0, coreRowsPage, func(item int64, row ledger.RowState) bool {
		if row.Content == nil && row.Err != nil {
			damaged = fmt.Errorf("row %s: %w", strconv.FormatInt(item, 10), row.Err)
			return false
		}
		return !within(row.Content) || yield(StoredRow{Item: item, Source: row.Content})
	})
	return cmp.Or(err, damaged)
}
