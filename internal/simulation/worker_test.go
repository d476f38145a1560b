package simulation_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/tasks/handlers"
)

const (
	requestTimeout = 30 * time.Second
)

// worker has the parts of a worker process, which it calls one after the other. It may be
// killed before and after each command of Redis, request, check and event.
type worker struct {
	s          *simulation
	rdb        *redis.Client
	session    ledger.Session
	ledger     *ledger.Ledger
	engine     *engine.Engine
	dispatcher *dispatch.Dispatcher
	scheduler  *schedule.Scheduler
	inspector  *asynq.Inspector

	// commands has commands wait for each other: waits for a connection of the pool use
	// timers that clients of all bubbles share.
	commands  sync.Mutex
	renewedAt time.Time
	dead      atomic.Bool
	rate      float64 // of kills, for each point
	freezeAt  int     // number of points until the worker is frozen; 0: never
}

// connect returns a client of the simulation's Redis, through a pipe: a bubble's time does
// not pass while goroutines wait for sockets.
func (s *simulation) connect(w *worker) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return redistest.Dial(s.mini)
		},
		PoolSize:                 20,
		ConnMaxIdleTime:          -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.t.Cleanup(func() { _ = rdb.Close() })
	if w != nil {
		rdb.AddHook(killing{w})
	}
	return rdb
}

func (s *simulation) newWorker() *worker {
	w := &worker{s: s, session: ledger.Session{ID: ledger.NewSessionID(), Version: "test", Protocol: engine.Protocol,
		Tenants: []ledger.Tenant{tenant}}}
	w.rdb = s.connect(w)
	w.ledger, w.inspector = ledger.New(w.rdb), asynq.NewInspectorFromRedisClient(w.rdb)
	states := &sweep.States{Tenant: string(tenant), Store: sweep.NewStore(w.rdb, string(tenant)), Notifier: w}
	w.engine = engine.New(engine.Config{Tenant: tenant, Ledger: timed{w.ledger, s}, Session: w.session.ID,
		Handlers: w.handlers(states)})
	w.dispatcher = dispatch.New(dispatch.Config{
		Tenant: tenant, Ledger: w.ledger, Redis: w.rdb, Queue: engine.Queue(tenant), Session: w.session.ID,
		Protocol: engine.Protocol, Places: 50,
		Kinds: map[ledger.Kind]dispatch.Kind{handlers.Verify: {}, handlers.Recheck: {}, handlers.Revoke: {},
			engine.ScanOf(handlers.Verify): {}, engine.ScanOf(handlers.Recheck): {}},
		Ended: func(ctx context.Context, run ledger.Run) error {
			return conclude(ctx, states, run)
		},
	})
	w.scheduler = w.newScheduler()
	return w
}

// conclude stores the summary of a sweep whose run has ended, as cmd/worker does.
func conclude(ctx context.Context, states *sweep.States, run ledger.Run) error {
	if run.Kind != handlers.Recheck || run.Scan == nil || run.Cancelled {
		return nil
	}
	var progress sweep.Progress
	if err := json.Unmarshal(run.Scan.Progress, &progress); err != nil {
		return err
	}
	return states.Conclude(ctx, string(run.ID), progress)
}

func (w *worker) newScheduler() *schedule.Scheduler {
	cron, err := sweep.ParseCron("@daily")
	if err != nil {
		w.s.t.Fatal(err)
	}
	return &schedule.Scheduler{
		Intake: intake.New(w.rdb, ledger.New(w.rdb)), Store: sweep.NewStore(w.rdb, string(tenant)),
		Tenant: string(tenant), Cron: cron,
		Logger: slog.New(slog.DiscardHandler), Ticked: w.ticked,
	}
}

func (w *worker) ticked(what string) {
	if what == schedule.TickSkipped {
		w.s.count.skipped++
		return
	}
	w.s.count.ticks++
}

func (w *worker) handlers(states *sweep.States) map[ledger.Kind]engine.Handler {
	verify := handlers.VerifyConfig{
		API: killedAPI{w}, DNS: killedDNS{w}, Line: w, RequestTimeout: requestTimeout, Notify: handlers.NotifyStates(states),
	}
	submit := func(ctx context.Context, r handlers.OneRow) error {
		_, _, err := w.ledger.SubmitRow(ctx, ledger.NewRun{
			ID: r.ID, Tenant: tenant, Kind: r.Kind, Description: ledger.Description{Format: "jsonl"},
		}, r.Content)
		return err
	}
	all := map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(verify),
		handlers.Recheck: handlers.NewRecheck(handlers.RecheckConfig{Verify: verify, Tenant: tenant, States: states,
			Rules: w.s.rules, Operators: killedDNS{w}, Submit: submit}),
		handlers.Revoke: handlers.NewRevoke(handlers.RevokeConfig{API: killedAPI{w}, DNS: killedDNS{w}, States: states,
			Rules: w.s.rules, RequestTimeout: requestTimeout}),
	}
	maps.Copy(all, scan.Handlers(killedAPI{w}, states.Store, slog.New(slog.DiscardHandler)))
	return all
}

