package tasks_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/internal/watch"
	"orgops/tasks"
)

// clock stands still until it is told to go on.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// settings are what a test may change of its world before it is made.
type settings struct {
	sandbox sandbox.Options
	tasks   tasks.Config
	giveUp  time.Duration
	timeout time.Duration // of a request, in real time; 0: the client's own
}

// newWorldTime is what a world's clock shows at first.
var newWorldTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a tenant with its DNS, a ledger, and a queue that does what asynq
// would do, on one clock that stands still.
type world struct {
	t        *testing.T
	clock    *clock
	sandbox  *sandbox.Sandbox
	ledger   *runs.Ledger
	queue    *queue
	enqueuer tasks.Enqueuer // of the rows submitted; the queue
	saboteur *saboteur
	blocks   []string // operations that the pace was told of
	stopping chan struct{}
	log      *syncBuffer
	giveUp   time.Duration
	timeout  time.Duration
	priority tasks.Priority // of the runs that are submitted
	mux      *tasks.Mux
	memories *watch.Store
	notices  *notices
	prove    bool // of the sweeps: pending domains too
	config   tasks.Config
	token    string
	steps    int
	runs     []string
}

func newWorld(t *testing.T, change ...func(*settings)) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{t: newWorldTime}, stopping: make(chan struct{}), log: &syncBuffer{}}
	w.saboteur = &saboteur{at: -1}
	w.queue = &queue{clock: w.clock}
	w.enqueuer = w.queue
	rdb := redistest.New(t)
	w.ledger = runs.New(rdb)
	w.memories, w.notices = watch.New(rdb, "default"), &notices{w.saboteur, new(telling)}

	s := settings{sandbox: sandbox.Options{Seed: 1, Clock: w.clock.now, TokenLifetime: 10_000 * time.Hour, NegativeTTL: time.Second}}
	s.tasks = tasks.Config{
		Tenant: "default", Ledger: sabotagedLedger{w.saboteur, w.ledger}, Pace: w, Enqueuer: sabotagedQueue{w.saboteur, w.queue},
		Logger: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), RequestTimeout: 30 * time.Second,
		ClientLimit: sabotagedLimit{w.saboteur, pace.NewClientLimit(rdb, "default")},
		Memories:    sabotagedMemories{w.saboteur, w.memories}, Notices: w.notices,
		Restore: func(_ context.Context, r tasks.Restoration) error {
			row := map[string]any{"organization_id": r.OrganizationID, "discovery_domain_id": r.DiscoveryDomainID}
			if r.Flag != nil {
				row["use_for_organization_discovery"] = *r.Flag
			}
			content, err := json.Marshal(row)
			if err != nil {
				return err
			}
			return w.submitAs(r.Run, tasks.TypeVerify, r.GiveUp, string(content))
		},
		Stopping: w.stopping, Now: w.clock.now,
	}
	for _, f := range change {
		f(&s)
	}
	w.giveUp, w.timeout = s.giveUp, s.timeout
	w.startSandbox(s.sandbox)
	s.tasks.API = sabotagedAPI{w.saboteur, w.client()}
	s.tasks.DNS = sabotagedDNS{w.saboteur, w.checker(dnscheck.Config{})}
	w.config = s.tasks
	w.mux = tasks.NewMux(s.tasks)
	return w
}

