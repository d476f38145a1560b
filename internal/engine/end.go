package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// ending is how the execution ends for a row.
type ending struct {
	row         *Row
	consequence Consequence
	// form is how the ledger leaves the row; nil: it leaves it to another execution.
	form ledger.Ending
	// err says why the ledger did not write it; nil if it did.
	err error
}

// endRows ends the execution for rows, with one write to the ledger.
func (e *Engine) endRows(ctx context.Context, x *Execution, rows []*Row, answers Answers, failure *Consequence) {
	all := endings(rows, answers, failure, e.abandoned(ctx))
	e.block(ctx, all)
	e.write(ctx, x, all)
	for _, one := range all {
		o := one.consequence.Outcome
		if one.err == nil && ledger.Settles(o) && !ledger.Succeeded(o) && o != ledger.Cancelled {
			x.failed = fmt.Errorf("%s: %s: %w", o, one.consequence.Reason, asynq.SkipRetry)
		}
	}
	e.noteUnrecognized(ctx, x, all)
	e.log(ctx, x, all)
}

// noteUnrecognized notes that the run makes no progress if this worker is too old for a row. The
// row is given back for a newer worker, which may not exist.
func (e *Engine) noteUnrecognized(ctx context.Context, x *Execution, all []ending) {
	i := slices.IndexFunc(all, func(one ending) bool { return one.consequence.Outcome == ledger.Unrecognized })
	if i < 0 {
		return
	}
	why := "no worker has executed rows of it: " + all[i].consequence.Reason
	if err := e.cfg.Ledger.NoteStuck(ctx, x.Segment.OfRun(), why); err != nil {
		e.cfg.Logger.WarnContext(ctx, "not noted that the run makes no progress", "run", x.Run, "error", err)
	}
}

// abandoned reports whether the worker stops and did not wait for the execution, whose
// requests then fail.
func (e *Engine) abandoned(ctx context.Context) bool {
	return e.stopping() && errors.Is(ctx.Err(), context.Canceled)
}

// maxDetail and maxEvidence bound detail and evidence of a result, in bytes: together they stay
// below the ledger's 16 KiB.
const (
	maxDetail   = 4 << 10
	maxEvidence = 8 << 10
)

// errNoEnd is a fault of a handler: it must not make its rows done.
var errNoEnd = errors.New("the handler has not said how the row ends")

// endings returns the endings of rows. The failure applies to rows without an answer, which are
// done if it is nil. In an execution that was abandoned no attempt is counted.
func endings(rows []*Row, answers Answers, failure *Consequence, abandoned bool) []ending {
	all := make([]ending, len(rows))
	delays := delays{}
	for i, row := range rows {
		j := Consequence{Outcome: ledger.Done}
		answer, ok := answers[row.Number]
		switch {
		case ok && answer == nil:
			j = Decide(errNoEnd)
		case ok:
			j = *answer
		case failure != nil:
			j = *failure
		}
		if abandoned && j.Counts {
			j = Decide(ErrStopping)
		}
		all[i] = ending{row: row, consequence: decideRow(row, j, delays)}
		all[i].form = form(row, all[i].consequence)
	}
	return all
}

// decideRow returns the consequence of an answer for its row.
func decideRow(row *Row, j Consequence, d delays) Consequence {
	if j.Counts && row.Attempts+1 >= MaxAttempts {
		j = Consequence{
			Outcome: ledger.Failed, Reason: doubt(row) + fmt.Sprintf("given up after %d attempts: %s", row.Attempts+1, j.Reason),
		}
	}
	if j.Counts {
		j.After = max(j.After, d.after(row.Attempts))
	}
	j.After = min(max(j.After, 0), ledger.MaxWait)
	if len(j.Evidence) > maxEvidence {
		j.Evidence = nil
	}
	return j
}

// doubt begins the reason of a row that is given up although a request of it may have had
// its effect.
func doubt(row *Row) string {
	if !row.Intended {
		return ""
	}
	return "its request may have had its effect all the same: read the tenant's record before you repeat the row; "
}

// form returns how the ledger leaves a row; nil for one that belongs to another
// execution.
func form(row *Row, j Consequence) ledger.Ending {
	switch {
	case j.Outcome == ledger.Superseded:
		return nil
	case ledger.Settles(j.Outcome):
		return ledger.Result{Outcome: j.Outcome, Detail: untrusted.Clip(j.Reason, maxDetail), Evidence: j.Evidence}
	case j.Outcome == ledger.Stopping, j.Outcome == ledger.Stopped, j.Outcome == ledger.Isolated,
		j.Outcome == ledger.Unrecognized:
		return ledger.GiveBack{After: j.After, Note: untrusted.Clip(j.Reason, ledger.MaxReason)}
	}
	note := ledger.Note{Outcome: j.Outcome, Reason: j.Reason, Memo: row.Note.Memo}
	if j.Outcome == ledger.NotYetFound { // the memo has the evidence
		note.Reason = ""
	}
	if len(note.Memo) > ledger.MaxNoteMemo { // a fault of the handler, which starts again without it
		note.Memo = nil
	}
	return ledger.Waiting{Stage: cmp.Or(j.Stage, row.Stage), After: j.After, CountAttempt: j.Counts, Fresh: row.fresh,
		Memo: note.Pack()}
}

