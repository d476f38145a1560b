package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/backoff"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// Config configures an [Engine].
type Config struct {
	Tenant ledger.Tenant
	Ledger Ledger
	// Session is the worker's, which [KeepSession] renews.
	Session ledger.SessionID
	// Handlers are those of the kinds that this worker knows.
	Handlers map[ledger.Kind]Handler
	// Stopping is closed when the worker stops: handlers leave where that is safe. nil:
	// never.
	Stopping <-chan struct{}
	// Alone is locked while a row is executed that may take its worker down. The engines of a
	// process share it. nil: there is no other engine.
	Alone *sync.Mutex
	// Timeout bounds a handler; 0: 5 minutes. It must be shorter than [TaskTimeout].
	Timeout time.Duration
	// Block blocks an API operation ("*": all) for the fleet, apart from a probe now and
	// then. nil: nothing is blocked.
	Block func(ctx context.Context, operation, reason string, fault apiclient.Fault) error
	// Observe is called at the end of each execution, once for rows that end in the same
	// way, with their number. nil: not called.
	Observe func(ctx context.Context, kind ledger.Kind, outcome ledger.Outcome, rows int, took time.Duration)
	// Requested is called right before each request that an execution of a run sends. nil: not called.
	Requested func(run ledger.RunID)
	Logger    *slog.Logger // nil: none
	// Now is the clock of executions; nil: time.Now.
	Now func() time.Time
	// ClocksDiffer is by how much that and Redis' clock may differ for a row to be executed; 0: by any
	// time.
	ClocksDiffer time.Duration
}

const (
	// TaskTimeout is the timeout of an asynq task: an execution that is still running
	// then has lost its rows to [ledger.ExecutionLimit].
	TaskTimeout = ledger.ExecutionLimit
	// defaultTimeout leaves time for the last write before TaskTimeout.
	defaultTimeout = 5 * time.Minute
)

// Engine is the asynq handler of one tenant.
type Engine struct {
	cfg Config

	mu      sync.Mutex
	running map[ledger.Nonce]*Execution // from before Begin to after the last write
}

