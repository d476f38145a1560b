package terminal

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/stamp"
	"orgops/internal/status"
)

// WriteRuns writes one line per run, and below these why runs wait, each reason of a tenant once.
func WriteRuns(out io.Writer, all []status.Run) error {
	// A line for each run.
	w := NewTable(out)
	fmt.Fprintln(w, "RUN\tKIND\tTENANT\tROWS\tSETTLED\tSTATE\tOUTCOMES")
	type reason struct {
		tenant ledger.Tenant
		why    string
	}
	var reasons []reason
	waiting := map[reason][]string{}
	for _, d := range all {
		r := d.Ledger
		state := d.Text
		if d.Held != "" {
			state = strings.Replace(state, ": "+d.Held, "", 1)
			why := reason{r.Tenant, d.Held}
			if len(waiting[why]) == 0 {
				reasons = append(reasons, why)
			}
			waiting[why] = append(waiting[why], string(r.ID))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Kind, r.Tenant, status.Total(r), r.Settled(), state,
			status.Counts(r))
	}
	if err := w.Flush(); err != nil {
		return err
	}

	// Why they wait.
	const named = 3
	for _, why := range reasons {
		runs := waiting[why]
		verb := "waits"
		if len(runs) > 1 {
			verb = "wait"
		}
		what := strings.Join(runs[:min(len(runs), named)], ", ")
		if more := len(runs) - named; more > 0 {
			what += " and " + status.CountOf(int64(more), "other run")
		}
		fmt.Fprintf(out, "%s of tenant %s %s: %s\n", what, why.tenant, verb, why.why)
	}
	return nil
}

// WriteRun writes the details of a run.
func WriteRun(out io.Writer, d status.RunDetails) error {
	// The run and its activity.
	w := NewTable(out)
	r := d.Ledger
	w.Line("run", string(d.ID))
	w.Facts(d.Facts())
	w.Line("state", d.StateText())
	w.Line("producer", status.SilentProducer(r))
	w.Line("no progress", d.Stuck.String())
	for _, o := range d.Obstacles {
		w.Line("waits", o.String())
	}
	w.Line("rows", status.Total(r))
	w.Line("settled", fmt.Sprintf("%d: %s", d.Settled, status.Counts(r)))
	for _, e := range d.Activity {
		w.Line(stamp.UTC(e.At), status.Joined(fmt.Sprintf("%s by %s", e.Action, e.Who()), status.ShownReason(e.Result)))
	}
	if err := w.Flush(); err != nil {
		return err
	}

	// The reasons of open and failed rows, and the rows.
	if err := WriteWaiting(out, d.Waiting); err != nil {
		return err
	}
	if err := WriteFailedReasons(out, d.FailedBy); err != nil {
		return err
	}
	open := int64(len(d.OpenRows))
	if d.Rows != nil {
		open = *d.Rows - d.Settled
	}
	writeRows(out, d, "open", d.OpenRows, open)
	WriteFailedRows(out, d)
	return nil
}

// WriteFailedRows writes the failed rows of a run under a heading, or nothing if there is none.
func WriteFailedRows(out io.Writer, d status.RunDetails) {
	writeRows(out, d, "failed", d.FailedRows, status.Failed(d.Ledger))
}

// writeRows writes rows of a run under a heading, or nothing if it has none; all is how many there
// are.
func writeRows(out io.Writer, d status.RunDetails, what string, rows []status.Row, all int64) {
	if all == 0 {
		return
	}
	fmt.Fprintf(out, "\nrun %s (%s), %s rows:\n", d.ID, d.Kind, what)
	for _, row := range rows {
		fmt.Fprintf(out, "  %s\n", row)
	}
	more(out, all-int64(len(rows)))
}

// WriteFailedByReason writes why rows of the run failed: each reason once, the most frequent
// first, with the rows that failed for it. It reads no more than most rows. about returns
// more about a row, or "".
func WriteFailedByReason(ctx context.Context, out io.Writer, l *ledger.Ledger, r ledger.Run, most int,
	about func(status.Row) string) error {
	failed, err := status.FirstFailed(ctx, l, r, most)
	if err != nil || len(failed) == 0 {
		return err
	}
	fmt.Fprintf(out, "\nrun %s (%s), %d of %d rows failed:\n", r.ID, r.Kind, status.Failed(r), r.Total())

	// The rows by their reasons, the most frequent one first.
	groups := map[string][]status.Row{}
	for _, row := range failed {
		groups[evidence.Common(row.Text())] = append(groups[evidence.Common(row.Text())], row)
	}
	reasons := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(len(groups[b])-len(groups[a]), cmp.Compare(groups[a][0].Item, groups[b][0].Item))
	})

	// Each reason, with the first of its rows.
	const named = 3
	for _, reason := range reasons {
		rows := groups[reason]
		if len(rows) == 1 { // nothing is shared: the reason as it is
			reason = rows[0].Text()
		}
		fmt.Fprintf(out, "  %d %s\n", len(rows), reason)
		for _, row := range rows[:min(len(rows), named)] {
			fmt.Fprintf(out, "     row %d (%s)", row.Item, row.Name)
			if more := about(row); more != "" {
				fmt.Fprintf(out, ": %s", more)
			}
			fmt.Fprintln(out)
		}
		if rest := len(rows) - named; rest > 0 {
			fmt.Fprintf(out, "     and %d more\n", rest)
		}
	}
	more(out, status.Failed(r)-int64(len(failed)))
	return nil
}

// WriteWaiting writes a line for each reason why rows wait under a heading, or nothing if there is
// none.
func WriteWaiting(out io.Writer, w *status.Waiting) error {
	if w == nil || w.Read == 0 {
		return nil
	}
	of := ""
	about := ""
	if w.Sampled() {
		of = fmt.Sprintf(" (estimated from %d of %d)", w.Read, w.WithReason)
		about = "about "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nits open rows wait for%s:\n", of)
	for _, one := range w.Reasons {
		fmt.Fprintf(&b, "  %s%s: %s\n", about, status.CountOf(w.Estimated(one.Rows), "row"), one.Text())
	}
	if w.Further > 0 {
		fmt.Fprintf(&b, "  %s%s: other reasons\n", about, status.CountOf(w.Estimated(w.Further), "row"))
	}
	if w.WithoutReason > 0 {
		fmt.Fprintf(&b, "  %s: their turn (a worker, or a permit of the tenant's rate)\n", status.CountOf(w.WithoutReason, "row"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// WriteFailedReasons writes a line for each reason why rows failed under a heading, unless no rows
// have one in common, and which lost domains were revoked since, with the undo.
func WriteFailedReasons(out io.Writer, f *status.FailedReasons) error {
	if f == nil {
		return nil
	}
	var b strings.Builder
	if f.Shared() {
		of := ""
		if f.Partial() {
			of = fmt.Sprintf(" (the first %d of %d)", f.Read, f.Failed)
		}
		fmt.Fprintf(&b, "\nits failed rows by reason%s:\n", of)
		for _, one := range f.Reasons {
			fmt.Fprintf(&b, "  %s: %s\n", status.CountOf(one.Rows, "row"), one.Text())
		}
	}
	for _, revoked := range f.Revoked {
		fmt.Fprintf(&b, "\n%s revoked since by run %s; to undo that: %s\n", revoked.Domains(), revoked.Run, revoked.Undo)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
