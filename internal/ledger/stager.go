package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// Stager divides the rows of a run into segments and stages them, in one pass over a
// source that cannot be read again. It is for one goroutine.
type Stager struct {
	ledger *Ledger
	run    Run
	// writer is the nonce by which the scripts know the stager. compares says that it has none,
	// since it compares the rows with stored ones, whose sums these are.
	writer   string
	compares bool
	stored   []string

	rows [][]byte // of the segment that is being filled
	data []byte   // their content
	// settled are the results of settled rows.
	settled []RowResult
	// group returns the key by which rows are ordered; nil: they are not.
	group func(row []byte) string

	// sums are those of the segments that were staged, counts the results with which rows were, and
	// closed the number of segments of which every row has one.
	sums   []Sum
	counts Counts
	closed int
}

// NewStager returns a stager for a run that [Ledger.Create] returned. From then on it is the only
// one of the run: the error of any former one is [ErrReplaced]. A run that was staged in part is
// staged again, from its first row. That of a run which is committed or cancelled is a
// [MismatchError].
func (l *Ledger) NewStager(ctx context.Context, run Run) (_ *Stager, err error) {
	defer wrap(&err, "run %s: stage", run.ID)
	if run.Scan != nil {
		return nil, errScan
	}
	s := &Stager{ledger: l, run: run, writer: random(), counts: Counts{}}
	if _, err := l.onHeader(ctx, writerScript, run, s.writer); err != nil {
		return nil, otherRows(err, run, "rows to be added")
	}
	return s, nil
}

// NewComparer returns a stager for a committed run that stores nothing: it compares the rows
// that are added with those of the run. If they differ, or their number does, the error of
// Add or Commit is a [MismatchError].
func (l *Ledger) NewComparer(ctx context.Context, run Run) (*Stager, error) {
	stored, err := l.storedSums(ctx, run)
	if err != nil {
		return nil, err
	}
	return &Stager{ledger: l, run: run, stored: stored, compares: true, counts: Counts{}}, nil
}

// Rows returns the number of rows that were added.
func (s *Stager) Rows() (n int64) {
	for _, sum := range s.sums {
		n += int64(sum.Rows)
	}
	return n + int64(len(s.rows))
}

// Add adds a row of at most [MaxRow] bytes, which the caller may use again.
func (s *Stager) Add(ctx context.Context, row []byte) error {
	if len(row) > MaxRow {
		return fmt.Errorf("run %s: row %d is %d bytes: want at most %d", s.run.ID, s.Rows(), len(row), MaxRow)
	}
	if len(s.rows) == SegmentRows || (len(s.rows) > 0 && len(s.data)+len(row) > segmentBytes) {
		if err := s.Flush(ctx); err != nil {
			return err
		}
	}
	start := len(s.data)
	s.data = append(s.data, row...) // where that moves the data, former rows stay where they are
	s.rows = append(s.rows, s.data[start:len(s.data):len(s.data)])
	return nil
}

// AddSettled adds a row whose result is known when it is submitted, such as one that is
// invalid: it is never released.
func (s *Stager) AddSettled(ctx context.Context, row []byte, r Result) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("run %s: row %d: %w", s.run.ID, s.Rows(), err)
	}
	if err := s.Add(ctx, row); err != nil {
		return err
	}
	r.Evidence = bytes.Clone(r.Evidence)
	s.settled = append(s.settled, RowResult{Row: Row(len(s.rows) - 1), Result: r})
	return nil
}

// Group has rows of a segment with the same key follow each other when they are first released,
// so that a release finds rows that have something in common: see [Quota]. The numbers of the rows
// stay as they are. It is called before the first Add.
func (s *Stager) Group(key func(row []byte) string) { s.group = key }

// Commit stages the last segment and makes the rows available to dispatchers. Repeating it is
// harmless. A run without rows ends at once. The error is [ErrLost] if Redis has lost segments
// meanwhile.
func (s *Stager) Commit(ctx context.Context) (committed Run, err error) {
	if len(s.rows) > 0 {
		if err := s.Flush(ctx); err != nil {
			return Run{}, err
		}
	}

	// The rows of a committed run were compared with its own, and nothing is written.
	run := s.run
	rows := s.Rows()
	if s.compares {
		if len(s.sums) != len(s.stored) {
			return Run{}, &MismatchError{Run: run.ID, Member: MemberContent, Have: fmt.Sprintf("%d rows", run.Rows),
				Want: fmt.Sprintf("%d rows", rows)}
		}
		return run, nil
	}
	defer wrap(&err, "run %s: commit", run.ID)

	// Rows that are batched wait for the others of their organization.
	var sums strings.Builder
	for _, sum := range s.sums {
		sums.WriteString(sum.stored())
	}
	due := int64(0)
	if wait := run.BatchWait; wait > 0 {
		due = run.CreatedAt.Truncate(wait).Add(wait).UnixMilli()
	}
	args := []any{s.writer, len(s.sums), rows, sums.String(), due, s.closed}
	for outcome, n := range s.counts {
		args = append(args, string(outcome), n)
	}

	// Only the stager that began last may commit.
	a, err := s.ledger.onHeader(ctx, commitScript, run, args...)
	if err == nil && a.status() == statusDiffers {
		err = ErrLost
	}
	if err != nil {
		return Run{}, otherRows(err, run, fmt.Sprintf("%d rows", rows))
	}
	_ = s.ledger.Wake(ctx, run.Tenant) // else the next poll finds the rows
	return parseRun(run.Tenant, run.ID, a.hash(1))
}

// Discard deletes the run, unless it is committed, or another stager stages its rows by now: then
// deleted is false.
func (s *Stager) Discard(ctx context.Context) (deleted bool, err error) {
	return s.ledger.delete(ctx, s.run, "writer", s.writer)
}

// Verify reads back the committed run. Call it two seconds after Commit. The error is [ErrLost] if
// Redis has lost the commit, and [ErrNotFound] if it has lost the run: the rows have to be
// submitted again.
func (s *Stager) Verify(ctx context.Context) (err error) {
	defer wrap(&err, "run %s: read it back", s.run.ID)
	now, err := s.ledger.same(ctx, s.run)
	if err == nil && now.Staged() {
		err = ErrLost
	}
	return err
}

// Flush stages the rows that were added since the last one, at least one, as a segment. Add and
// Commit call it.
func (s *Stager) Flush(ctx context.Context) error {
	number := len(s.sums)
	p, err := pack(s.rows)
	switch {
	case err != nil:
	case number >= MaxSegments:
		err = fmt.Errorf("want at most %d segments", MaxSegments)
	case !s.compares:
		order := releaseOrder(s.group, s.rows, s.settled)
		err = s.ledger.stage(ctx, s.run, s.writer, staged{number, p, s.settled, order})
	case number >= len(s.stored) || s.stored[number] != p.sum.stored():
		err = ErrMismatch
	}
	if err != nil {
		return fmt.Errorf("run %s: stage segment %d: %w", s.run.ID, number, otherRows(err, s.run, digestOf(p.sum)))
	}
	for _, r := range s.settled {
		s.counts[r.Result.Outcome]++
	}
	if len(s.settled) == len(s.rows) {
		s.closed++
	}
	s.sums = append(s.sums, p.sum)
	s.rows = s.rows[:0]
	s.data = s.data[:0]
	s.settled = s.settled[:0]
	return nil
}
