package dispatch

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/release"
	"orgops/internal/workers"
)

// Config configures a [Dispatcher].
type Config struct {
	Tenant ledger.Tenant
	Ledger Ledger
	Redis  redis.UniversalClient
	// Queue is the name of the tenant's queue in asynq.
	Queue string
	// Session and Protocol are the worker's.
	Session  ledger.SessionID
	Protocol int
	// Places is how many tasks a worker executes at a time. All workers of a tenant are
	// taken to have as many.
	Places int
	// Place returns the worker's place among those of the tenant; nil: it is the only one.
	Place func() workers.Place
	// Kinds are those that are released. Rows of other kinds wait for a dispatcher of a
	// newer worker.
	Kinds map[ledger.Kind]release.Kind
	// Pace returns the state of the tenant's pace; nil: nothing is paused or blocked.
	Pace func(context.Context) (pace.State, error)
	// Rate returns the tenant's rate in requests per second; nil: no limit.
	Rate func() float64
	// Ahead estimates how long a request of a row would wait for its permit; nil: not at all.
	Ahead func() time.Duration
	// Ended carries out the follow-ups of a run's end. It is repeated once a minute until it returns
	// nil, and the run is then finished. It is called for several
	// runs at a time, and must return soon after the end of its context, which ends when the
	// dispatcher is no longer the active one. Since another dispatcher may call it for
	// the same run by then, it must be idempotent. nil: there are none.
	Ended func(context.Context, ledger.Run) error
	// Reclaimed is called with the segments of which rows are due again, since the worker that
	// executed them has died; nil: nothing is.
	Reclaimed func(context.Context, []ledger.Reclaimed)
	// Enqueued is called after tasks were enqueued; nil: nothing is.
	Enqueued func()
	Logger   *slog.Logger // nil: none
}

// Ledger is the part of [ledger.Ledger] that a dispatcher uses.
type Ledger interface {
	Run(ctx context.Context, t ledger.Tenant, run ledger.RunID) (ledger.Run, error)
	Wake(ctx context.Context, t ledger.Tenant) error
	TakeDue(ctx context.Context, t ledger.Tenant, n int) (ledger.DueSegments, error)
	Recall(ctx context.Context, t ledger.Tenant) error
	Release(ctx context.Context, seg ledger.Segment, q ledger.Quota) (ledger.Release, error)
	GiveBack(ctx context.Context, seg ledger.Segment, t ledger.Token, rows ...ledger.Row) (ledger.Receipt, error)
	Dismiss(ctx context.Context, seg ledger.Segment, r ledger.Result, rows ...ledger.Row) (ledger.Receipt, error)
	ReclaimDead(ctx context.Context, t ledger.Tenant) ([]ledger.Reclaimed, error)
	Finish(ctx context.Context, t ledger.Tenant, run ledger.RunID) error
	NoteStuck(ctx context.Context, run ledger.Run, why string) error
	DeleteOld(ctx context.Context, t ledger.Tenant) (deleted int, err error)
}

const (
	// busyEvery is how often rows are released while more are due, and fullEvery how
	// often it is tried while there is no free place or no permit.
	busyEvery = 20 * time.Millisecond
	fullEvery = 100 * time.Millisecond
	// wakeEvery is the shortest time between a round and one that was woken: many single
	// rows are released together.
	wakeEvery = 5 * time.Millisecond
	// afterError is the wait after an error of Redis.
	afterError = time.Second
	// quietAfter is how long nothing was due or in progress before the dispatcher sleeps until the
	// next due time or a wake-up. It is longer than another worker takes, after a wake-up, to get
	// the lease of one that does not wake.
	quietAfter = 10 * time.Second
)