// Ahead implements [handlers.Line]: permits are waited for at times.
func (w *worker) Ahead(context.Context) time.Duration {
	if w.s.roll() < .1 {
		return 3 * time.Second
	}
	return 0
}

// Notify implements [events.Notifier].
func (w *worker) Notify(ctx context.Context, e events.Event) error {
	return around(w, func() error { return w.s.Notify(ctx, e) })
}

// close closes the connections of a worker that is dead.
func (w *worker) close() { _ = w.rdb.Close() }

// do calls a function of the worker, and reports whether the worker has died in it.
func (w *worker) do(rate float64, f func(context.Context)) (died bool) {
	if !w.s.kills {
		rate = 0
	}
	w.rate = rate
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(w.s.t.Context())
	}()
	<-done
	w.rate = 0
	return w.dead.Load()
}

// point kills or freezes the worker, if it is its turn here. A dead worker does nothing.
func (w *worker) point() {
	if w.freezeAt > 0 {
		if w.freezeAt--; w.freezeAt == 0 {
			w.freeze()
		}
	}
	if w.rate > 0 && w.s.roll() < w.rate {
		w.dead.Store(true)
	}
	if w.dead.Load() {
		runtime.Goexit()
	}
}

func around[T any](w *worker, f func() T) T {
	w.point()
	result := f()
	w.point()
	return result
}

// freeze stops the worker for so long that another one takes over its rows. It continues
// afterwards.
func (w *worker) freeze() {
	w.s.count.frozen++
	rate := w.rate
	other := w.s.newWorker()
	defer other.close()
	other.outlive()
	for range 20 {
		if other.settle() {
			break
		}
	}
	other.do(0, func(ctx context.Context) { _ = other.ledger.EndSession(ctx, other.session.ID) })
	w.s.sleep(4 * time.Second) // until its dispatcher's lease has ended
	w.rate = rate
}

// renew renews the session.
func (w *worker) renew() {
	if time.Since(w.renewedAt) < ledger.RenewEvery {
		return
	}
	w.do(0, func(ctx context.Context) {
		if _, err := w.ledger.Renew(ctx, w.session); err != nil {
			w.s.t.Error(err)
		}
	})
	w.renewedAt = time.Now()
}

// outlive renews the session until all other sessions, which are not renewed, have expired.
func (w *worker) outlive() {
	for passed := time.Duration(0); passed < ledger.DeadAfter+2*ledger.RenewEvery; passed += 8 * time.Second {
		w.renew()
		w.s.sleep(8 * time.Second)
	}
	w.renew()
}

// settle executes the work due within a second. It returns false if the worker dies.
func (w *worker) settle() bool {
	for range 10_000 {
		w.renew()
		var dispatches time.Duration
		if w.do(.001, func(ctx context.Context) { _ = w.scheduler.Once(ctx) }) ||
			w.do(.0002, func(ctx context.Context) { dispatches, _ = w.dispatcher.Round(ctx) }) {
			return false
		}
		n, died := w.execute()
		switch {
		case died:
			return false
		case n > 0:
			w.s.sleep(20 * time.Millisecond)
		case dispatches < time.Second:
			w.s.sleep(dispatches)
		case !w.dispatcher.Active():
			w.s.sleep(time.Second)
		default:
			return true
		}
	}
	w.s.t.Fatalf("%v: the worker is never done", now())
	return false
}

// execute executes the tasks of the queue, one after the other. Tasks of a worker that dies
// are lost half of the times.
func (w *worker) execute() (n int, died bool) {
	if !w.s.mini.Exists("asynq:{" + engine.Queue(tenant) + "}:pending") {
		return 0, false
	}
	var tasks []*asynq.TaskInfo
	w.do(0, func(context.Context) {
		tasks, _ = w.inspector.ListPendingTasks(engine.Queue(tenant), asynq.PageSize(5000))
		if len(tasks) > 0 {
			if _, err := w.inspector.DeleteAllPendingTasks(engine.Queue(tenant)); err != nil {
				w.s.t.Error(err)
			}
		}
	})
	w.s.dice.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	for _, info := range tasks {
		if w.process(asynq.NewTask(info.Type, info.Payload)) {
			return 0, true
		}
	}
	return len(tasks), false
}

