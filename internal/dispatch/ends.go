package dispatch

import (
	"context"
	"errors"
	"fmt"
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
	failed func(context.Context, ledger.RunID, error) // puts it off
	places chan struct{}                              // of those that are being finished
	all    sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // nil: the dispatcher is not the active one
	cancel context.CancelFunc
	known  map[ledger.RunID]bool // those that wait or are in progress
}

func newEnds(finish func(context.Context, ledger.RunID) error,
	failed func(context.Context, ledger.RunID, error)) *ends {
	return &ends{finish: finish, failed: failed, places: make(chan struct{}, endsAtOnce),
		known: map[ledger.RunID]bool{}}
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

// add has a run finished, unless it is in progress.
func (e *ends) add(run ledger.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || e.known[run] {
		return
	}
	e.known[run] = true
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
	if err != nil && ctx.Err() == nil { // else it is left to the active dispatcher
		e.failed(ctx, run, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, run)
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

// endFailed puts a run off whose end has failed, and so leaves the place to others.
func (d *Dispatcher) endFailed(ctx context.Context, run ledger.RunID, err error) {
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		d.cfg.Logger.ErrorContext(ctx, "the end of a run panicked", "tenant", d.cfg.Tenant, "run", run, "panic",
			fmt.Sprint(p.Value), "stack", string(p.Stack))
	}
	r, noRun := d.cfg.Ledger.Run(ctx, d.cfg.Tenant, run)
	if noRun != nil {
		d.cfg.Logger.WarnContext(ctx, "run not finished", "tenant", d.cfg.Tenant, "run", run, "error",
			errors.Join(err, noRun))
		return
	}
	d.stuck(ctx, r, fmt.Sprintf("its rows are settled, but the follow-ups of its end fail, such as events and the summary "+
		"of a sweep: %v; they are repeated each minute", err), nil)
}
