package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/ledger"
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
	// Timeout bounds a handler; 0: 5 minutes. It must be shorter than [TaskTimeout].
	Timeout time.Duration
	// Block blocks an API operation ("*": all) for the fleet, apart from a probe now and
	// then. nil: nothing is blocked.
	Block func(ctx context.Context, operation, reason string) error
	// Observe is called at the end of each execution, once for rows that end in the same
	// way, with their number. nil: not called.
	Observe func(ctx context.Context, kind ledger.Kind, outcome ledger.Outcome, rows int, took time.Duration)
	Logger  *slog.Logger // nil: none
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
	// segments are those of executions, with the time at which one last began or ended.
	segments map[ledger.Segment]time.Time
}

// New returns the engine of a tenant.
func New(cfg Config) *Engine {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("tenant", cfg.Tenant)
	return &Engine{cfg: cfg, running: map[ledger.Nonce]*Execution{}, segments: map[ledger.Segment]time.Time{}}
}

// ProcessTask implements [asynq.Handler]. An error is for asynq's archive only: it says
// why rows have failed.
func (e *Engine) ProcessTask(ctx context.Context, t *asynq.Task) error {
	task, err := ParseTask(t.Payload())
	var unknown *UnknownError
	if err != nil && !errors.As(err, &unknown) {
		e.cfg.Logger.WarnContext(ctx, "task is unreadable", "error", err)
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	x := e.newExecution(task)
	e.remember(x)
	defer e.forget(x)
	if !e.begin(ctx, x, task) {
		return nil // the ledger makes the rows due again, or another execution has them
	}
	answers, err := e.execute(apiclient.WithCorrelationID(ctx, task.correlation()), x, unknown)
	return e.end(ctx, x, answers, err)
}

// execute lets the handler carry out the rows, unless this worker does not know them.
func (e *Engine) execute(ctx context.Context, x *Execution, unknown *UnknownError) (Answers, error) {
	handler, ok := e.cfg.Handlers[x.Kind]
	switch {
	case unknown != nil:
		return nil, unknown
	case !ok:
		return nil, &UnknownError{What: fmt.Sprintf("kind %q", string(x.Kind))}
	case e.stopping():
		return nil, ErrStopping
	}
	for _, row := range x.Rows {
		if row.Stage != ledger.StageCheck && row.Stage != ledger.StageReady {
			return nil, &UnknownError{What: fmt.Sprintf("stage %.20q", string(row.Stage))}
		}
	}
	spent := exhausted(x)
	if len(x.Rows) == 0 {
		return spent, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	answers, err := protect(ctx, handler, x)
	if p, ok := errors.AsType[*panicError](err); ok {
		e.cfg.Logger.ErrorContext(ctx, "handler panicked", "run", x.Run, "kind", x.Kind, "panic", p.value, "stack", string(p.stack))
	}
	return spent.with(answers), err
}

// exhausted takes the rows out of the execution that must not be executed, and returns
// their answers: rows that were begun too often without an end, since such a row may take
// its worker down with it, and rows whose stored state cannot be read.
func exhausted(x *Execution) Answers {
	spent, left := Answers{}, x.Rows[:0:0]
	for _, row := range x.Rows {
		if row.damage != nil {
			spent[row.Number] = Answer{Result: ledger.Result{Outcome: Failed, Detail: row.damage.Error()}}
			continue
		}
		if row.Attempts < MaxAttempts {
			left = append(left, row)
			continue
		}
		spent[row.Number] = Answer{Result: ledger.Result{Outcome: Failed, Detail: doubt(row) + fmt.Sprintf(
			"given up after %d attempts; the last ended without an answer (its worker died or its time was up)", row.Attempts)}}
	}
	x.ended, x.Rows = x.without(left), left
	return spent
}

// doubt begins the reason of a row that is given up although a request of it may have had
// its effect.
func doubt(row *Row) string {
	if !row.Intended {
		return ""
	}
	return "its request may have had its effect all the same: read the tenant's record, then retry the row; "
}

// with adds other answers.
func (a Answers) with(other Answers) Answers {
	maps.Copy(a, other)
	return a
}

// protect turns a panic of the handler into an error.
func protect(ctx context.Context, h Handler, x *Execution) (answers Answers, err error) {
	defer func() {
		if p := recover(); p != nil {
			answers, err = nil, &panicError{value: fmt.Sprint(p), stack: debug.Stack()}
		}
	}()
	return h.Execute(ctx, x)
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

func (e *Engine) remember(x *Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[x.identity.Nonce] = x
	e.segments[x.Segment] = time.Now()
}

func (e *Engine) forget(x *Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, x.identity.Nonce)
	e.segments[x.Segment] = time.Now()
}

// GiveBack gives back the rows of all executions that are still running or beginning, when
// a worker stops that cannot wait for them any longer. Their later writes have no effect.
func (e *Engine) GiveBack(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var failed error
	for nonce, x := range e.running {
		if ctx.Err() != nil { // commands may outlive it, and each waits for a Redis that is away
			return errors.Join(failed, ctx.Err())
		}
		receipt, err := e.cfg.Ledger.End(ctx, x.Segment, nonce, ledger.Ends(ledger.GiveBack{Note: ErrStopping.Error()}, x.all...)...)
		if err == nil {
			e.hint(ctx, x.Segment, receipt)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
