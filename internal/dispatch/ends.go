package dispatch

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

const (
	// upkeepEvery is how often runs are deleted.
	upkeepEvery = time.Minute
	// endsAtOnce is how many runs are finished at a time.
	endsAtOnce = 4
	// endAgain is how long a run is left alone whose end has failed.
	endAgain = time.Minute
)

// ends finishes runs in goroutines: the follow-ups of an end may take longer than the lease
// lasts, since they notify other systems.
//
// It works only while its dispatcher is the active one, but learns that the lease has ended
// only when the dispatcher does. So two dispatchers may finish a run at once, and the
// follow-ups must be idempotent: events have ids, and the summary of a sweep is replaced by
// compare-and-set.
type ends struct {
	finish func(context.Context, ledger.RunID) error
	failed func(context.Context, ledger.RunID, error) // logs it
	places chan struct{}                              // of those that are being finished
	all    sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // nil: the dispatcher is not the active one
	cancel context.CancelFunc
	// known has the runs that wait or are in progress, with the zero time, and those that have failed
	// with the time from which they are tried again.
	known map[ledger.RunID]time.Time
}

func newEnds(finish func(context.Context, ledger.RunID) error,
	failed func(context.Context, ledger.RunID, error)) *ends {
	return &ends{finish: finish, failed: failed, places: make(chan struct{}, endsAtOnce),
		known: map[ledger.RunID]time.Time{}}
}

// resume starts finishing runs, unless it has started.
func (e *ends) resume(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		e.ctx, e.cancel = context.WithCancel(ctx)
	}
}

// suspend ends the contexts of runs in progress, and finishes no others until resume. The
// active dispatcher finds all of them again.
func (e *ends) suspend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		return
	}
	e.cancel()
	e.ctx = nil
	maps.DeleteFunc(e.known, func(_ ledger.RunID, again time.Time) bool { return !again.IsZero() })
}

// background calls f in a goroutine. Its context ends when the dispatcher is not the active
// one any more, and wait waits for it.
func (e *ends) background(f func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx := e.ctx
	e.all.Go(func() { f(ctx) })
}

// wait waits for the runs in progress, after suspend.
func (e *ends) wait() { e.all.Wait() }

// add has a run finished, unless it is in progress or has failed a short time ago.
func (e *ends) add(run ledger.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	again, known := e.known[run]
	if e.ctx == nil || known && (again.IsZero() || time.Now().Before(again)) {
		return
	}
	e.known[run] = time.Time{}
	ctx := e.ctx
	e.all.Go(func() { e.work(ctx, run) })
}

// work finishes a run when there is a place for it.
func (e *ends) work(ctx context.Context, run ledger.RunID) {
	var err error
	select {
	case <-ctx.Done():
	case e.places <- struct{}{}:
		err = engine.Protect(func() error { return e.finish(ctx, run) })
		<-e.places
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, run)
	if err != nil && ctx.Err() == nil { // else it is left to the active dispatcher
		e.known[run] = time.Now().Add(endAgain)
		e.failed(ctx, run, err)
	}
}

// end carries out the follow-ups of a run's end, then finishes the run. The header is read
// again, since the run may have been finished while it was in the queue.
func (d *Dispatcher) end(ctx context.Context, run ledger.RunID) error {
	r, err := d.cfg.Ledger.Run(ctx, d.cfg.Tenant, run)
	if err == nil && (!r.Ended() || !r.FinishedAt.IsZero()) {
		return nil
	}
	if err == nil && d.cfg.Ended != nil {
		err = d.cfg.Ended(ctx, r)
	}
	if err == nil {
		err = d.cfg.Ledger.Finish(ctx, d.cfg.Tenant, run)
	}
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrOpen) { // deleted, or open again
		return nil
	}
	return err
}

func (d *Dispatcher) endFailed(ctx context.Context, run ledger.RunID, err error) {
	logger := d.cfg.Logger.With("tenant", d.cfg.Tenant, "run", run, "error", err, "again_in", endAgain)
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		logger.ErrorContext(ctx, "run not finished", "stack", string(p.Stack))
		return
	}
	logger.WarnContext(ctx, "run not finished")
}
