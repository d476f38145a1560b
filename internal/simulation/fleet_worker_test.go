package simulation_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/activity"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/release"
	"orgops/internal/scan"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// fleetPlaces is how many tasks a worker executes at a time, for each tenant.
const fleetPlaces = 60

// fleetWorker is a worker process with the parts of each of its tenants. It may be killed
// or suspended before each command of Redis, request, check and event.
type fleetWorker struct {
	f       *fleet
	rdb     *redis.Client
	ledger  *ledger.Ledger
	session ledger.Session
	parts   []*fleetPart

	ctx      context.Context
	cancel   context.CancelFunc
	stopping chan struct{}
	stop     func()         // closes stopping
	all      sync.WaitGroup // goroutines that run until ctx ends
	fetchers sync.WaitGroup // goroutines that begin tasks
	tasks    sync.WaitGroup

	dead    atomic.Bool
	died    chan struct{}
	until   atomic.Int64 // suspended, in ns since 1970
	points  atomic.Int64 // points until strike is called; 0: never
	strike  func()
	gone    bool // it has left or died; for the goroutine of the faults
	leaving sync.WaitGroup
}

// fleetPart has the parts of a worker for a tenant.
type fleetPart struct {
	w          *fleetWorker
	tn         *fleetTenant
	limiter    *pace.Limiter
	engine     *engine.Engine
	dispatcher *dispatch.Dispatcher
	bell       chan struct{} // that the queue has tasks
	places     chan struct{}
}

// errKilled is the error of every operation of a killed worker.
var errKilled = errors.New("the worker was killed")

// point strikes the worker if its turn is here, and waits while it is suspended. It returns
// errKilled if the worker is dead.
func (w *fleetWorker) point() error {
	if w.points.Load() > 0 && w.points.Add(-1) == 0 {
		w.strike()
	}
	for left := time.Until(time.Unix(0, w.until.Load())); left > 0; left = time.Until(time.Unix(0, w.until.Load())) {
		select {
		case <-time.After(left):
		case <-w.died:
			return errKilled
		}
	}
	if w.dead.Load() {
		return errKilled
	}
	return nil
}

// kill stops all work of the worker, without the end of its session. Its goroutines end as
// those of a stopping worker: otherwise they would retry their last writes for 15 minutes.
func (w *fleetWorker) kill() {
	if !w.dead.Swap(true) {
		close(w.died)
		w.cancel()
		w.stop()
	}
}

// isAway reports whether the worker is dead or suspended.
func (w *fleetWorker) isAway() bool { return w.dead.Load() || now().UnixNano() < w.until.Load() }

// command runs commands of Redis for the worker. Their answers may be lost.
func (w *fleetWorker) command(ctx context.Context, run func() error, cmds ...redis.Cmder) error {
	if err := w.point(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := w.f.redis
	time.Sleep(250 * time.Microsecond * time.Duration(1+int(4*w.f.roll())))
	flawed := r.flaws() && w.f.roll() < .5
	if flawed && w.f.roll() < .5 {
		w.f.count("Redis: command lost")
		return errLost
	}
	w.f.observe(cmds)
	err := r.run(run)
	if flawed {
		w.f.count("Redis: answer lost")
		return errLost
	}
	return err
}

// newWorker starts a worker of a slot.
func (f *fleet) newWorker(tenants []*fleetTenant) *fleetWorker {
	w := &fleetWorker{f: f, stopping: make(chan struct{}), died: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopping) })
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.rdb = f.redis.connect(w.command)
	w.ledger = ledger.New(w.rdb)
	w.session = ledger.Session{ID: ledger.NewSessionID(), Version: "test", Protocol: engine.Protocol}
	for _, tn := range tenants {
		w.session.Tenants = append(w.session.Tenants, tn.name)
	}
	for _, tn := range tenants {
		w.parts = append(w.parts, w.newPart(tn))
	}
	w.all.Go(w.run)
	return w
}

// run runs the parts once the session is registered.
func (w *fleetWorker) run() {
	registered, ended := engine.KeepSession(w.ctx, w.ledger, func() ledger.Session { return w.session },
		slog.New(slog.DiscardHandler))
	select {
	case <-registered:
	case <-w.ctx.Done():
		return
	}
	for i, p := range w.parts {
		after := time.Second * time.Duration(i) / time.Duration(len(w.parts))
		w.f.serve(p)
		w.fetchers.Go(func() { p.work(w.ctx) })
		w.all.Go(func() {
			if engine.Sleep(w.ctx, after) == nil {
				p.dispatcher.Run(w.ctx)
			}
		})
	}
	<-ended
}

