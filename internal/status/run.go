package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/runs"
)

// State returns the state of a run in a few words.
func State(r ledger.Run) string {
	switch {
	case r.Ended() && !r.CancelledAt.IsZero():
		return "cancelled after " + r.EndedAt.Sub(r.CreatedAt).Round(time.Second/10).String()
	case !r.CancelledAt.IsZero():
		return "cancelled; " + UnderWay(r)
	case r.Ended():
		return "ended after " + r.EndedAt.Sub(r.CreatedAt).Round(time.Second/10).String()
	case Stopped(r) != "":
		return Stopped(r)
	case r.Scanning():
		return "scanning for rows"
	case !r.Sealed():
		return "being submitted"
	}
	return "open"
}

// Stopped returns why no row of the run starts: it is paused, incomplete or postponed. "":
// rows start.
func Stopped(r ledger.Run) string {
	switch {
	case r.Paused:
		return "paused"
	case r.Incomplete:
		return "incomplete"
	case r.NotBefore.After(time.Now()):
		return "postponed until " + Stamp(r.NotBefore)
	}
	return ""
}

// UnderWay describes the rows in progress of a cancelled run.
func UnderWay(r ledger.Run) string {
	if rows := r.Total() - r.Settled(); rows != 1 {
		return fmt.Sprintf("%d rows are in progress and finish first", rows)
	}
	return "1 row is in progress and finishes first"
}

// Counts returns the outcomes of a run: "198 done, 3 expired".
func Counts(r ledger.Run) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(r.Counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Counts[outcome], outcome))
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case r.Ended() && r.Total() == 0:
		return "no rows"
	}
	return "none settled"
}

// Total returns the number of the run's rows, or "?" while that is not known.
func Total(r ledger.Run) string {
	if !r.Sealed() {
		return "?"
	}
	return fmt.Sprint(r.Total())
}

// Failure returns why the runs did not succeed: rows failed, or a scan left organizations out.
// nil: they did.
func Failure(all ...ledger.Run) (err error) {
	failed := int64(0)
	for _, r := range all {
		failed += Failed(r)
		if out := LeftOut(r); out != "" {
			err = errors.Join(err, fmt.Errorf("run %s: the scan left domains out: %s", r.ID, out))
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("failed rows: %d", failed))
	}
	return err
}

// Failed returns the number of the run's failed rows.
func Failed(r ledger.Run) int64 { return r.Settled() - r.Counts["done"] - r.Counts["unchanged"] }

// Trouble returns the faults of a run that an operator has to correct.
func Trouble(r ledger.Run) []Fact {
	scan := ""
	if LeftOut(r) != "" {
		scan = ScanState(r)
	}
	return facts(Fact{"lost", LostRows(r)}, Fact{"scan", scan}, Fact{"producer", SilentProducer(r)})
}

// LostRows describes how to proceed if Redis has lost rows of the run; "": it has not.
func LostRows(r ledger.Run) string {
	if !r.Incomplete || r.Ended() {
		return ""
	}
	const lost = "Redis has lost rows of it, and it is stopped: "
	if r.Scan != nil || !intake.CanRetry(r.Kind) {
		return lost + "cancel it: enqueue runs cancel " + string(r.ID)
	}
	return lost + completeOrCancel(r.ID)
}

// SilentProducer describes how to proceed if no rows of the run come any more: see
// [SilentSince]; "": they do, or all have come.
func SilentProducer(r ledger.Run) string {
	since := SilentSince(r, time.Now())
	if since.IsZero() {
		return ""
	}
	return fmt.Sprintf("silent since %s; if it has ended: %s", Stamp(since), completeOrCancel(r.ID))
}

// silentAfter is a hundred times as long as a producer takes from one segment of rows to
// the next.
const silentAfter = 5 * time.Minute

// SilentSince returns when the last rows of the run were staged, if it is still being
// submitted and no rows were staged for five minutes; else the zero time.
func SilentSince(r ledger.Run, now time.Time) time.Time {
	if r.Sealed() || r.Scan != nil || now.Sub(r.StagedAt) < silentAfter {
		return time.Time{}
	}
	return r.StagedAt
}

// completeOrCancel is the instruction for a run whose rows did not all come.
func completeOrCancel(run ledger.RunID) string {
	return fmt.Sprintf("submit the same rows again with --run %s, or cancel it: enqueue runs cancel %s", run, run)
}

// WriteRuns writes one line per run.
func WriteRuns(out io.Writer, all []ledger.Run) error {
	w := NewTable(out)
	fmt.Fprintln(w, "RUN\tKIND\tTENANT\tROWS\tSETTLED\tSTATE\tOUTCOMES")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Kind, r.Tenant, Total(r), r.Settled(), State(r), Counts(r))
	}
	return w.Flush()
}

// Child is a run that repeats rows of another.
type Child struct {
	ledger.Run

	Missing bool // it was interrupted before it was created
}

// String returns the child's id and state.
func (c Child) String() string { return string(c.ID) + " (" + c.State() + ")" }

// State returns the state and counts of the child.
func (c Child) State() string {
	if c.Missing {
		return fmt.Sprintf("interrupted before it started; to complete it: enqueue runs retry %s --run %s", c.Parent, c.ID)
	}
	return State(c.Run) + "; " + Counts(c.Run)
}

// Children returns the runs that repeat rows of this one.
func Children(ctx context.Context, l *runs.Ledger, r ledger.Run) ([]Child, error) {
	var all []Child
	for _, id := range r.Children {
		one, err := l.Get(ctx, id)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			all = append(all, Child{ledger.Run{ID: id, Description: ledger.Description{Parent: r.ID}}, true})
		case err != nil:
			return nil, err
		default:
			all = append(all, Child{Run: one})
		}
	}
	return all, nil
}