// Dispatcher releases the due rows of a tenant while it is the active one.
type Dispatcher struct {
	cfg   Config
	lease *Lease
	queue *Queue
	wake  chan struct{}
	woken bool // since its last round while active, or its last attempt to get the lease
	// until is when the lease ends unless it is renewed, in this process's time; nil: it is
	// not held.
	until atomic.Pointer[time.Time]

	active   bool
	activeAt time.Time // when it became active
	leaseAt  time.Time // of the last attempt
	// asleep is how long the lease needs nothing after that attempt: this dispatcher is active and
	// sleeps, or the lease is another one's for as long.
	asleep   time.Duration
	busyAt   time.Time // when it last had work
	upkeepAt time.Time
	// upkeeping says that an upkeep is in progress.
	upkeeping atomic.Bool
	stateAt   time.Time
	pace      pace.State
	taken     taken
	// inProgress says that rows are in progress, and reclaimedAt when those of dead sessions were
	// last made due.
	inProgress  bool
	reclaimedAt time.Time
	nextDue     time.Duration // from the last reading of the index on
	took        time.Duration // by the last release
	window      Window
	permits     Permits
	probed      map[Probe]time.Time // when a row was last released for it
	turn        int                 // see [Round.Turn]
	ends        *ends
}

// New returns a dispatcher that is not active.
func New(cfg Config) *Dispatcher {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Rate == nil {
		cfg.Rate = func() float64 { return math.Inf(1) }
	}
	if cfg.Ahead == nil {
		cfg.Ahead = func() time.Duration { return 0 }
	}
	if cfg.Place == nil {
		cfg.Place = func() workers.Place { return workers.Place{Workers: 1} }
	}
	if cfg.Enqueued == nil {
		cfg.Enqueued = func() {}
	}
	d := &Dispatcher{
		cfg: cfg, lease: NewLease(cfg.Redis, cfg.Tenant, cfg.Session, cfg.Protocol), queue: NewQueue(cfg.Redis, cfg.Queue),
		wake: make(chan struct{}, 1), taken: taken{}, probed: map[Probe]time.Time{},
	}
	d.ends = newEnds(d.end, d.endFailed)
	return d
}

// Wake begins the next round at once, for example since a run was submitted.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Active reports whether this dispatcher is the tenant's active one, thus has renewed its
// lease in time. It is safe for concurrent use. Another dispatcher may become active right
// after.
func (d *Dispatcher) Active() bool {
	until := d.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run dispatches until ctx ends, and gives the lease up. It returns when no call of
// [Config].Ended is in progress.
func (d *Dispatcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		after, err := d.Round(ctx)
		if err != nil && ctx.Err() == nil {
			d.cfg.Logger.WarnContext(ctx, "dispatcher failed", "tenant", d.cfg.Tenant, "error", err)
		}
		d.sleep(ctx, after, err != nil)
	}
	d.until.Store(nil)
	d.ends.suspend()
	defer d.ends.wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFor)
	defer cancel()
	err := d.lease.Drop(ctx)
	if err == nil && d.active {
		err = d.cfg.Ledger.Wake(ctx, d.cfg.Tenant) // another one need not wait
	}
	if err != nil {
		d.cfg.Logger.DebugContext(ctx, "lease not given up", "tenant", d.cfg.Tenant, "error", err)
	}
}

// sleep waits for the next round. After an error nothing shortens the wait.
func (d *Dispatcher) sleep(ctx context.Context, after time.Duration, failed bool) {
	if failed || after <= wakeEvery {
		_ = engine.Sleep(ctx, after) // Run finds that ctx has ended
		return
	}
	_ = engine.Sleep(ctx, wakeEvery)
	timer := time.NewTimer(after - wakeEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.wake:
		d.woken = true
	}
}

// Round does the work that is due now, and returns when to call it again: at least a second
// later if it failed.
func (d *Dispatcher) Round(ctx context.Context) (after time.Duration, err error) {
	now := time.Now()
	held, err := d.elect(ctx, now)
	if !held && !d.Active() {
		d.ends.suspend()
	}
	if err != nil || !held {
		return afterError, err
	}
	if after, err = d.work(ctx, now); err != nil {
		return afterError, err
	}
	if after <= readEvery || now.Sub(d.busyAt) < quietAfter {
		return min(after, readEvery), nil
	}
	// If it dies meanwhile, another one has the lease as soon after the next due time as it has that
	// of one that dies while it has work.
	if held, _, err = d.hold(ctx, after+leaseFor, longestLease); err != nil || !held {
		return afterError, err
	}
	d.asleep = after
	return after, nil
}