// leave stops the worker as SIGTERM does.
func (w *fleetWorker) leave() {
	w.stop()
	w.fetchers.Wait()
	ended := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(8 * time.Second):
	}
	ctx := context.Background()
	for _, p := range w.parts {
		_ = p.engine.GiveBack(ctx)
	}
	w.cancel()
	w.all.Wait()
	_ = w.ledger.EndSession(ctx, w.session.ID)
	w.kill()
}

// close waits for the goroutines of a worker that is dead.
func (w *fleetWorker) close() {
	w.leaving.Wait()
	w.kill()
	w.all.Wait()
	w.fetchers.Wait()
	w.tasks.Wait()
	_ = w.rdb.Close()
}

func (w *fleetWorker) newPart(tn *fleetTenant) *fleetPart {
	p := &fleetPart{w: w, tn: tn, bell: make(chan struct{}, 1), places: make(chan struct{}, fleetPlaces)}
	left, _ := tn.limit.Effective()
	p.limiter = pace.New(pace.Config{
		Redis: w.rdb, Tenant: string(tn.name), Limit: tn.limit, Stopping: w.stopping, Writes: schema.Writes,
		MaxWait: 20*time.Second + time.Duration(2/left.PerSecond()*float64(time.Second)),
	})
	states := &sweep.States{Tenant: string(tn.name), Store: sweep.NewStore(w.rdb, string(tn.name)),
		Notifier: fleetNotifier{w}}
	p.engine = engine.New(engine.Config{
		Tenant: tn.name, Ledger: watched{w.ledger, w.f}, Session: w.session.ID, Handlers: p.handlers(states),
		Stopping: w.stopping,
		Block: func(ctx context.Context, operation, reason string, fault apiclient.Fault) error {
			return p.limiter.Block(ctx, operation, reason, string(fault))
		},
	})
	p.dispatcher = dispatch.New(p.dispatchConfig(states))
	return p
}

// api returns the API as clients that are bound to executions reach it.
func (p *fleetPart) api() func(apiclient.Binding) fleetAPI {
	client := newAsking(p.w.f.t, fleetGate{p.limiter})
	return func(b apiclient.Binding) fleetAPI { return fleetAPI{p, client.For(b)} }
}

// dispatchConfig releases rows as cmd/worker does.
func (p *fleetPart) dispatchConfig(states *sweep.States) dispatch.Config {
	w, name, rate := p.w, p.tn.name, p.tn.limit
	one := release.Cost{First: 1, Check: 1, Ready: 1}
	read, change := schema.OpGetDiscoveryDomain, schema.OpUpdateDiscoveryDomain
	return dispatch.Config{
		Tenant: name, Ledger: w.ledger, Redis: w.rdb, Queue: queues.OfRows(string(name)), Session: w.session.ID,
		Protocol: engine.Protocol, Places: fleetPlaces,
		Pace: p.limiter.State, Ahead: func() time.Duration { return p.limiter.Ahead(pace.Finish) },
		Rate: func() float64 {
			left, _ := rate.Effective()
			return left.PerSecond()
		},
		Kinds: map[ledger.Kind]release.Kind{
			handlers.Verify: {Operations: release.Operations{First: []string{read}, Ready: []string{read, change}},
				Cost: release.Cost{First: 2, Ready: 2}},
			handlers.Update: {Operations: release.Always(read, change), Cost: release.Cost{First: 2, Check: 2, Ready: 2}},
			handlers.Remove: {Operations: release.Always(schema.OpRemoveOrganizationClients), Cost: one,
				Batch: schema.MaxClientsPerRequest, Group: tasks.OrganizationOf},
			handlers.Create:  {Operations: release.Always(schema.OpCreateTemplate), Cost: one},
			handlers.Recheck: {Operations: release.Operations{Ready: []string{read, change}}, Cost: release.Cost{Ready: 2}},

			ledger.ScanOf(handlers.Verify): {Cost: one}, ledger.ScanOf(handlers.Recheck): {Cost: one},
		},
		Ended: func(ctx context.Context, run ledger.Run) error {
			if err := conclude(ctx, states, run); err != nil || run.Single {
				return err
			}
			return fleetNotifier{w}.Notify(ctx, events.Event{ID: fmt.Sprintf("run-%s-%d", run.ID, run.EndedAt.Unix()),
				Type: events.RunFinished, Data: events.Data{Run: string(run.ID)}})
		},
		Enqueued: func() { w.f.ring(name) },
	}
}