func (w *world) startSandbox(o sandbox.Options) {
	w.t.Helper()
	sb, err := sandbox.Start(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.sandbox = sb
}

func (w *world) client() *apiclient.Client {
	w.t.Helper()
	w.token = w.sandbox.Token()
	client, err := apiclient.New(apiclient.Config{BaseURL: w.sandbox.BaseURL(), Timeout: w.timeout, Tokens: apiclient.StaticToken(apiclient.NewSecret(w.token))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.CloseIdle)
	return client
}

func (w *world) checker(c dnscheck.Config) *dnscheck.Checker {
	w.t.Helper()
	for _, addr := range w.sandbox.DNSAddrs() {
		resolver, err := dnscheck.ParseResolver(addr)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Resolvers = append(c.Resolvers, resolver)
	}
	checker, err := dnscheck.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return checker
}

// Block implements tasks.Pace.
func (w *world) Block(_ context.Context, operation, _ string) error {
	return w.saboteur.call("pace.block", func() error {
		w.blocks = append(w.blocks, operation)
		return nil
	})
}

// ledgerRun returns the run as the ledger has it.
func (w *world) ledgerRun(id string) runs.Run {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// submit hands rows in as one run, by way of the producer.
func (w *world) submit(kind string, rows ...string) (run string) {
	w.t.Helper()
	run = fmt.Sprintf("run%d", len(w.runs))
	w.runs = append(w.runs, run)
	if err := w.submitAs(run, kind, w.giveUp, rows...); err != nil {
		w.t.Fatal(err)
	}
	return run
}

// submitAs is submit with an id, for a run that may exist.
func (w *world) submitAs(run, kind string, giveUp time.Duration, rows ...string) error {
	ctx := w.t.Context()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
	r, created, err := w.ledger.Create(ctx, runs.Run{ID: run, Kind: kind, Tenant: "default", Digest: digest, CreatedAt: w.clock.now()})
	if err != nil {
		return err
	}
	submission, err := tasks.NewProducer(w.enqueuer, w.ledger).Begin(tasks.Run{
		ID: run, Kind: kind, Tenant: "default", CreatedAt: r.CreatedAt, Generation: r.Generation, Rows: int64(len(rows)), Priority: w.priority, GiveUp: giveUp, Existed: !created,
	})
	if err != nil {
		return err
	}
	defer submission.Close()
	k, _ := tasks.KindOf(kind)
	for i, source := range rows {
		row, err := k.Parse(json.RawMessage(source), tasks.Defaults{})
		if err == nil {
			err = submission.Add(ctx, int64(i), []byte(source), row)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	_, err = submission.Finish(ctx)
	return err
}

// reboot is the worker started again after Stop was closed, or with other
// settings.
func (w *world) reboot(change ...func(*tasks.Config)) {
	w.stopping = make(chan struct{})
	w.config.Stopping = w.stopping
	for _, f := range change {
		f(&w.config)
	}
	w.mux = tasks.NewMux(w.config)
}

// queued is a task in the queue.
type queued struct {
	typ, id, queue string
	payload        []byte
	at             time.Time // when it is due
	retried        int
	state          string // "", "completed", "archived", "revoked"
	lastErr        error
	after          time.Duration // what it was enqueued with
	options        map[asynq.OptionType]any
}

func (q *queued) envelope(t *testing.T) (e tasks.VerifyPayload) {
	t.Helper()
	if err := json.Unmarshal(q.payload, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// queue is asynq's, as far as it can be seen from the tasks: an id is taken as
// long as its task is there, in whatever state.
type queue struct {
	clock *clock
	mu    sync.Mutex
	tasks []*queued
	spare []string // types whose tasks stand, and are never taken up
}

func (q *queue) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &queued{typ: task.Type(), payload: task.Payload(), at: q.clock.now(), options: map[asynq.OptionType]any{}}
	for _, o := range opts {
		n.options[o.Type()] = o.Value()
	}
	n.id, _ = n.options[asynq.TaskIDOpt].(string)
	n.queue, _ = n.options[asynq.QueueOpt].(string)
	n.after, _ = n.options[asynq.ProcessInOpt].(time.Duration)
	n.at = n.at.Add(n.after)
	if slices.ContainsFunc(q.tasks, func(o *queued) bool { return o.id == n.id }) {
		return nil, fmt.Errorf("enqueue: %w", asynq.ErrTaskIDConflict)
	}
	q.tasks = append(q.tasks, n)
	return &asynq.TaskInfo{ID: n.id}, nil
}

// Stand implements tasks.Queue.
func (q *queue) Stand(_ context.Context, queue string, ids []string) ([]bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	stand := make([]bool, len(ids))
	for i, id := range ids {
		stand[i] = slices.ContainsFunc(q.tasks, func(t *queued) bool { return t.queue == queue && t.id == id && t.state == "" })
	}
	return stand, nil
}

// lose loses every task that stands.
func (q *queue) lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = slices.DeleteFunc(q.tasks, func(t *queued) bool { return t.state == "" })
}

// next is the task that is due first; nil: none is left.
func (q *queue) next() *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first *queued
	for _, t := range q.tasks {
		if t.state == "" && !slices.Contains(q.spare, t.typ) && (first == nil || t.at.Before(first.at)) {
			first = t
		}
	}
	return first
}

func (q *queue) byType(typ string) (found []*queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.tasks {
		if t.typ == typ {
			found = append(found, t)
		}
	}
	return found
}

// Times of asynq.
const (
	// leaseLost is when a task comes back whose worker was killed.
	leaseLost = 110 * time.Second
)

// step runs the task that is due next, at its time, and does with it what
// asynq would do. It returns nil when nothing is left.
func (w *world) step() *queued {
	w.t.Helper()
	const most = 500
	if w.steps++; w.steps > most {
		w.t.Fatalf("no end after %d executions", most)
	}
	n := w.queue.next()
	if n == nil {
		return nil
	}
	if wait := n.at.Sub(w.clock.now()); wait > 0 {
		w.clock.advance(wait)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.saboteur.execution(cancel)
	err, died := w.run(ctx, n)
	if died {
		n.at, n.retried, n.lastErr = w.clock.now().Add(leaseLost), n.retried+1, errors.New("killed")
		w.saboteur.revive()
		return n
	}
	if ctx.Err() != nil { // asynq throws the handler's result away
		err = ctx.Err()
	}
	n.ended(err, w.clock.now())
	return n
}

// run delivers a task once; died: it was killed on the way.
func (w *world) run(ctx context.Context, n *queued) (err error, died bool) { //nolint:revive // the error says less
	defer func() {
		if p := recover(); p != nil {
			if p != killed {
				panic(p)
			}
			died = true
		}
		// The mux takes the panic for one of the handler's where it has nothing more to ask.
		died = died || w.saboteur.isDead()
	}()
	return w.mux.Deliver(ctx, asynq.NewTask(n.typ, n.payload), n.id, n.queue, n.retried), false
}

// drain runs tasks until none is left.
// mark is what is kept of a row under that name; empty if nothing is.
func (w *world) mark(run string, item int64, name string) []byte {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	_, kept, _, err := w.ledger.Standing(w.t.Context(), run, r.Kind, r.Generation, []int64{item})
	if err != nil {
		w.t.Fatal(err)
	}
	return kept[name]
}

func (w *world) drain() {
	w.t.Helper()
	for w.step() != nil {
		continue
	}
}

// fate is what the ledger says of a row: its outcome and detail, or "open" and
// the note.
func (w *world) fate(run string, item int64) (outcome, detail string) {
	w.t.Helper()
	settled, err := w.ledger.Settled(w.t.Context(), run, []int64{item})
	if err != nil {
		w.t.Fatal(err)
	}
	if !settled[0] {
		open, err := w.ledger.OpenRows(w.t.Context(), run, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range open {
			if o.Item == item {
				return "open", o.Reason
			}
		}
		return "open", ""
	}
	for f, err := range w.ledger.Fates(w.t.Context(), run) {
		if err != nil {
			w.t.Fatal(err)
		}
		if f.Item == item {
			return f.Outcome, f.Detail
		}
	}
	return "done", ""
}

func (w *world) wantFate(run string, item int64, outcome string, inDetail ...string) {
	w.t.Helper()
	got, detail := w.fate(run, item)
	if got != outcome {
		w.t.Errorf("row %d is %s (%s), want %s", item, got, detail, outcome)
	}
	for _, part := range inDetail {
		if !strings.Contains(detail, part) {
			w.t.Errorf("row %d: detail %q does not say %q", item, detail, part)
		}
	}
}

// wantEnded holds the run's book-keeping: every row settled and counted once.
func (w *world) wantEnded(run string) runs.Run {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	var counted int64
	for _, n := range r.Counts {
		counted += n
	}
	if !r.Ended() || r.Settled != r.Total || counted != r.Total {
		w.t.Errorf("run %s: ended %v, %d rows, %d settled, counts %v: want every row settled once", run, r.Ended(), r.Total, r.Settled, r.Counts)
	}
	return r
}

// requests are those of the operations; of all where none is named.
func (w *world) requests(operations ...string) (found []sandbox.Request) {
	for _, r := range w.sandbox.Requests() {
		if len(operations) == 0 || slices.Contains(operations, r.Operation) {
			found = append(found, r)
		}
	}
	return found
}

// writes are the requests that change something.
func (w *world) writes() []sandbox.Request {
	return w.requests(sandbox.OpUpdateDiscoveryDomain, sandbox.OpRemoveOrganizationClients, sandbox.OpCreateTemplate)
}

// domain is the tenant's record.
func (w *world) domain(org, id string) sandbox.Domain {
	w.t.Helper()
	d, ok := w.sandbox.Domain(org, id)
	if !ok {
		w.t.Fatalf("domain %s is not there", id)
	}
	return d
}

func (w *world) wantStatus(org, id, status string) {
	w.t.Helper()
	if got := w.domain(org, id).Status; got != status {
		w.t.Errorf("domain %s is %s, want %s", id, got, status)
	}
}

// killed is what stands for kill -9 in these tests: from there on the process
// does nothing any more.
var killed = new("killed")

// saboteur steps in at one of the calls that tasks make to what they depend
// on: before the call, or after it was carried out.
type saboteur struct {
	mu     sync.Mutex
	calls  []string
	at     int // the call to step in at, from 0; below 0: none
	after  bool
	cancel bool   // end the execution's context, instead of killing the process
	act    func() // done as it steps in; nil: nothing is
	spare  bool   // only that: neither the context nor the process ends

	on func(call string, after bool) bool // in place of at and after; nil: those

	watch func() // called before and after each call; nil: nobody does

	stop context.CancelFunc
	dead bool
	done bool // it has stepped in
}

func (s *saboteur) execution(stop context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = stop
}

func (s *saboteur) revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = false
}

func (s *saboteur) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

func (s *saboteur) enter(name string) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		panic(killed)
	}
	s.calls = append(s.calls, name)
	return len(s.calls) - 1
}

func (s *saboteur) strike(number int, after bool) {
	if s.watch != nil {
		s.watch()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || !s.isDue(number, after) {
		return
	}
	s.done = true
	if s.act != nil {
		s.act()
	}
	if s.spare {
		return
	}
	if s.cancel {
		s.stop()
		return
	}
	s.dead = true
	panic(killed)
}

func (s *saboteur) isDue(number int, after bool) bool {
	if s.on != nil {
		return s.on(s.calls[number], after)
	}
	return number == s.at && after == s.after
}

func (s *saboteur) call(name string, do func() error) error {
	n := s.enter(name)
	s.strike(n, false)
	err := do()
	s.strike(n, true)
	return err
}

func called[T any](s *saboteur, name string, do func() (T, error)) (v T, err error) {
	err = s.call(name, func() error {
		v, err = do()
		return err
	})
	return v, err
}

type sabotagedAPI struct {
	s   *saboteur
	api tasks.API
}

func (a sabotagedAPI) DiscoveryDomain(ctx context.Context, org, id string) (apiclient.DiscoveryDomain, error) {
	return called(a.s, "api.get", func() (apiclient.DiscoveryDomain, error) { return a.api.DiscoveryDomain(ctx, org, id) })
}

func (a sabotagedAPI) UpdateDiscoveryDomain(ctx context.Context, org, id string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error) {
	return called(a.s, "api.patch", func() (apiclient.DiscoveryDomain, error) { return a.api.UpdateDiscoveryDomain(ctx, org, id, u) })
}

func (a sabotagedAPI) RemoveOrganizationClients(ctx context.Context, org string, clients []string) error {
	return a.s.call("api.delete", func() error { return a.api.RemoveOrganizationClients(ctx, org, clients) })
}

func (a sabotagedAPI) CreateTemplate(ctx context.Context, r apiclient.TemplateRequest) (apiclient.Template, error) {
	return called(a.s, "api.post", func() (apiclient.Template, error) { return a.api.CreateTemplate(ctx, r) })
}

func (a sabotagedAPI) Templates(ctx context.Context) iter.Seq2[apiclient.Template, error] {
	return func(yield func(apiclient.Template, error) bool) {
		n := a.s.enter("api.list")
		a.s.strike(n, false)
		a.api.Templates(ctx)(yield)
		a.s.strike(n, true)
	}
}

func (a sabotagedAPI) OrganizationsPage(ctx context.Context, from string) (page []apiclient.Listed[apiclient.Organization], next string, err error) {
	err = a.s.call("api.organizations", func() error {
		page, next, err = a.api.OrganizationsPage(ctx, from)
		return err
	})
	return page, next, err
}

func (a sabotagedAPI) DiscoveryDomainsPage(ctx context.Context, org, from string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error) {
	err = a.s.call("api.domains", func() error {
		page, next, err = a.api.DiscoveryDomainsPage(ctx, org, from)
		return err
	})
	return page, next, err
}

type sabotagedLimit struct {
	s     *saboteur
	limit tasks.ClientLimit
}

func (l sabotagedLimit) InUse(ctx context.Context, setting int) (int, error) {
	return called(l.s, "limit.in_use", func() (int, error) { return l.limit.InUse(ctx, setting) })
}

func (l sabotagedLimit) Lower(ctx context.Context, setting, to int) (bool, error) {
	return called(l.s, "limit.lower", func() (bool, error) { return l.limit.Lower(ctx, setting, to) })
}

type sabotagedDNS struct {
	s   *saboteur
	dns tasks.DNS
}

func (d sabotagedDNS) Look(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return called(d.s, "dns.look", func() (dnscheck.Verdict, error) { return d.dns.Look(ctx, host, token) })
}

func (d sabotagedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return called(d.s, "dns.prove", func() (dnscheck.Verdict, error) { return d.dns.Prove(ctx, host, token) })
}

func (d sabotagedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return called(d.s, "dns.disprove", func() (dnscheck.Verdict, error) { return d.dns.Disprove(ctx, host, token) })
}

func (d sabotagedDNS) Operator(ctx context.Context, host string) (string, error) {
	return called(d.s, "dns.operator", func() (string, error) { return d.dns.Operator(ctx, host) })
}

type sabotagedMemories struct {
	s        *saboteur
	memories tasks.Memories
}

func (m sabotagedMemories) Memory(ctx context.Context, domain string) ([]byte, error) {
	return called(m.s, "memory.read", func() ([]byte, error) { return m.memories.Memory(ctx, domain) })
}

func (m sabotagedMemories) Remember(ctx context.Context, domain string, former, value []byte, attend bool, tick int64, counted ...string) (bool, error) {
	return called(m.s, "memory.remember", func() (bool, error) {
		return m.memories.Remember(ctx, domain, former, value, attend, tick, counted...)
	})
}

func (m sabotagedMemories) Attended(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		n := m.s.enter("memory.attended")
		m.s.strike(n, false)
		m.memories.Attended(ctx)(yield)
		m.s.strike(n, true)
	}
}

func (m sabotagedMemories) Tally(ctx context.Context, tick int64) (map[string]int64, error) {
	return called(m.s, "memory.tally", func() (map[string]int64, error) { return m.memories.Tally(ctx, tick) })
}

func (m sabotagedMemories) State(ctx context.Context, name string) ([]byte, error) {
	return called(m.s, "memory.state", func() ([]byte, error) { return m.memories.State(ctx, name) })
}

func (m sabotagedMemories) SetState(ctx context.Context, name string, former, value []byte) (bool, error) {
	return called(m.s, "memory.set_state", func() (bool, error) { return m.memories.SetState(ctx, name, former, value) })
}

// notices are what was told; the same id again is told once.
type notices struct {
	s    *saboteur
	told *telling
}

// telling is what several workers have told.
type telling struct {
	mu  sync.Mutex
	all []tasks.Notice
}

func (n *notices) Tell(_ context.Context, notice tasks.Notice) error {
	return n.s.call("tell", func() error {
		n.told.mu.Lock()
		defer n.told.mu.Unlock()
		if !slices.ContainsFunc(n.told.all, func(o tasks.Notice) bool { return o.ID == notice.ID }) {
			n.told.all = append(n.told.all, notice)
		}
		return nil
	})
}

// types are the types of what was told, in order.
func (n *notices) types() string {
	var types []string
	for _, t := range n.told.all {
		types = append(types, t.Type)
	}
	return strings.Join(types, " ")
}

type sabotagedQueue struct {
	s     *saboteur
	queue tasks.Enqueuer
}

func (q sabotagedQueue) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	return called(q.s, "enqueue", func() (*asynq.TaskInfo, error) { return q.queue.EnqueueContext(ctx, task, opts...) })
}

type sabotagedLedger struct {
	s      *saboteur
	ledger tasks.Ledger
}

func (l sabotagedLedger) Standing(ctx context.Context, run, kind string, generation int, items []int64) (settled []bool, kept map[string][]byte, drop string, err error) {
	err = l.s.call("ledger.standing", func() error {
		settled, kept, drop, err = l.ledger.Standing(ctx, run, kind, generation, items)
		return err
	})
	return settled, kept, drop, err
}

func (l sabotagedLedger) Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error {
	return l.s.call("ledger.settle", func() error { return l.ledger.Settle(ctx, run, kind, generation, items, outcome, detail) })
}

func (l sabotagedLedger) SettleRow(ctx context.Context, run, kind string, generation int, item int64, name string, mark []byte, outcome, detail string, evidence []byte) (string, error) {
	return called(l.s, "ledger.settle", func() (string, error) {
		return l.ledger.SettleRow(ctx, run, kind, generation, item, name, mark, outcome, detail, evidence)
	})
}

func (l sabotagedLedger) Note(ctx context.Context, run string, generation int, items []int64, reason string, next time.Time) error {
	return l.s.call("ledger.note", func() error { return l.ledger.Note(ctx, run, generation, items, reason, next) })
}

func (l sabotagedLedger) Begin(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (string, error) {
	return called(l.s, "ledger.begin", func() (string, error) {
		return l.ledger.Begin(ctx, run, item, generation, name, value, former)
	})
}

func (l sabotagedLedger) Amend(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (string, error) {
	return called(l.s, "ledger.amend", func() (string, error) {
		return l.ledger.Amend(ctx, run, item, generation, name, value, former)
	})
}

func (l sabotagedLedger) Looked(ctx context.Context, run string, item int64, generation int, reason string, next time.Time, evidence []byte, kept map[string][]byte) error {
	return l.s.call("ledger.looked", func() error { return l.ledger.Looked(ctx, run, item, generation, reason, next, evidence, kept) })
}

func (l sabotagedLedger) WalkAt(ctx context.Context, run string) (step, enqueued, stored int64, told, cursor []byte, err error) {
	err = l.s.call("ledger.walk_at", func() error {
		step, enqueued, stored, told, cursor, err = l.ledger.WalkAt(ctx, run)
		return err
	})
	return step, enqueued, stored, told, cursor, err
}

func (l sabotagedLedger) WalkStep(ctx context.Context, run string, generation int, step int64, told, cursor []byte, rows [][]byte, name string, kept [][]byte) (string, error) {
	return called(l.s, "ledger.walk_step", func() (string, error) {
		return l.ledger.WalkStep(ctx, run, generation, step, told, cursor, rows, name, kept)
	})
}

func (l sabotagedLedger) NoteWalk(ctx context.Context, run string, generation int, reason string, next time.Time) error {
	return l.s.call("ledger.note_walk", func() error { return l.ledger.NoteWalk(ctx, run, generation, reason, next) })
}

func (l sabotagedLedger) Rows(ctx context.Context, run string, first int64, n int) ([][]byte, error) {
	return called(l.s, "ledger.rows", func() ([][]byte, error) { return l.ledger.Rows(ctx, run, first, n) })
}

func (l sabotagedLedger) Left(ctx context.Context, run string) (open int64, told []byte, err error) {
	err = l.s.call("ledger.left", func() error {
		open, told, err = l.ledger.Left(ctx, run)
		return err
	})
	return open, told, err
}

func (l sabotagedLedger) Seal(ctx context.Context, run string, total int64) error {
	return l.s.call("ledger.seal", func() error { return l.ledger.Seal(ctx, run, total) })
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// status is a fault that answers with it.
func status(code int, header ...string) sandbox.Fault {
	f := sandbox.Fault{Status: code, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		f.Header.Set(header[i], header[i+1])
	}
	return f
}
