package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// repeatable is how long a Stager keeps segments in memory to stage them again:
	// longer than the second that Redis may lose and the two seconds until Verify.
	repeatable = 5 * time.Second
	// repeatableBytes bounds the memory for these, compressed: 400,000 rows of two ids,
	// which is more than a second at 300,000 rows a second.
	repeatableBytes = 16 << 20
)

// Stager divides the rows of a run into segments and stages them, in one pass over a
// source that cannot be read again. It is for one goroutine.
type Stager struct {
	ledger *Ledger
	run    Run
	stored []string // sums of a run that is continued, by number; "" if missing

	rows [][]byte // of the segment that is being filled
	data []byte   // their content
	// settled are the results of settled rows, and dues the due times of rows that are due
	// later.
	settled []RowResult
	dues    []rowDue
	sums    []Sum

	grouping grouping

	compares bool // with the rows of a committed run, instead of staging
	// awaits: see [Stager.AwaitResults]. known has the number of results of each segment.
	awaits bool
	known  []int

	recent      []recent // segments that Redis may still lose, oldest first
	recentBytes int
}

// recent is a segment that was staged a moment ago.
type recent struct {
	staged
	at    time.Time
	bytes int
}

// NewStager returns a stager for a run that [Ledger.Create] returned. Of a run that is
// continued the caller adds all rows again, from the first: segments that are stored
// already are not sent.
func (l *Ledger) NewStager(ctx context.Context, run Run) (*Stager, error) {
	if run.Scan != nil {
		return nil, fmt.Errorf("run %s: stage: %w", run.ID, errScan)
	}
	stored, err := l.storedSums(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return &Stager{ledger: l, run: run, stored: stored}, nil
}

// NewComparer returns a stager for a committed run that stores nothing: it compares the rows
// that are added with those of the run. If they differ, or their number does, the error of
// Add or Commit is a [MismatchError].
func (l *Ledger) NewComparer(ctx context.Context, run Run) (*Stager, error) {
	stored, err := l.storedSums(ctx, run)
	if err == nil && len(stored) < run.Segments {
		err = ErrNotFound // deleted, or replaced, since the header was read
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return &Stager{ledger: l, run: run, stored: stored, compares: true}, nil
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
	// Not as soon as the segment is full: it may be the last.
	if len(s.rows) == SegmentRows || len(s.rows) > 0 && len(s.data)+len(row) > segmentBytes {
		if err := s.flush(ctx, false); err != nil {
			return err
		}
	}
	start := len(s.data)
	s.data = append(s.data, row...) // where that moves the data, former rows stay where they are
	s.rows = append(s.rows, s.data[start:len(s.data):len(s.data)])
	return nil
}

// AddSettled adds a row whose result is known when it is submitted, such as one that is
// invalid: it is never released. A row that an earlier producer of the run has settled
// keeps that result.
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

// AddDue adds a row that is not released before a time, in Redis' time: see [MaxDue]; the
// zero time is at once. If an earlier producer of the run has committed the row, it keeps its
// due time.
func (s *Stager) AddDue(ctx context.Context, row []byte, due time.Time) error {
	if err := s.Add(ctx, row); err != nil {
		return err
	}
	if !due.IsZero() {
		s.dues = append(s.dues, rowDue{Row: Row(len(s.rows) - 1), Due: due})
	}
	return nil
}

// Group has rows of a segment released together that have the same key, in pieces of at
// most most, so that a request for several rows finds rows that have something in common.
// The numbers of the rows stay as they are. It is called before the first Add.
func (s *Stager) Group(most int, key func(row []byte) string) {
	s.grouping = grouping{most: most, key: key}
}

// AwaitResults has Commit compare, for each segment, how many rows are settled with the
// number of results that were added: another producer of the run may have settled a row for
// which this one adds work. No segment can be committed before that. It is called before the
// first Add.
func (s *Stager) AwaitResults() { s.awaits = true }

// Commit stages the last segment and commits the run.
func (s *Stager) Commit(ctx context.Context) (Run, error) {
	var err error
	if len(s.rows) > 0 {
		err = s.flush(ctx, true)
	}
	if err == nil && s.awaits && !s.compares {
		err = s.complete(ctx)
	}
	switch {
	case err != nil:
		return Run{}, err
	case !s.compares:
		return s.ledger.Commit(ctx, s.run, s.sums)
	case len(s.sums) != len(s.stored):
		return Run{}, &MismatchError{Run: s.run.ID, Member: MemberContent, Have: fmt.Sprintf("%d rows", s.run.Rows),
			Want: fmt.Sprintf("%d rows", s.Rows())}
	}
	return s.run, nil
}

// complete completes the segments, which await results until then.
func (s *Stager) complete(ctx context.Context) error {
	for number := range s.sums {
		if err := s.completeSegment(ctx, number); err != nil {
			return fmt.Errorf("run %s: complete segment %d: %w", s.run.ID, number, err)
		}
	}
	for i := range s.recent {
		s.recent[i].late = false
	}
	return nil
}

// completeSegment stores that all results of a segment are known. The error is a
// [MismatchError] if not as many rows are settled.
func (s *Stager) completeSegment(ctx context.Context, number int) error {
	return s.ledger.stageResults(ctx, s.run, staged{number: number, packed: packed{sum: s.sums[number]},
		settled: s.known[number]})
}

// Verify reads back the committed run. It stages and commits again the segments that
// Redis has lost. Call it two seconds after Commit. The error is a [MissingError] if more was
// lost than the stager has in memory, and [ErrNotFound] if the run itself was: then the
// whole run has to be submitted again.
func (s *Stager) Verify(ctx context.Context) error {
	committed, missing, err := s.ledger.Verify(ctx, s.run, s.sums)
	if err != nil || committed {
		return err
	}
	var lost []int
	for _, number := range missing {
		i := slices.IndexFunc(s.recent, func(r recent) bool { return r.number == number })
		if i < 0 {
			// Not in memory. Unless the segment awaited results, Redis has lost more of it than
			// that all of them are known, such as when its rows are due.
			if !s.awaits || s.completeSegment(ctx, number) != nil {
				lost = append(lost, number)
			}
			continue
		}
		again := s.recent[i].staged
		err := s.ledger.stage(ctx, s.run, again)
		if err == nil { // also without results: the segment may await some again
			err = s.ledger.stageResults(ctx, s.run, again)
		}
		if err != nil {
			return fmt.Errorf("run %s: stage segment %d again: %w", s.run.ID, number, err)
		}
	}
	if len(lost) > 0 {
		return &MissingError{Run: s.run.ID, Segments: lost}
	}
	_, err = s.ledger.Commit(ctx, s.run, s.sums)
	return err
}

// flush stages the rows that were added since the last flush.
func (s *Stager) flush(ctx context.Context, last bool) error {
	number := len(s.sums)
	p, err := pack(s.rows)
	if err == nil && number >= MaxSegments {
		err = fmt.Errorf("want at most %d segments", MaxSegments)
	}
	segment := staged{number: number, last: last, packed: p, results: s.settled, dues: s.dues, late: s.awaits}
	segment.order = s.grouping.order(s.rows, s.settled, s.dues)
	isStored := number < len(s.stored) && s.stored[number] == p.sum.stored()
	switch {
	case err != nil:
	case s.compares:
		if !isStored {
			err = mismatch(ErrMismatch, s.run, p.sum)
		}
	case last || !isStored || len(s.dues) > 0:
		err = s.ledger.stage(ctx, s.run, segment)
	default: // an earlier producer may have been killed before it stored every result
		err = s.ledger.stageResults(ctx, s.run, segment)
	}
	if err != nil {
		return fmt.Errorf("run %s: stage segment %d: %w", s.run.ID, number, err)
	}
	s.keep(segment)
	s.known = append(s.known, len(segment.results))
	s.sums = append(s.sums, p.sum)
	s.rows, s.data, s.settled, s.dues = s.rows[:0], s.data[:0], nil, nil // keep retains the latter two
	return nil
}

// keep stores the segment in memory for Verify, and drops segments that Redis cannot lose any
// more.
func (s *Stager) keep(segment staged) {
	now, bytes := time.Now(), segment.bytes()
	s.recent = append(s.recent, recent{staged: segment, at: now, bytes: bytes})
	s.recentBytes += bytes
	for len(s.recent) > 1 && (s.recentBytes > repeatableBytes || now.Sub(s.recent[0].at) > repeatable) {
		s.recentBytes -= s.recent[0].bytes
		s.recent[0] = recent{}
		s.recent = s.recent[1:]
	}
}