// delays are the delays after a number of failures. Rows that failed together are
// repeated together.
type delays map[int]time.Duration

func (d delays) after(failures int) time.Duration {
	if d[failures] == 0 {
		d[failures] = Backoff(failures).Round(time.Millisecond)
	}
	return d[failures]
}

// write writes the endings, and stores with each why it was not written.
func (e *Engine) write(ctx context.Context, x *Execution, all []ending) {
	// Rows that another execution has taken over are not written.
	var ends []ledger.RowEnd
	for i, one := range all {
		if one.form == nil {
			all[i].err = ErrSuperseded
			continue
		}
		ends = append(ends, ledger.RowEnd{Row: one.row.Number, Ending: one.form, Subject: one.row.Subject,
			Now: x.reckoned()})
	}
	if len(ends) == 0 {
		return
	}

	// All others are written at once.
	var receipt ledger.Receipt
	err := e.persist(ctx, "end", func(ctx context.Context) (err error) {
		receipt, err = e.cfg.Ledger.End(ctx, x.Segment, x.identity.Nonce, ends...)
		return err
	})
	if errors.Is(err, ledger.ErrNotFound) {
		err = ErrSuperseded
	}

	// The receipt has a status for each row that was written, in their order.
	statuses := receipt.Statuses
	for i, one := range all {
		switch {
		case one.form == nil:
		case err != nil:
			all[i].err = err
		default:
			all[i].err = refusal(statuses[0])
			statuses = statuses[1:]
		}
	}
}

// block blocks the operations that the API refuses to the credentials.
func (e *Engine) block(ctx context.Context, all []ending) {
	done := map[string]bool{}
	for _, one := range all {
		operation := one.consequence.Operation
		if operation == "" || done[operation] || e.cfg.Block == nil {
			continue
		}
		done[operation] = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		if err := e.cfg.Block(ctx, operation, one.consequence.Cause, one.consequence.Fault); err != nil {
			e.cfg.Logger.WarnContext(ctx, "operation not blocked", "operation", operation, "error", err)
		}
		cancel()
	}
}

// log writes one line for rows that end in the same way one after the other, and measures
// the execution.
func (e *Engine) log(ctx context.Context, x *Execution, all []ending) {
	took := e.cfg.Now().Sub(x.started)
	for len(all) > 0 {
		first := all[0]
		n := 1
		for n < len(all) && all[n].alike(first) {
			n++
		}
		outcome, level := first.logged()
		if first.err != nil && level == slog.LevelError {
			e.cfg.Logger.ErrorContext(ctx, "result not stored", "run", x.Run, "segment", x.Segment.Number, "error", first.err)
		}
		e.cfg.Logger.LogAttrs(ctx, level, "task", first.attrs(x, n, outcome, took)...)
		if e.cfg.Observe != nil {
			e.cfg.Observe(ctx, x.Kind, outcome, n, took)
		}
		all = all[n:]
	}
}

// attrs are the members of the log line of an ending that n rows share.
func (e ending) attrs(x *Execution, n int, outcome ledger.Outcome, took time.Duration) []slog.Attr {
	all := []slog.Attr{
		slog.String("type", string(x.Kind)), slog.String("run", string(x.Run)), slog.Int("segment", x.Segment.Number),
		slog.Int("row", int(e.row.Number)),
	}
	if n > 1 {
		all = append(all, slog.Int("rows", n))
	}
	all = append(all, slog.String("task_id", x.task), slog.String("outcome", string(outcome)), slog.Duration("took", took),
		slog.Int("attempt", e.row.Attempts))
	if reason := e.consequence.Reason; reason != "" {
		all = append(all, slog.String("reason", reason))
	}
	if !ledger.Settles(outcome) && e.consequence.After > 0 {
		all = append(all, slog.Duration("again_in", e.consequence.After.Round(time.Second)))
	}
	return all
}

// alike reports whether two endings are logged in one line.
func (e ending) alike(other ending) bool {
	a := e.consequence
	b := other.consequence
	return a.Outcome == b.Outcome && a.Reason == b.Reason && a.After == b.After && errors.Is(e.err, other.err)
}

// logged returns outcome and level of the log line of an ending.
func (e ending) logged() (ledger.Outcome, slog.Level) {
	switch {
	case e.err == nil:
		return e.consequence.Outcome, levelOf(e.consequence.Outcome)
	case errors.Is(e.err, ErrSuperseded):
		return ledger.Superseded, slog.LevelDebug
	case errors.Is(e.err, ErrStopped): // the write met a cancelled run
		return ledger.Cancelled, slog.LevelInfo
	}
	return e.consequence.Outcome, slog.LevelError
}