// process executes a task, at times twice. It reports whether the worker has died.
func (w *worker) process(task *asynq.Task) (died bool) {
	w.s.count.executions++
	rate := .0005
	if strings.HasSuffix(task.Type(), ":scan") {
		rate = .001
	}
	if kind := ledger.Kind(task.Type()); kind == handlers.Revoke || kind == handlers.Verify {
		rate = .01 // they are few, and each point must be met
		if w.s.kills && w.s.dice.IntN(20) == 0 {
			w.freezeAt = 1 + w.s.dice.IntN(20)
		}
	}
	died = w.do(rate, func(ctx context.Context) { _ = w.engine.ProcessTask(ctx, task) })
	w.freezeAt = 0
	if !died && w.s.dice.IntN(50) == 0 {
		died = w.do(rate, func(ctx context.Context) { _ = w.engine.ProcessTask(ctx, task) })
	}
	return died
}

// killing is a hook for the points of a worker.
type killing struct{ w *worker }

func (killing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k killing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return k.around(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (k killing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return k.around(func() error { return next(ctx, cmds) }, cmds...)
	}
}

// around runs commands, apart from those of a new connection, between two points: a worker
// that dies there would leave the connection's place in the pool occupied.
func (k killing) around(run func() error, cmds ...redis.Cmder) error {
	if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "hello" || c.Name() == "client" }) {
		return run()
	}
	return around(k.w, func() error {
		k.w.commands.Lock()
		defer k.w.commands.Unlock()
		return run()
	})
}

// killedDNS is the DNS of a worker.
type killedDNS struct{ w *worker }

type checked struct {
	verdict dnscheck.Verdict
	err     error
}

func (d killedDNS) ask(query func() (dnscheck.Verdict, error)) (dnscheck.Verdict, error) {
	c := around(d.w, func() (c checked) {
		c.verdict, c.err = query()
		return c
	})
	return c.verdict, c.err
}

func (d killedDNS) Check(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(func() (dnscheck.Verdict, error) { return d.w.s.dns.Check(ctx, host, token) })
}

func (d killedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(func() (dnscheck.Verdict, error) { return d.w.s.dns.Prove(ctx, host, token) })
}

func (d killedDNS) Diagnose(ctx context.Context, host, domain, token string,
	v dnscheck.Verdict) (found dnscheck.Diagnosis, err error) {
	return around(d.w, func() dnscheck.Diagnosis {
		found, err = d.w.s.dns.Diagnose(ctx, host, domain, token, v)
		return found
	}), err
}

func (d killedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.ask(func() (dnscheck.Verdict, error) { return d.w.s.dns.Disprove(ctx, host, token) })
}

func (d killedDNS) Operator(ctx context.Context, host string) (string, error) {
	return d.w.s.dns.Operator(ctx, host)
}

// killedAPI is the API of a worker.
type killedAPI struct{ w *worker }

func (a killedAPI) DiscoveryDomain(ctx context.Context, org, id string) (d apiclient.DiscoveryDomain, err error) {
	err = around(a.w, func() error {
		d, err = a.w.s.api.DiscoveryDomain(ctx, org, id)
		return err
	})
	return d, err
}

func (a killedAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string,
	u apiclient.DiscoveryDomainUpdate) (d apiclient.DiscoveryDomain, err error) {
	err = around(a.w, func() error {
		d, err = a.w.s.api.UpdateDiscoveryDomain(ctx, org, id, u)
		return err
	})
	return d, err
}

func (a killedAPI) OrganizationsPage(ctx context.Context,
	from string) (page []apiclient.Listed[apiclient.Organization], next string, err error) {
	err = around(a.w, func() error {
		page, next, err = a.w.s.api.OrganizationsPage(ctx, from)
		return err
	})
	return page, next, err
}

func (a killedAPI) DiscoveryDomainsPage(ctx context.Context,
	org, from string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error) {
	err = around(a.w, func() error {
		page, next, err = a.w.s.api.DiscoveryDomainsPage(ctx, org, from)
		return err
	})
	return page, next, err
}

// timed records when rows are due that wait for a while.
type timed struct {
	engine.Ledger
	s *simulation
}

func (l timed) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	for _, end := range ends {
		switch e := end.Ending.(type) {
		case ledger.Waiting:
			l.s.later(e.After)
		case ledger.GiveBack:
			l.s.later(e.After)
		}
	}
	return l.Ledger.End(ctx, seg, n, ends...)
}
