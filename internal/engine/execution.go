package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/ledger"
)

// checkEvery is how long the ledger's last answer is good for: a request begins at most
// that long after its run was paused or cancelled.
const checkEvery = time.Second

// Execution is one execution of rows of a segment. Its methods are for the goroutine of
// the handler.
type Execution struct {
	Run     ledger.RunID
	Segment ledger.Segment
	Kind    ledger.Kind
	// Submitted is when the run was created, in Redis' time.
	Submitted time.Time
	// GiveUp is how long a row of the run may wait for its token; 0: as long as its tenant lets it.
	GiveUp time.Duration
	// Max is the most verified domains of the tenant that may be set to pending in seven days; 0: not
	// set.
	Max int64
	// Rows are those that this execution, and no other, has.
	Rows []*Row
	// FinishOnly says that no new request may begin: the run is paused or
	// cancelled, and rows have an intent whose request may have had its effect.
	FinishOnly bool
	// Cancelled says that this is for good: the run is cancelled.
	Cancelled bool

	task string // its id
	// clock is by how much Redis' clock differs from this machine's; 0: no more than is tolerated.
	clock    time.Duration
	engine   *Engine
	ledger   Ledger
	identity ledger.Execution
	begun    time.Time    // Redis' time
	answered time.Time    // this process's time of the last answer of the ledger
	started  time.Time    // this process's time of the begin
	all      []ledger.Row // the task's, admitted or not
	ended    []*Row       // admitted, but not for the handler
	answers  Answers
	failure  *Consequence // of the rows without an answer; nil: they are done
	failed   error        // for asynq's archive: why rows have failed

	requested time.Time // see Requested
}

// Row is a row in progress.
type Row struct {
	Number  ledger.Row
	Content []byte
	// Stage, Attempts, Died and FirstBegun are as in [ledger.Checkpoint].
	Stage      ledger.Stage
	Attempts   int
	Died       int
	FirstBegun time.Time
	// Note is the note of the execution before. The handler may replace Note.Memo, which
	// is stored if the row stays open.
	Note ledger.Note
	// Intent is the intent of an earlier execution; nil if there is none. Until twice the
	// request timeout after it, the only requests allowed are reads.
	Intent *ledger.Intent
	// Intended reports whether the row has an intent in the ledger.
	Intended bool
	// Subject is the object of the row, as the handler has read it; nil: not known. It is stored
	// with the end of the execution.
	Subject *ledger.Subject

	fresh  bool  // see Progressed
	damage error // why the row's stored values cannot be read; nil if they can
}

// Progressed says that the execution has done a part of the row's work: attempts before do not
// count any more.
func (r *Row) Progressed() {
	r.Attempts = 0
	r.fresh = true
}

// Now returns Redis' time, by which the ledger's times are compared.
func (x *Execution) Now() time.Time { return x.begun.Add(x.engine.cfg.Now().Sub(x.started)) }

// reckoned returns Redis' time by this machine's clock, from which on rows wait. If Redis' was
// ahead of it at the begin, that is this machine's time.
func (x *Execution) reckoned() time.Time { return x.Now().Add(-max(x.clock, 0)) }

// Intend stores the intent of a request for the row. If it returns an error the request
// must not be made.
func (x *Execution) Intend(ctx context.Context, row *Row, intent []byte) error {
	if row.Intended { // in a stopped run the ledger refuses a first intent, and replaces a later one
		if err := x.Allowed(ctx); err != nil {
			return err
		}
	}
	if x.FinishOnly {
		return ErrStopped
	}
	if err := x.Amend(ctx, row, intent); err != nil {
		return err
	}
	if x.FinishOnly {
		return ErrStopped
	}
	return nil
}

// Amend stores the intent of a row even if its run is stopped: to record the result of
// the request, or that it is being reverted. A row without an intent gets none then.
func (x *Execution) Amend(ctx context.Context, row *Row, intent []byte) error {
	asked := x.engine.cfg.Now()
	receipt, err := x.ledger.Intend(ctx, x.Segment, x.identity.Nonce, intent, row.Number)
	if err != nil {
		return fmt.Errorf("store the intent: %w", err)
	}
	x.answered = asked
	x.learn(receipt)
	if err := refused(receipt); err != nil {
		return err
	}
	row.Intended = true
	return nil
}

// Withdraw takes the row's intent away: no request is under way, and none has had an
// effect.
func (x *Execution) Withdraw(ctx context.Context, row *Row) error {
	receipt, err := x.ledger.Withdraw(ctx, x.Segment, x.identity.Nonce, row.Number)
	if err != nil {
		return fmt.Errorf("withdraw the intent: %w", err)
	}
	if err := refused(receipt); err != nil {
		return err
	}
	row.Intent = nil
	row.Intended = false
	return nil
}

