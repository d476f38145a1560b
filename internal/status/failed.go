package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck/report"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
)

// FailedReasons counts the failed rows of a run by outcome, the customer's mistake and reason.
type FailedReasons struct {
	// Reasons begin with the most frequent ones. Those of domains that were revoked since are last.
	Reasons []FailedReason `json:"reasons"`
	// Revoked are the lost domains of a sweep that were revoked since, by run.
	Revoked []RevokedRows `json:"revoked,omitempty"`
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
	// RevokedBy is the run that has revoked their domains since a sweep found them lost.
	RevokedBy ledger.RunID `json:"revoked_by,omitempty"`

	cause evidence.Cause
}

// RevokedRows are the rows of a sweep whose domains a run has revoked since.
type RevokedRows struct {
	Run  ledger.RunID `json:"run"`
	Rows int64        `json:"rows"`
	Undo *Undo        `json:"undo"` // of all revocations of the run
}

// Cause returns the text by which these rows are selected, apart from the outcome; "": they have
// none.
func (f FailedReason) Cause() string { return f.cause.Text() }

// Text returns the outcome, the mistake and the reason.
func (f FailedReason) Text() string {
	text := string(f.Outcome) + revokedSince(f.RevokedBy)
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
// result is nil if there is none. Lost domains of a sweep that were revoked since are counted
// apart: their states are read.
func FailedByReason(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, r ledger.Run) (*FailedReasons, error) {
	all := FailedReasons{Failed: Failed(r)}
	if all.Failed == 0 {
		return nil, nil
	}

	// The failed rows, lost ones with the ids of their domains, by which their states are found.
	var rows []Row
	var causes []evidence.Cause
	names := rowNames{ledger: l, run: r}
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
		if row.Outcome == ledger.Lost {
			if err := names.name(ctx, &row, stored.Content); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
		causes = append(causes, evidence.CauseOf(stored.Result))
	}
	if err := ReadRevoked(ctx, rdb, r, rows); err != nil {
		return nil, err
	}
	all.count(string(r.Tenant), rows, causes)
	return &all, nil
}

// count counts rows of the tenant by their causes.
func (f *FailedReasons) count(tenant string, rows []Row, causes []evidence.Cause) {
	type group struct {
		evidence.Cause

		revokedBy ledger.RunID
	}
	reasons := map[group]*FailedReason{}
	revoked := map[ledger.RunID]int64{}
	for i, row := range rows {
		if row.RevokedBy != "" {
			revoked[row.RevokedBy]++
		}
		of := group{causes[i], row.RevokedBy}
		if reasons[of] == nil {
			reasons[of] = &FailedReason{Rows: 1, Outcome: row.Outcome, Mistake: of.Mistake, Reason: ShownReason(row.Reason),
				RevokedBy: row.RevokedBy, cause: of.Cause}
			continue
		}
		reasons[of].Rows++
		reasons[of].Reason = evidence.Common(reasons[of].Reason)
	}

	// The most frequent ones first, but what is revoked already last: nothing is to be done about it.
	for one := range maps.Values(reasons) {
		f.Reasons = append(f.Reasons, *one)
	}
	slices.SortFunc(f.Reasons, func(a, b FailedReason) int {
		return cmp.Or(strings.Compare(string(a.RevokedBy), string(b.RevokedBy)), cmp.Compare(b.Rows, a.Rows),
			strings.Compare(a.Text(), b.Text()))
	})
	for _, run := range slices.Sorted(maps.Keys(revoked)) {
		f.Revoked = append(f.Revoked, RevokedRows{Run: run, Rows: revoked[run], Undo: undoOfRevocation(tenant, string(run))})
	}
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

// Domains returns how many lost domains these are, in words.
func (r RevokedRows) Domains() string { return CountOf(r.Rows, "lost domain") }
