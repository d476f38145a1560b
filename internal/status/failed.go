package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"orgops/dnscheck/report"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
)

// FailedReasons counts the failed rows of a run by outcome, the customer's mistake and reason.
type FailedReasons struct {
	Reasons []FailedReason `json:"reasons"` // the most frequent ones first
	// Read is the number of failed rows that were read. If it is less than Failed, the counts are
	// those of the first failed rows.
	Read   int64 `json:"rows_read"`
	Failed int64 `json:"rows_failed"`
}

// FailedReason is an outcome and a reason that failed rows have in common.
type FailedReason struct {
	Rows    int64          `json:"rows"`
	Outcome ledger.Outcome `json:"outcome"`
	// Mistake is the customer's mistake with the record, by the last check; empty: none was found.
	Mistake report.Mistake `json:"mistake,omitempty"`
	// Reason is that of one row as it is, or of several with … for the values that differ: of a
	// mistake, of the first of them.
	Reason string `json:"reason,omitempty"`

	cause evidence.Cause
}

// Cause returns the text by which these rows are selected, apart from the outcome; "": they have
// none.
func (f FailedReason) Cause() string { return f.cause.Text() }

// Text returns the outcome, the mistake and the reason.
func (f FailedReason) Text() string {
	text := string(f.Outcome)
	if f.Mistake != "" {
		text += " (" + string(f.Mistake) + ")"
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

const (
	// failedRead is the largest number of failed rows whose reasons are read, in less than a second.
	failedRead = 10_000
	// resultsRead is the largest number of rows with a result that are read to find failed ones.
	resultsRead = 100_000
)

// FailedByReason counts the failed rows of the run by reason: all of them, or the first 10,000. The
// result is nil if there is none.
func FailedByReason(ctx context.Context, l *ledger.Ledger, r ledger.Run) (*FailedReasons, error) {
	all := FailedReasons{Failed: Failed(r)}
	if all.Failed == 0 {
		return nil, nil
	}

	counts := map[evidence.Cause]*FailedReason{}
	read := 0
	for stored, err := range l.Each(ctx, r, ledger.WithResult, 0) {
		if err != nil {
			return nil, err
		}
		if all.Read == min(all.Failed, failedRead) || read == resultsRead {
			break
		}
		read++
		row := settledRow(r, stored)
		if row.Well() {
			continue
		}
		all.Read++
		of := evidence.CauseOf(stored.Result)
		if counts[of] == nil {
			counts[of] = &FailedReason{Rows: 1, Outcome: row.Outcome, Mistake: of.Mistake, Reason: ShownReason(row.Reason),
				cause: of}
			continue
		}
		counts[of].Rows++
		counts[of].Reason = evidence.Common(counts[of].Reason)
	}

	// The most frequent ones first.
	for one := range maps.Values(counts) {
		all.Reasons = append(all.Reasons, *one)
	}
	slices.SortFunc(all.Reasons, func(a, b FailedReason) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), strings.Compare(a.Text(), b.Text()))
	})
	return &all, nil
}

// FoundFailed returns the numbers of the failed rows that a query selects, in their order. cut says
// that MaxRead rows were read, and that more may be among the others.
func FoundFailed(ctx context.Context, l *ledger.Ledger, r ledger.Run,
	w RowsQuery) (items []int64, cut bool, err error) {
	if w.Which == Unfinished || w.Which == EveryRow || w.Which == OpenRows {
		w.Which = FailedRows
	}
	w.Limit = w.MaxRead
	page, next, err := RowsPage(ctx, l, r, w)
	for _, row := range page {
		if !row.Well() {
			items = append(items, row.Item)
		}
	}
	return items, next > 0, err
}

// Partial reports whether the counts are those of the first failed rows alone.
func (f *FailedReasons) Partial() bool { return f.Read < f.Failed }

// Shared reports whether rows have a reason in common.
func (f *FailedReasons) Shared() bool {
	return slices.ContainsFunc(f.Reasons, func(one FailedReason) bool { return one.Rows > 1 })
}
