package status

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
)

// Waiting counts the open rows of a run by the reason why they wait.
type Waiting struct {
	Reasons []WaitingFor `json:"reasons,omitempty"`       // the most frequent ones, in falling order
	Further int64        `json:"rows_with_other_reasons"` // apart from these
	// Read is the number of rows that were read, and WithReason the number of all open rows
	// with a reason. If they differ, the counts are those of a sample.
	Read          int64 `json:"rows_read"`
	WithReason    int64 `json:"rows_with_reason"`
	WithoutReason int64 `json:"rows_without_reason"` // that were not executed yet
}

// WaitingFor is a reason that rows have in common, with … for the parts that differ.
type WaitingFor struct {
	Rows   int64     `json:"rows"`
	Reason string    `json:"reason"`
	Next   time.Time `json:"next_check,omitzero"` // the earliest
}

const (
	// WaitingSample is the number of notes to read of a run: a few MB, in less than a second.
	// The shares of the reasons in such a sample are within a percent of the truth.
	WaitingSample = 20_000
	// mostReasons is the number of reasons that are listed.
	mostReasons = 5
)

// WaitingOf counts the open rows of the run by reason, from about sample of them, so that
// its cost does not grow with the run. The result is nil if nothing is known.
func WaitingOf(ctx context.Context, l *ledger.Ledger, r ledger.Run, sample int) (*Waiting, error) {
	if r.Ended() || Stopped(r) != "" {
		return nil, nil
	}
	notes, noted, err := readNotes(ctx, l, r, sample)
	if err != nil {
		return nil, err
	}
	w := Waiting{Read: int64(len(notes)), WithReason: noted}
	if r.HasAllRows() {
		w.WithoutReason = max(r.Total()-r.Settled()-w.WithReason, 0)
	}
	if w.Read == 0 && w.WithoutReason == 0 {
		return nil, nil
	}
	count := map[string]WaitingFor{}
	for _, row := range notes {
		one := count[evidence.Common(row.Reason)]
		one.Reason = evidence.Common(row.Reason)
		one.Rows++
		if one.Next.IsZero() || (!row.Next.IsZero() && row.Next.Before(one.Next)) {
			one.Next = row.Next
		}
		count[one.Reason] = one
	}
	w.rank(count)
	return &w, nil
}

// rank sets the reasons, the most frequent ones first.
func (w *Waiting) rank(count map[string]WaitingFor) {
	w.Reasons = slices.SortedFunc(maps.Values(count), func(a, b WaitingFor) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), strings.Compare(a.Reason, b.Reason))
	})
	if len(w.Reasons) > mostReasons {
		for _, one := range w.Reasons[mostReasons:] {
			w.Further += one.Rows
		}
		w.Reasons = w.Reasons[:mostReasons]
	}
}

// notedRows is the most open rows that readNotes reads.
const notedRows = 4096

// readNotes returns open rows of the run that have a note, and how many of them there are: about
// most of the first open rows.
func readNotes(ctx context.Context, l *ledger.Ledger, r ledger.Run,
	most int) (noted []evidence.Open, total int64, err error) {
	read := 0
	for row, err := range l.Each(ctx, r, ledger.Unsettled, 0) {
		if err != nil {
			return nil, 0, err
		}
		if read == notedRows || len(noted) >= most {
			total, err = l.Waiting(ctx, r)
			return noted, max(total, int64(len(noted))), err
		}
		read++
		if open := evidence.ReadOpen(r.Kind, row); open.Noted {
			noted = append(noted, open)
		}
	}
	return noted, int64(len(noted)), nil
}

// Sampled reports whether the counts are those of a sample.
func (w *Waiting) Sampled() bool { return w.Read < w.WithReason }

// Estimated returns the number of rows with a reason that so many of the read rows have.
func (w *Waiting) Estimated(rows int64) int64 {
	if !w.Sampled() {
		return rows
	}
	return int64(math.Round(float64(rows) / float64(w.Read) * float64(w.WithReason)))
}

// Text returns the reason, and when such a row is checked next.
func (w WaitingFor) Text() string { return w.Reason + nextAt("check", w.Next) }