// New returns the engine of a tenant.
func New(cfg Config) *Engine {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Alone = cmp.Or(cfg.Alone, new(sync.Mutex))
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("tenant", cfg.Tenant)
	if cfg.Requested == nil {
		cfg.Requested = func(ledger.RunID) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Engine{cfg: cfg, running: map[ledger.Nonce]*Execution{}}
}

// ProcessTask implements [asynq.Handler]. An error is for asynq's archive only: it says
// why rows have failed.
func (e *Engine) ProcessTask(ctx context.Context, t *asynq.Task) error {
	task, err := ParseTask(e.cfg.Tenant, t.Payload())
	var unknown *UnknownError
	if err != nil && !errors.As(err, &unknown) {
		e.cfg.Logger.WarnContext(ctx, "task is unreadable", "error", err)
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	parts := e.newExecutions(task)
	e.track(parts)
	defer e.untrack(parts)
	all := e.beginAll(ctx, task, parts)
	end := e.isolate(ctx, all)
	defer end()
	ctx = apiclient.WithCorrelationID(ctx, task.ID())
	var failed error
	e.execute(ctx, all, unknown)
	for _, x := range all {
		e.endRows(ctx, x, append(x.ended, x.Rows...), x.answers, x.failure)
		failed = cmp.Or(x.failed, failed)
	}
	return failed
}

// beginAll begins the executions, and returns those that were admitted to any row.
func (e *Engine) beginAll(ctx context.Context, task Task, parts []*Execution) (admitted []*Execution) {
	for i, p := range task.parts() {
		x := parts[i]
		if err := e.begin(ctx, x, p); err != nil {
			break // the ledger makes the rows due again, also those of the other parts
		}
		if len(x.Rows) > 0 {
			admitted = append(admitted, x)
		}
	}
	return admitted
}

// aloneAgain is when a suspected row is due again while another one is executed: see
// [ledger.SuspectedFrom].
const aloneAgain = 5 * time.Second

// isolate leaves a suspected row alone in its task, and the only one of this process until the
// function that it returns is called: it must not use up the attempts of others. The execution of
// rows that have to wait ends at once, so that they do not die with the suspected one.
func (e *Engine) isolate(ctx context.Context, all []*Execution) (end func()) {
	var suspect *Row
	for _, x := range all {
		for _, row := range x.Rows {
			if suspect == nil && row.Died >= ledger.SuspectedFrom {
				suspect = row
			}
		}
	}
	if suspect == nil {
		return func() {}
	}

	// This process executes one suspected row at a time. If another one is being executed, all
	// suspected rows are given back; else all rows but this one, which is then alone in its task.
	alone := e.cfg.Alone.TryLock()
	for _, x := range all {
		waiting := Answers{}
		for _, row := range x.Rows {
			suspected := row.Died >= ledger.SuspectedFrom
			if (alone && row == suspect) || (!alone && !suspected) {
				continue
			}
			waits := &Consequence{Outcome: ledger.Isolated, Reason: "waits for the end of a row that may have taken workers down"}
			if suspected {
				waits.After = backoff.Spread(aloneAgain)
			}
			waiting[row.Number] = waits
		}
		x.End(ctx, waiting)
	}
	if alone {
		return e.cfg.Alone.Unlock
	}
	return func() {}
}

// execute lets the handler carry out the rows, apart from those that this worker does not
// know or that must not be executed. Each execution has its answers then.
func (e *Engine) execute(ctx context.Context, all []*Execution, unknown *UnknownError) {
	var fit []*Execution
	for _, x := range all {
		if x.failure = e.unfit(x, unknown); x.failure != nil {
			continue
		}
		if maps.Copy(x.answers, exhausted(x)); len(x.Rows) > 0 {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		return
	}
	answers, err := e.carryOut(ctx, fit)
	for i, x := range fit {
		if err != nil {
			x.failure = Fail(err)
		}
		if i < len(answers) {
			maps.Copy(x.answers, answers[i])
		}
	}
}

// unfit returns why this worker does not execute the rows; nil if it does.
func (e *Engine) unfit(x *Execution, unknown *UnknownError) *Consequence {
	_, known := e.cfg.Handlers[x.Kind]
	switch {
	case unknown != nil:
		return Fail(unknown)
	case !known:
		return Fail(&UnknownError{What: fmt.Sprintf("kind %q", string(x.Kind))})
	case e.stopping():
		return Fail(ErrStopping)
	case x.clock != 0:
		return &Consequence{Outcome: ledger.Transient, After: clockAgain, Reason: fmt.Sprintf("not executed: redis' clock differs by "+
			"%s from the worker's; set both by NTP", x.clock.Round(time.Second))}
	}
	for _, row := range x.Rows {
		if row.Stage != ledger.StageCheck && row.Stage != ledger.StageReady {
			return Fail(&UnknownError{What: fmt.Sprintf("stage %s", untrusted.Value(row.Stage))})
		}
	}
	return nil
}

// carryOut calls the handler, and returns its answers for each execution.
func (e *Engine) carryOut(ctx context.Context, all []*Execution) (answers []Answers, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	x := all[0]
	err = Protect(func() (err error) {
		handler := e.cfg.Handlers[x.Kind]
		if len(all) == 1 {
			answers = make([]Answers, 1)
			answers[0], err = handler.Execute(ctx, x)
			return err
		}
		batch, ok := handler.(BatchHandler)
		if !ok {
			return &UnknownError{What: fmt.Sprintf("tasks of several runs of kind %q", string(x.Kind))}
		}
		answers, err = batch.ExecuteAll(ctx, all)
		return err
	})
	if p, ok := errors.AsType[*PanicError](err); ok {
		e.cfg.Logger.ErrorContext(ctx, "handler panicked", "run", x.Run, "kind", x.Kind, "panic", fmt.Sprint(p.Value),
			"stack", string(p.Stack))
	}
	return answers, err
}

// exhausted takes the rows out of the execution that must not be executed, and returns
// their answers: rows whose attempts had no end too often, since such a row may take
// its worker down with it, and rows whose stored state cannot be read.
func exhausted(x *Execution) Answers {
	spent := Answers{}
	left := x.Rows[:0:0]
	for _, row := range x.Rows {
		var detail string
		switch {
		case row.damage != nil:
			detail = row.damage.Error()
		case row.Attempts >= MaxAttempts:
			detail = doubt(row) + fmt.Sprintf(
				"given up after %d attempts; the last ended without an answer (its worker died or its time was up)", row.Attempts)
		default:
			left = append(left, row)
			continue
		}
		x.ended = append(x.ended, row)
		spent[row.Number] = Settle(ledger.Result{Outcome: ledger.Failed, Detail: detail})
	}
	x.Rows = left
	return spent
}

// stopping reports whether the worker stops.
func (e *Engine) stopping() bool {
	select {
	case <-e.cfg.Stopping:
		return true
	default:
		return false
	}
}

// Running returns how many executions are in progress.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running)
}

func (e *Engine) track(all []*Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range all {
		e.running[x.identity.Nonce] = x
	}
}

func (e *Engine) untrack(all []*Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range all {
		delete(e.running, x.identity.Nonce)
	}
}

// current returns the executions that are running or beginning, by nonce.
func (e *Engine) current() map[ledger.Nonce]*Execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.running)
}

// GiveBack gives back the rows of all executions that are still running or beginning, when
// a worker stops that cannot wait for them any longer. Their later writes have no effect.
func (e *Engine) GiveBack(ctx context.Context) error {
	var failed error
	for nonce, x := range e.current() {
		if ctx.Err() != nil { // commands go on after it, and each waits for a Redis that is away
			return errors.Join(failed, ctx.Err())
		}
		_, err := e.cfg.Ledger.End(ctx, x.Segment, nonce,
			ledger.Ends(ledger.GiveBack{Note: ErrStopping.Error()}, x.all...)...)
		failed = errors.Join(failed, err)
	}
	return failed
}