func (p *fleetPart) handlers(states *sweep.States) map[ledger.Kind]engine.Handler {
	w, api, dns := p.w, p.api(), fleetDNS{p}
	domains := func(b apiclient.Binding) handlers.Domains { return api(b) }
	verify := handlers.VerifyConfig{
		API: domains, DNS: dns, Line: p.limiter, RequestTimeout: requestTimeout, GiveUp: fleetGiveUp,
		Places: handlers.NewPlaces(fleetPlaces, fleetPlaces/2),
		Notify: handlers.NotifyStates(states, activity.Author{}),
	}
	submit := func(ctx context.Context, r handlers.OneRow) error {
		_, _, err := w.ledger.SubmitRow(ctx, ledger.NewRun{
			ID: r.ID, Tenant: p.tn.name, Kind: r.Kind, Description: ledger.Description{Format: "jsonl"},
		}, r.Content)
		return err
	}
	all := map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(verify),
		handlers.Update: handlers.NewUpdate(handlers.UpdateConfig{API: domains, States: states,
			RequestTimeout: requestTimeout}),
		handlers.Remove: handlers.NewRemove(handlers.RemoveConfig{
			API:   func(b apiclient.Binding) handlers.Clients { return api(b) },
			Limit: pace.NewClientLimit(w.rdb, string(p.tn.name))}),
		handlers.Create: handlers.NewCreate(handlers.CreateConfig{
			API: func(b apiclient.Binding) handlers.Templates { return api(b) }, RequestTimeout: requestTimeout}),
		handlers.Recheck: handlers.NewRecheck(handlers.RecheckConfig{Verify: verify, Tenant: p.tn.name, States: states,
			Operators: dns, Submit: submit}),
	}
	maps.Copy(all, scan.Handlers(scan.Config{
		API: func(b apiclient.Binding) scan.API { return api(b) }, States: states.Store,
		Lists: w.ledger, Logger: slog.New(slog.DiscardHandler),
	}))
	return all
}

// fleetNotifier records events. It fails at times, before or after.
type fleetNotifier struct{ w *fleetWorker }

func (n fleetNotifier) Notify(_ context.Context, e events.Event) error {
	if err := n.w.point(); err != nil {
		return err
	}
	f := n.w.f
	fails := f.roll()
	if fails < .005 {
		return fmt.Errorf("event %s was not recorded", e.ID)
	}
	f.mu.Lock()
	f.events[e.Type+" "+e.Data.Run+" "+e.Data.DiscoveryDomainID]++
	f.mu.Unlock()
	if fails < .01 {
		return fmt.Errorf("event %s was recorded", e.ID)
	}
	return nil
}

// The scripts by which asynq takes a task from a queue and acknowledges it. Its servers poll
// 100 times a second; a simulated worker polls only when there is a task.
var (
	dequeue = redis.NewScript(`
local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if not id then return nil end
local key = ARGV[1] .. id
redis.call('HSET', key, 'state', 'active')
redis.call('HDEL', key, 'pending_since')
redis.call('ZADD', KEYS[3], ARGV[2], id)
return redis.call('HGET', key, 'msg')`)
	acknowledge = redis.NewScript(`
if redis.call('LREM', KEYS[1], 0, ARGV[2]) == 0 then return 0 end
redis.call('ZREM', KEYS[2], ARGV[2])
return redis.call('DEL', ARGV[1] .. ARGV[2])`)
	// putBack puts tasks whose lease has ended back, as asynq's recoverer does.
	putBack = redis.NewScript(`
if redis.call('LREM', KEYS[1], 0, ARGV[2]) == 0 then return 0 end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('HSET', ARGV[1] .. ARGV[2], 'state', 'pending')
return redis.call('LPUSH', KEYS[3], ARGV[2])`)
)

// keysOf returns asynq's keys of a tenant's queue, and the prefix of its tasks.
func keysOf(tn *fleetTenant) (pending, active, lease, tasks string) {
	prefix := "asynq:{" + queues.OfRows(string(tn.name)) + "}:"
	return prefix + "pending", prefix + "active", prefix + "lease", prefix + "t:"
}

