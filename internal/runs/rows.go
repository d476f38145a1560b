package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
	"orgops/tasks/handlers"
)

// Result is the result of a settled row. Its Detail is safe to show.
type Result struct {
	Item int64
	ledger.Result
}

// Well reports whether the row succeeded.
func (f Result) Well() bool { return f.Outcome == ledger.Done || f.Outcome == "unchanged" }

// OpenRow is a row that is not settled.
type OpenRow struct {
	Item int64
	// Reason is why the last execution left it open; empty before the first one.
	Reason string
	// Next is when it is due; zero: not known.
	Next time.Time
}

// Open is the outcome of a row without a result.
const Open ledger.Outcome = "open"

// RowState is the state of a row.
type RowState struct {
	Item   int64
	Source []byte  // as it was stored; nil: it cannot be read, and the reason says why
	Result *Result // its result; nil: it is open
	Open   OpenRow // why it is open, if it is
	// Record is the record of an open row's domain, as a worker read it; nil: none did.
	Record *handlers.VerifyRecord
	// Evidence is that of the last check, or the proof of a settled row; nil: none.
	Evidence []byte
}

// Outcome returns the outcome of the row, or [Open].
func (s RowState) Outcome() ledger.Outcome {
	if s.Result == nil {
		return Open
	}
	return s.Result.Outcome
}

// Row returns the state of a row of the run. A row that does not exist, or whose run does
// not, is open.
func (l *Ledger) Row(ctx context.Context, run ledger.Run, item int64) (RowState, error) {
	if item < 0 || item >= MaxRows {
		return RowState{}, fmt.Errorf("run %s has no row %d", run.ID, item)
	}
	state := RowState{Item: item, Open: OpenRow{Item: item}}
	c, err := l.read(ctx, run)
	if errors.Is(err, ledger.ErrNotFound) {
		return state, nil
	}
	if err != nil {
		return RowState{}, err
	}
	err = c.each(ctx, item, 1, func(item int64, row ledger.RowState) bool {
		state = c.state(item, row)
		return false
	})
	return state, err
}

// States returns the state of each row of the run, in their order. It reads as [Ledger.Results]
// does.
func (l *Ledger) States(ctx context.Context, run ledger.Run) iter.Seq2[RowState, error] {
	return each(ctx, l, run, func(c numbered, yield func(RowState) bool) error {
		return c.each(ctx, 0, rowsPage, func(item int64, row ledger.RowState) bool { return yield(c.state(item, row)) })
	})
}

func (c numbered) state(item int64, row ledger.RowState) RowState {
	state := RowState{Item: item, Source: row.Content}
	if row.Phase != ledger.PhaseSettled {
		open := c.verification(row)
		state.Open, state.Record, state.Evidence = c.openRow(item, row), open.Record, open.Evidence
		return state
	}
	f := resultOf(item, row.Result)
	if row.Err != nil {
		f.Detail = untrusted.Plain(cmp.Or(f.Detail, row.Err.Error()), maxDetail)
	}
	state.Result, state.Evidence = &f, f.Evidence
	return state
}

// Rows returns up to n stored rows from number first on, fewer only where the stored rows
// end, or [ledger.ErrNotFound].
func (l *Ledger) Rows(ctx context.Context, run ledger.Run, first int64, n int) ([][]byte, error) {
	if first < 0 || n < 0 {
		return nil, fmt.Errorf("run %s: read %d rows from %d: want neither below 0", run.ID, n, first)
	}
	c, err := l.read(ctx, run)
	if err != nil {
		return nil, err
	}
	return c.contents(ctx, first, n)
}

// Results returns the stored results of rows, from row first on and in their order: all but
// those that are "done" without a detail. It reads in pages; a row that is settled meanwhile
// may or may not be among them. An error, such as [ledger.ErrNotFound], ends it.
func (l *Ledger) Results(ctx context.Context, run ledger.Run, first int64) iter.Seq2[Result, error] {
	return each(ctx, l, run, func(c numbered, yield func(Result) bool) error {
		return c.results(ctx, first, func(item int64, r ledger.Result) bool {
			f := resultOf(item, r)
			return f.Outcome == ledger.Done && f.Detail == "" || yield(f)
		})
	})
}

// OpenFrom returns the open rows from row first on, in their order. It reads as Results
// does.
func (l *Ledger) OpenFrom(ctx context.Context, run ledger.Run, first int64) iter.Seq2[OpenRow, error] {
	return each(ctx, l, run, func(c numbered, yield func(OpenRow) bool) error {
		return c.open(ctx, first, func(item int64, row ledger.RowState) bool { return yield(c.openRow(item, row)) })
	})
}

