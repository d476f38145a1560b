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
	// longestEndAgain bounds the wait after an end that failed.
	longestEndAgain = 5 * time.Minute
)

// ends finishes runs in goroutines: the follow-ups of an end may take longer than the lease
// lasts, since they notify other systems.
//
// It works only while its dispatcher is the active one, but learns that the lease has ended
// only when the dispatcher does. So two dispatchers may finish a run at once, and the
// follow-ups must be idempotent: events have ids, and the summary of a sweep is replaced by
// compare-and-set.
type ends struct {
	// finish finishes a run.
	finish func(context.Context, ledger.RunID) error
	// failed logs an error, and when the run is finished again at the earliest.
	failed func(ctx context.Context, run ledger.RunID, err error, again time.Duration)

	mu      sync.Mutex
	ctx     context.Context // nil: the dispatcher is not the active one
	cancel  context.CancelFunc
	queue   []ledger.RunID
	known   map[ledger.RunID]bool // in the queue or in progress
	later   map[ledger.RunID]later
	working int // goroutines
	all     sync.WaitGroup
}

// later is when a run is finished again that was not.
type later struct {
	wait time.Duration
	at   time.Time // not before
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
	for _, run := range e.queue {
		delete(e.known, run)
	}
	e.ctx, e.cancel, e.queue, e.later = nil, nil, nil, nil
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
	if e.ctx == nil || e.known[run] || time.Now().Before(e.later[run].at) {
		return
	}
	if e.known == nil {
		e.known = map[ledger.RunID]bool{}
	}
	e.known[run] = true
	e.queue = append(e.queue, run)
	if e.working < endsAtOnce {
		e.working++
		e.all.Go(e.work)
	}
}

// work finishes runs until the queue is empty.
func (e *ends) work() {
	for {
		ctx, run, ok := e.next()
		if !ok {
			return
		}
		e.done(ctx, run, engine.Protect(func() error { return e.finish(ctx, run) }))
	}
}

// next returns the next run; without one, the goroutine ends.
func (e *ends) next() (ctx context.Context, run ledger.RunID, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		e.working--
		return nil, "", false
	}
	run = e.queue[0]
	e.queue = e.queue[1:]
	return e.ctx, run, true
}

// done notes the result of a run. One that has failed is added again by an upkeep: at first
// by the next one, later every 5 minutes.
func (e *ends) done(ctx context.Context, run ledger.RunID, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, run)
	if ctx.Err() != nil { // left to the active dispatcher
		return
	}
	if err == nil {
		delete(e.later, run)
		return
	}
	if e.later == nil {
		e.later = map[ledger.RunID]later{}
	}
	wait := min(max(2*e.later[run].wait, upkeepEvery), longestEndAgain)
	e.later[run] = later{wait, time.Now().Add(wait - upkeepEvery/2)} // upkeeps are not exactly as far apart
	e.failed(ctx, run, err, wait)
}

// prune forgets failures of runs that were not added again, since they are deleted.
func (e *ends) prune() {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.later, func(run ledger.RunID, l later) bool {
		return !e.known[run] && time.Since(l.at) > 2*upkeepEvery
	})
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

func (d *Dispatcher) endFailed(ctx context.Context, run ledger.RunID, err error, again time.Duration) {
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		d.cfg.Logger.ErrorContext(ctx, "run not finished", "tenant", d.cfg.Tenant, "run", run, "error", err, "again_in",
			again, "stack", string(p.Stack))
		return
	}
	d.cfg.Logger.WarnContext(ctx, "run not finished", "tenant", d.cfg.Tenant, "run", run, "error", err, "again_in", again)
}