// work executes tasks of the queue until ctx ends.
func (p *fleetPart) work(ctx context.Context) {
	for {
		select {
		case <-p.bell:
		case <-p.w.stopping:
			return
		case <-ctx.Done():
			return
		}
		time.Sleep(p.w.f.upTo(10 * time.Millisecond)) // until it polls for a task
		for p.takeTask(ctx) {
		}
	}
}

// takeTask begins a task, and reports whether there was one.
func (p *fleetPart) takeTask(ctx context.Context) bool {
	select {
	case p.places <- struct{}{}:
	case <-p.w.stopping:
		return false
	case <-ctx.Done():
		return false
	}
	pending, active, lease, tasks := keysOf(p.tn)
	msg, err := dequeue.Run(ctx, p.w.rdb, []string{pending, active, lease}, tasks,
		time.Now().Add(30*time.Second).Unix()).Text()
	if err != nil {
		<-p.places
		return false
	}
	id, task := parseMessage([]byte(msg))
	p.w.f.executes(id, p.w)
	p.w.tasks.Go(func() {
		defer func() { <-p.places }()
		var again sync.WaitGroup
		if other := p.w.f.another(p); other != nil {
			again.Go(func() { _ = other.engine.ProcessTask(other.w.ctx, task) })
		}
		_ = p.engine.ProcessTask(p.w.ctx, task)
		_ = acknowledge.Run(context.Background(), p.w.rdb, []string{active, lease}, tasks, id).Err()
		p.w.f.executed(id)
		again.Wait()
	})
	return true
}

// parseMessage reads asynq's message of a task: type, payload and id are the first fields of
// a protocol buffer.
func parseMessage(msg []byte) (id string, task *asynq.Task) {
	var fields [4][]byte
	for len(msg) > 0 {
		tag, n := binary.Uvarint(msg)
		value, size := binary.Uvarint(msg[n:])
		msg = msg[n+size:]
		if tag&7 == 2 {
			if tag>>3 < 4 {
				fields[tag>>3] = msg[:value]
			}
			msg = msg[value:]
		}
	}
	return string(fields[3]), asynq.NewTask(string(fields[1]), fields[2])
}

// recover puts tasks back that no living worker executes, as asynq does some time after
// their leases have ended.
func (f *fleet) recover(tn *fleetTenant) {
	pending, active, lease, tasks := keysOf(tn)
	ids, err := f.outside.LRange(context.Background(), active, 0, -1).Result()
	if err != nil {
		f.t.Error(err)
	}
	for _, id := range ids {
		f.mu.Lock()
		w := f.executing[id]
		f.mu.Unlock()
		if w == nil || w.isAway() {
			f.count("task delivered again")
			if err := putBack.Run(context.Background(), f.outside, []string{active, lease, pending},
				tasks, id).Err(); err != nil {
				f.t.Error(err)
			}
		}
	}
}

func (f *fleet) executes(id string, w *fleetWorker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.executing[id] = w
}

func (f *fleet) executed(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.executing, id)
}

// serve has a part take tasks of its tenant.
func (f *fleet) serve(p *fleetPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var living []*fleetPart
	for _, other := range f.serving[p.tn.name] {
		if !other.w.dead.Load() {
			living = append(living, other)
		}
	}
	f.serving[p.tn.name] = append(living, p)
}

// serves reports whether a worker serves a tenant that is neither dead nor suspended.
func (f *fleet) serves(t ledger.Tenant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.serving[t], func(p *fleetPart) bool { return !p.w.isAway() })
}

// servers returns the parts of a tenant, in any order.
func (f *fleet) servers(t ledger.Tenant) []*fleetPart {
	f.mu.Lock()
	all := append([]*fleetPart(nil), f.serving[t]...)
	f.mu.Unlock()
	f.shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// ring has the workers of a tenant poll for tasks.
func (f *fleet) ring(t ledger.Tenant) {
	for _, p := range f.servers(t) {
		select {
		case p.bell <- struct{}{}:
		default:
		}
	}
}

// wake has the dispatchers of a tenant inspect it at once.
func (f *fleet) wake(t ledger.Tenant) {
	for _, p := range f.servers(t) {
		p.dispatcher.Wake()
	}
}

// another returns a part to which a task is delivered a second time; mostly nil.
func (f *fleet) another(p *fleetPart) *fleetPart {
	if f.roll() > .02 {
		return nil
	}
	for _, other := range f.servers(p.tn.name) {
		if !other.w.dead.Load() {
			f.count("task delivered twice")
			return other
		}
	}
	return nil
}