// Notes returns open rows of the run that have a note, and how many of them there are: about
// most of the first open rows. The error is [ledger.ErrNotFound] if there is no such run.
func (l *Ledger) Notes(ctx context.Context, run ledger.Run, most int) (noted []OpenRow, total int64, err error) {
	c, err := l.read(ctx, run)
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
	segments, err := l.core.OpenSegments(ctx, c.run)
	if err == nil {
		total, err = l.core.Waiting(ctx, segments...)
	}
	return noted, max(total, int64(len(noted))), err
}

// Evidence returns the results of the settled rows that have evidence, in their order. It
// reads as [Ledger.Results] does.
func (l *Ledger) Evidence(ctx context.Context, run ledger.Run) iter.Seq2[Result, error] {
	return each(ctx, l, run, func(c numbered, yield func(Result) bool) error {
		return c.results(ctx, 0, func(item int64, r ledger.Result) bool {
			return len(r.Evidence) == 0 || yield(resultOf(item, r))
		})
	})
}

// StoredRow is a row as it was stored.
type StoredRow struct {
	Item   int64
	Source []byte
}

// Search returns the stored rows of the run that contain one of the needles, which are in
// lower case, in any case, in their order. There is no index: it reads all of the run's rows,
// a page at a time. An error, such as [ledger.ErrNotFound], ends it.
func (l *Ledger) Search(ctx context.Context, run ledger.Run, needles ...[]byte) iter.Seq2[StoredRow, error] {
	return each(ctx, l, run, func(c numbered, yield func(StoredRow) bool) error {
		var damaged error
		err := c.each(ctx, 0, rowsPage, func(item int64, row ledger.RowState) bool {
			if row.Content == nil && row.Err != nil {
				damaged = fmt.Errorf("row %d: %w", item, row.Err)
				return false
			}
			text := bytes.ToLower(row.Content)
			found := slices.ContainsFunc(needles, func(needle []byte) bool { return bytes.Contains(text, needle) })
			return !found || yield(StoredRow{Item: item, Source: row.Content})
		})
		if err = cmp.Or(err, damaged); err != nil {
			return fmt.Errorf("run %s: search rows: %w", run.ID, err)
		}
		return nil
	})
}

// each yields the results of list for the rows of the run. An error, such as [ledger.ErrNotFound],
// comes last.
func each[T any](ctx context.Context, l *Ledger, run ledger.Run,
	list func(c numbered, yield func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c, err := l.read(ctx, run)
		if err == nil {
			err = list(c, func(found T) bool { return yield(found, nil) })
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// read reads a run again, and returns its rows, or [ledger.ErrNotFound].
func (l *Ledger) read(ctx context.Context, run ledger.Run) (numbered, error) {
	now, err := l.core.Run(ctx, run.Tenant, run.ID)
	if err != nil {
		return numbered{}, err
	}
	return l.rowsOf(ctx, now)
}

// ItemOf returns the number of a row of a segment over all segments of its run.
func (l *Ledger) ItemOf(ctx context.Context, seg ledger.Segment, row ledger.Row) (int64, error) {
	if seg.Number == 0 {
		return int64(row), nil
	}
	run, err := l.core.Run(ctx, seg.Tenant, seg.Run)
	if err != nil {
		return 0, err
	}
	c, err := l.rowsOf(ctx, run)
	if err == nil && (run.Incarnation != seg.Incarnation || seg.Number > len(c.past)) {
		err = fmt.Errorf("run %s: segment %d: %w", seg.Run, seg.Number, ledger.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	return c.first(seg.Number) + int64(row), nil
}

// resultOf returns the result of a settled row.
func resultOf(item int64, r ledger.Result) Result {
	r.Detail = untrusted.Plain(r.Detail, maxDetail)
	return Result{Item: item, Result: r}
}

// openRow returns an open row with the reason why it is open.
func (c numbered) openRow(item int64, row ledger.RowState) OpenRow {
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

// note returns, in words, why the last execution left an open row.
func (c numbered) note(row ledger.RowState) string {
	if row.Err != nil {
		return untrusted.Plain(row.Err.Error(), maxDetail)
	}
	note := engine.ParseNote(row.Checkpoint.Memo)
	text := string(note.Outcome)
	if note.Reason == "" {
		note.Reason = c.verification(row).Sentence
	}
	if note.Reason != "" {
		text += ": " + note.Reason
	}
	return untrusted.Plain(cmp.Or(row.Checkpoint.Note, text), maxDetail)
}

// verification reads the memo of an open row of domain:verify; the zero value if the row is
// of another kind, or its memo of a newer version.
func (c numbered) verification(row ledger.RowState) handlers.OpenVerify {
	memo := engine.ParseNote(row.Checkpoint.Memo).Memo
	if c.run.Kind != handlers.Verify || len(memo) == 0 {
		return handlers.OpenVerify{}
	}
	open, err := handlers.ReadOpenVerify(memo, row.Content)
	if err != nil {
		return handlers.OpenVerify{}
	}
	return open
}
