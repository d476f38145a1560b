package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"orgops/internal/ledger"
)

// read returns the run of that id and its rows, or [ErrNotFound].
func (l *Ledger) read(ctx context.Context, id string) (numbered, error) {
	run, err := l.header(ctx, id)
	if err != nil {
		return numbered{}, err
	}
	return l.rowsOf(ctx, run)
}

// Rows returns up to n stored rows from number first on, fewer only where the stored rows
// end, or [ErrNotFound].
func (l *Ledger) Rows(ctx context.Context, run string, first int64, n int) ([][]byte, error) {
	if first < 0 || n < 0 {
		return nil, fmt.Errorf("run %s: read %d rows from %d: want neither below 0", run, n, first)
	}
	c, err := l.read(ctx, run)
	if err != nil {
		return nil, err
	}
	return c.contents(ctx, first, n)
}

// Fates returns the rows whose outcome is kept, in their order: all that are not plainly
// "done", and those with a detail. It reads in pages; a row that is settled meanwhile may or
// may not be among them. An error, such as [ErrNotFound], ends it.
func (l *Ledger) Fates(ctx context.Context, run string) iter.Seq2[Fate, error] {
	return l.FatesFrom(ctx, run, 0)
}

// FatesFrom is Fates from row first on; nothing is read of those before it.
func (l *Ledger) FatesFrom(ctx context.Context, run string, first int64) iter.Seq2[Fate, error] {
	return func(yield func(Fate, error) bool) {
		c, err := l.read(ctx, run)
		if err == nil {
			err = c.results(ctx, first, func(item int64, r ledger.Result) bool {
				f := fateOf(item, r)
				return f.Outcome == "done" && f.Detail == "" || yield(f, nil)
			})
		}
		if err != nil {
			yield(Fate{}, err)
		}
	}
}

// OpenFrom returns the rows from row first on that are not settled, in their order. Nothing is
// read of those before it. It reads in pages; a row that settles meanwhile may or may not be
// among them. An error, such as [ErrNotFound], ends it.
func (l *Ledger) OpenFrom(ctx context.Context, run string, first int64) iter.Seq2[OpenRow, error] {
	return func(yield func(OpenRow, error) bool) {
		c, err := l.read(ctx, run)
		if err == nil {
			err = c.open(ctx, first, func(item int64, row ledger.RowState) bool { return yield(c.openRow(item, row), nil) })
		}
		if err != nil {
			yield(OpenRow{}, err)
		}
	}
}

// Notes returns open rows of the run that have a note, and how many of them there are: about
// most of the first open rows. The error is [ErrNotFound] if there is no such run.
func (l *Ledger) Notes(ctx context.Context, run string, most int) (noted []OpenRow, total int64, err error) {
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

// RowEvidence is the evidence kept with a settled row: see [RowState].
type RowEvidence struct {
	Item     int64
	Evidence []byte
}

// Evidence returns the rows of a run with which evidence was kept as they were settled, in
// their order. It reads in pages; a row that is settled meanwhile may or may not be among
// them. The error is [ErrNotFound] if there is no such run.
func (l *Ledger) Evidence(ctx context.Context, run string) iter.Seq2[RowEvidence, error] {
	return func(yield func(RowEvidence, error) bool) {
		c, err := l.read(ctx, run)
		if err == nil {
			err = c.results(ctx, 0, func(item int64, r ledger.Result) bool {
				return len(r.Evidence) == 0 || yield(RowEvidence{item, r.Evidence}, nil)
			})
		}
		if err != nil {
			yield(RowEvidence{}, err)
		}
	}
}

// RowState is the state of a row.
type RowState struct {
	// Fate is its result, nil while it is open.
	Fate *Fate
	// Open says why it is open, if it is.
	Open OpenRow
	// Kept is the stored value of an open row under the requested name; nil: none.
	Kept []byte
	// Evidence is what the last check of the row found, or the proof of a settled row. nil:
	// there is none.
	Evidence []byte
}

// Row returns the state of a row of the run, and what is kept of it by that name. Every row
// of a run that does not exist is open, as is one that the run does not have.
func (l *Ledger) Row(ctx context.Context, run string, item int64, name string) (RowState, error) {
	if err := checkItem(run, item); err != nil {
		return RowState{}, err
	}
	state := RowState{Open: OpenRow{Item: item}}
	c, err := l.read(ctx, run)
	if errors.Is(err, ErrNotFound) {
		return state, nil
	}
	if err != nil {
		return RowState{}, err
	}
	var unreadable error
	err = c.each(ctx, item, 1, func(item int64, row ledger.RowState) bool {
		if row.Phase == ledger.PhaseSettled {
			f := fateOf(item, row.Result)
			state = RowState{Fate: &f, Evidence: row.Result.Evidence}
		} else {
			state.Open = c.openRow(item, row)
			state.Kept, state.Evidence, unreadable = c.kept(row, name)
		}
		return false
	})
	return state, cmp.Or(err, unreadable)
}

// StoredRow is a row as it was stored.
type StoredRow struct {
	Item   int64
	Source []byte
}

// Search returns the stored rows of the run that contain one of the needles, in their order.
// There is no index: it reads all of the run's rows, a page at a time. An error, such as
// [ErrNotFound], ends it.
func (l *Ledger) Search(ctx context.Context, run string, needles ...[]byte) iter.Seq2[StoredRow, error] {
	return l.rowsWith(ctx, run, needles, func(text []byte) []byte { return text })
}

// SearchFold is Search for needles in lower case, whatever the case in the rows.
func (l *Ledger) SearchFold(ctx context.Context, run string, needles ...[]byte) iter.Seq2[StoredRow, error] {
	return l.rowsWith(ctx, run, needles, bytes.ToLower)
}

func (l *Ledger) rowsWith(ctx context.Context, run string, needles [][]byte, fold func([]byte) []byte) iter.Seq2[StoredRow, error] {
	within := func(text []byte) bool {
		text = fold(text)
		return slices.ContainsFunc(needles, func(needle []byte) bool { return bytes.Contains(text, needle) })
	}
	return func(yield func(StoredRow, error) bool) {
		if err := l.search(ctx, run, within, func(row StoredRow) bool { return yield(row, nil) }); err != nil {
			yield(StoredRow{}, fmt.Errorf("run %s: search rows: %w", run, err))
		}
	}
}

func (l *Ledger) search(ctx context.Context, run string, within func(text []byte) bool, yield func(StoredRow) bool) error {
	c, err := l.read(ctx, run)
	if err != nil {
		return err
	}
	var damaged error
	err = c.each(ctx, 0, rowsPage, func(item int64, row ledger.RowState) bool {
		if row.Content == nil && row.Err != nil {
			damaged = fmt.Errorf("row %d: %w", item, row.Err)
			return false
		}
		return !within(row.Content) || yield(StoredRow{Item: item, Source: row.Content})
	})
	return cmp.Or(err, damaged)
}