// learn stores whether a receipt allows new requests.
func (x *Execution) learn(r ledger.Receipt) {
	x.Cancelled = r.Cancelled
	x.FinishOnly = r.Stopped || x.Cancelled
}

// refused returns the error for the first row that the ledger did not write.
func refused(r ledger.Receipt) error {
	for _, status := range r.Statuses {
		if err := refusal(status); err != nil {
			return err
		}
	}
	return nil
}

// refusal returns the error for a row that the ledger did not write; nil if it did.
func refusal(status ledger.Status) error {
	switch status {
	case ledger.RowSettled, ledger.RowSuperseded:
		return ErrSuperseded
	case ledger.RowStopped, ledger.RowCancelled:
		return ErrStopped
	}
	return nil
}

// Fenced binds a client to the execution. Right before each of its requests, with the permit in
// hand, [Execution.Allowed] checks whether it may still be made; if not, nothing is sent, and the
// caller gets the error.
func (x *Execution) Fenced() apiclient.Binding {
	return apiclient.Binding{Changed: x.audit, Before: func(ctx context.Context) error {
		x.requests()
		return x.Allowed(ctx)
	}}
}

// Unfenced binds a client that does not ask the ledger. It is for reads that find the result of an
// earlier request, which a stopped run needs too, and for the request that reverts one.
func (x *Execution) Unfenced() apiclient.Binding {
	return apiclient.Binding{Changed: x.audit, Before: func(context.Context) error {
		x.requests()
		return nil
	}}
}

// requests records that a request is about to be sent.
func (x *Execution) requests() {
	x.requested = x.Now()
	x.engine.cfg.Requested(x.Run)
}

// audit logs a change that a request of the execution has made.
func (x *Execution) audit(ctx context.Context, c apiclient.Change) {
	rows := make([]ledger.Row, len(x.Rows))
	for i, row := range x.Rows {
		rows[i] = row.Number
	}
	x.Audit(ctx, c, rows)
}

// Audit logs a change that a request for rows of the execution has made, with more attributes. A
// row whose answer from the ledger was lost is executed again: the line is about the request, and
// each request has one.
func (x *Execution) Audit(ctx context.Context, c apiclient.Change, rows []ledger.Row, more ...any) {
	attrs := []any{"event", "change made", "run", x.Run, "segment", x.Segment.Number, "rows", rows, "operation",
		c.Operation, "method", c.Method, "path", c.Path, "status", c.Status, "correlation_id", c.CorrelationID}
	if c.RequestID != "" {
		attrs = append(attrs, "request_id", c.RequestID)
	}
	x.engine.cfg.Logger.InfoContext(ctx, "audit", append(attrs, more...)...)
}

// Requested returns when the last request of the clients that are bound to the execution was about
// to be sent, in Redis' time. Zero: none was.
func (x *Execution) Requested() time.Time { return x.requested }

// Stopping reports whether the worker stops: then no request begins that changes something.
func (x *Execution) Stopping() bool { return x.engine.stopping() }

// Allowed returns nil if a request may begin now: the ledger said so within the last second.
// The error is [ErrStopped] or [ErrSuperseded] if it may not, or that of Redis.
func (x *Execution) Allowed(ctx context.Context) error {
	if x.engine.cfg.Now().Sub(x.answered) >= checkEvery {
		if err := x.ask(ctx); err != nil {
			return err
		}
	}
	if x.FinishOnly {
		return ErrStopped
	}
	return nil
}

// ask asks the ledger whether the rows still belong to this execution, and whether new
// requests may begin. A Begin that is repeated with its nonce returns that and changes
// nothing.
func (x *Execution) ask(ctx context.Context) error {
	asked := x.engine.cfg.Now()
	begun, err := x.ledger.Begin(ctx, x.Segment, x.identity, x.numbers()...)
	if errors.Is(err, ledger.ErrNotFound) {
		return ErrSuperseded
	}
	if err != nil {
		return fmt.Errorf("ask whether the row is still wanted: %w", err)
	}
	for _, row := range begun.Rows {
		if row.Status != ledger.RowAdmitted {
			return ErrSuperseded
		}
	}
	x.answered = asked
	x.learn(begun.Receipt)
	return nil
}

// End ends the execution of the rows that have an answer, which leave x.Rows. A handler
// that makes several requests calls it before each: if its worker dies, only the last
// request is repeated. Before the request the ledger says whether the other rows still
// belong to the execution, as always.
func (x *Execution) End(ctx context.Context, answers Answers) {
	var answered, left []*Row
	for _, row := range x.Rows {
		if _, ok := answers[row.Number]; ok {
			answered = append(answered, row)
		} else {
			left = append(left, row)
		}
	}
	x.engine.endRows(ctx, x, answered, answers, nil)
	x.Rows = left
}

func (x *Execution) numbers() []ledger.Row {
	rows := make([]ledger.Row, len(x.Rows))
	for i, row := range x.Rows {
		rows[i] = row.Number
	}
	return rows
}
