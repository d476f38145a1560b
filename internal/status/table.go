package status

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orgops/internal/runs"
)

// Table is a table on a terminal; Flush writes it.
type Table struct{ *tabwriter.Writer }

// NewTable returns a table that goes to out.
func NewTable(out io.Writer) Table { return Table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)} }

// Line adds a property and its value, unless that is empty.
func (t Table) Line(name, value string) {
	if value != "" {
		fmt.Fprintf(t, "%s\t%s\n", name, value)
	}
}

// WriteRuns writes one line per run.
func WriteRuns(out io.Writer, all []runs.Run) error {
	w := NewTable(out)
	fmt.Fprintln(w, "RUN\tKIND\tTENANT\tROWS\tSETTLED\tSTATE\tOUTCOMES")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Kind, r.Tenant, Total(r), r.Settled, State(r), Counts(r))
	}
	return w.Flush()
}

// State is a run's state in a word or two.
func State(r runs.Run) string {
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
	case !r.Sealed:
		return "being submitted"
	}
	return "open"
}

// Stopped says in a word or two what keeps the run's rows from starting: it is paused,
// incomplete or postponed. Empty: nothing does.
func Stopped(r runs.Run) string {
	switch {
	case r.Paused:
		return "paused"
	case r.Incomplete:
		return "incomplete"
	case r.NotBefore.After(time.Now()):
		return "postponed until " + stamp(r.NotBefore)
	}
	return ""
}

// UnderWay tells of the rows of a cancelled run that had begun.
func UnderWay(r runs.Run) string {
	if rows := r.Total - r.Settled; rows != 1 {
		return fmt.Sprintf("%d rows are in progress and finish first", rows)
	}
	return "1 row is in progress and finishes first"
}

// Failed counts the run's failed rows.
func Failed(r runs.Run) int64 { return r.Settled - r.Counts["done"] - r.Counts["unchanged"] }