// work does the work of a round, and returns when to call it again.
func (d *Dispatcher) work(ctx context.Context, now time.Time) (after time.Duration, err error) {
	stop := d.renew(ctx)
	defer stop()
	d.ends.resume(ctx)
	d.tend(now)
	if err := d.take(ctx, now); err != nil {
		return 0, err
	}
	d.reclaim(ctx, now)
	if d.woken || d.inProgress || len(d.taken) > 0 {
		d.busyAt = now
		d.woken = false
	}
	if len(d.taken) == 0 {
		return d.untilDue(), nil
	}
	tasks, soon, err := d.release(ctx, now)
	if err != nil {
		return 0, err
	}
	switch {
	case tasks > 0:
		return busyEvery, nil
	case soon:
		return fullEvery, nil
	}
	return d.untilDue(), nil
}

// untilDue returns when to read the index again while nothing in memory is due.
func (d *Dispatcher) untilDue() time.Duration { return max(d.nextDue, busyEvery) }

// elect gets or renews the lease. A dispatcher that becomes active recalls the segments of the
// former one, which forgets them. One that is woken and finds another one asleep, which is woken
// too, lets it sleep on for leaseFor only: it may be dead.
func (d *Dispatcher) elect(ctx context.Context, now time.Time) (held bool, err error) {
	// Between its attempts it stays as it is.
	rank := d.cfg.Place().Rank
	if d.woken {
		d.asleep = 0
	}
	yields := d.active && rank > 0 && now.Sub(d.activeAt) >= yieldAfter
	if !yields && now.Sub(d.leaseAt) < d.electEvery(rank) {
		return d.active, nil
	}

	// It gives the lease up to the first worker, or gets or renews it.
	if yields {
		if err = d.lease.Drop(ctx); err == nil {
			d.until.Store(nil)
			d.leaseAt = now
			d.asleep = 0
		}
	} else {
		most := longestLease
		if d.woken && rank <= 1 {
			most = leaseFor
		}
		var left time.Duration
		held, left, err = d.hold(ctx, leaseFor, most)
		d.asleep = left
	}
	if err != nil {
		return false, err
	}
	d.woken = d.woken && held

	// A dispatcher that becomes active begins anew.
	if held != d.active {
		d.cfg.Logger.InfoContext(ctx, "dispatcher changed", "tenant", d.cfg.Tenant, "active", held)
		d.active = held
		d.activeAt = now
		d.busyAt = now
		d.upkeepAt = time.Time{}
		d.taken = taken{}
		if held {
			err = d.cfg.Ledger.Recall(ctx, d.cfg.Tenant)
		}
	}
	return held, err
}

// hold gets or renews the lease for a round: see [Lease.Take].
func (d *Dispatcher) hold(ctx context.Context, length, most time.Duration) (held bool, left time.Duration, err error) {
	now := time.Now()
	if held, left, err = d.takeLease(ctx, length, most); err == nil {
		d.leaseAt = now
		d.asleep = 0
	}
	return held, left, err
}

// takeLease gets or renews the lease, and stores until when it is held. It may be called from any
// goroutine.
func (d *Dispatcher) takeLease(ctx context.Context, length, most time.Duration) (held bool, left time.Duration,
	err error) {
	now := time.Now()
	held, left, err = d.lease.Take(ctx, length, most)
	switch {
	case held:
		d.until.Store(new(now.Add(length)))
	case err == nil:
		d.until.Store(nil)
	}
	return held, left, err
}

// longestRound is how long a round may last: one that hangs loses the lease.
const longestRound = time.Minute

// renew renews the lease during a round, until the function that it returns is called: with
// many segments a round takes longer than the lease lasts.
func (d *Dispatcher) renew(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithTimeout(ctx, longestRound)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for engine.Sleep(ctx, leaseEvery) == nil {
			if held, _, err := d.takeLease(ctx, leaseFor, longestLease); err == nil && !held {
				return // the next round finds another dispatcher active
			}
		}
	}()
	return func() { cancel(); <-done }
}

// electEvery returns how often to get or renew the lease: the second worker tries often enough
// to replace the first, later ones seldom, in case the earlier ones live and do not dispatch.
// After it has yielded, a worker leaves the first one the time to take the lease.
func (d *Dispatcher) electEvery(rank int) time.Duration {
	switch {
	case d.active:
		return d.asleep + leaseEvery
	case rank == 0:
		return leaseEvery
	}
	return time.Duration(rank) * max(leaseFor, d.asleep)
}
