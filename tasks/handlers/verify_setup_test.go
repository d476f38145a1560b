package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/events"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// clock is ahead of the real time by a shift. Redis' time, as executions know it, and the
// tenant's are on it.
type clock struct {
	mu    sync.Mutex
	shift time.Duration
}

func (c *clock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shift
}

func (c *clock) now() time.Time { return time.Now().Add(c.ahead()) }

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// timed is a ledger of one row on a clock: the row is due at once, and after is when it
// should be.
type timed struct {
	engine.Ledger
	clock *clock
	// first and intent are by how much the clock was ahead at the row's first begin and at
	// its intent.
	first, intent time.Duration
	open          bool // an execution has left the row open
	after         time.Duration
}

func (l *timed) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	b, err := l.Ledger.Begin(ctx, seg, e, rows...)
	b.Now = b.Now.Add(l.clock.ahead())
	for i := range b.Rows {
		if c := &b.Rows[i].Checkpoint; !c.FirstBegun.IsZero() {
			c.FirstBegun = c.FirstBegun.Add(l.first)
		}
		if in := b.Rows[i].Intent; in != nil {
			in.At = in.At.Add(l.intent)
		}
	}
	return b, err
}

func (l *timed) Intend(ctx context.Context, seg ledger.Segment, n ledger.Nonce, intent []byte,
	rows ...ledger.Row) (ledger.Receipt, error) {
	r, err := l.Ledger.Intend(ctx, seg, n, intent, rows...)
	if err == nil && r.Statuses[0] == ledger.RowWritten {
		l.intent = l.clock.ahead()
	}
	return r, err
}

func (l *timed) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	after, stays := time.Duration(0), true
	switch e := ends[0].Ending.(type) {
	case ledger.Waiting:
		after, e.After = e.After, 0
		ends[0].Ending = e
	case ledger.GiveBack:
		after, e.After = e.After, 0
		ends[0].Ending = e
	default:
		stays = false
	}
	r, err := l.Ledger.End(ctx, seg, n, ends...)
	if stays {
		l.left(r, after)
	}
	return r, err
}

func (l *timed) left(r ledger.Receipt, after time.Duration) {
	if len(r.Statuses) == 0 || r.Statuses[0] != ledger.RowWritten {
		return
	}
	if !l.open {
		l.open, l.first = true, l.clock.ahead()
	}
	l.after = after
}

// line is the wait for a permit.
type line time.Duration

func (l *line) Ahead(pace.Class) time.Duration { return time.Duration(*l) }

// proving is a DNS whose proofs a test makes.
type proving struct {
	handlers.DNS
	prove func(ctx context.Context, host, token string) (dnscheck.Verdict, error)
}

func (d proving) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.prove(ctx, host, token)
}

// notified is an event, and the evidence of its row.
type notified struct {
	events.Event

	evidence []byte
}

// verifySite is a site with one row of kind Verify, on a clock that waits for nothing.
type verifySite struct {
	*site
	clock    *clock
	timed    *timed
	line     line
	config   handlers.VerifyConfig
	events   []notified
	stopping chan struct{} // of the worker; nil: never
	// handlers returns the handlers of workers; nil: the one of kind Verify.
	handlers func(handlers.VerifyConfig) map[ledger.Kind]engine.Handler
	began    time.Time
	giveUp   time.Duration
	session  ledger.SessionID // of the worker of the last step
	// together are the runs of which due rows are released in one task; nil: the site's run.
	together []ledger.Run
}

func newVerifySite(t *testing.T, change ...func(*sandbox.Options)) *verifySite {
	t.Helper()
	c := &clock{}
	change = append([]func(*sandbox.Options){func(o *sandbox.Options) {
		o.Clock, o.TokenLifetime, o.NegativeTTL = c.now, 10_000*time.Hour, time.Second
	}}, change...)
	s := &verifySite{site: newSite(t, change...), clock: c}
	s.timed = &timed{Ledger: s.Ledger, clock: c}
	s.config = handlers.VerifyConfig{
		API: domainsOf(s.api), List: func(b apiclient.Binding) handlers.DomainList { return s.api.For(b) },
		DNS: s.checker(dnscheck.Config{}), Line: &s.line, RequestTimeout: 30 * time.Second,
		GiveUp: 72 * time.Hour,
		Notify: func(_ context.Context, e events.Event, _ string, evidence []byte) error {
			s.events = append(s.events, notified{e, evidence})
			return nil
		},
	}
	return s
}

// checker returns a checker that queries the sandbox.
func (s *verifySite) checker(c dnscheck.Config) *dnscheck.Checker {
	s.t.Helper()
	c.Timeout = enginetest.Patience
	for _, addr := range s.sandbox.DNSAddrs() {
		r, err := dnscheck.ParseResolver(addr)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Resolvers = append(c.Resolvers, r)
	}
	checker, err := dnscheck.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(checker.Close)
	return checker
}

const dom = "ord_1"

// domain adds the domain of the row, and its token to the zone if it is published.
func (s *verifySite) domain(d sandbox.Domain, published bool) sandbox.Domain {
	s.t.Helper()
	d.ID = dom
	s.sandbox.AddOrganization(org, "one")
	d = s.sandbox.AddDomain(org, d)
	if published {
		s.sandbox.SetTXT(d.Host, d.TXT)
	}
	return d
}

// verify submits the row.
func (s *verifySite) verify(change ...func(*tasks.VerifyRow)) {
	s.t.Helper()
	row := tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: dom}
	for _, f := range change {
		f(&row)
	}
	content, err := json.Marshal(row)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Submit(handlers.Verify, string(content))
	s.Run.GiveUp = s.giveUp
	s.began = s.clock.now()
}

// newLostSite returns a site whose row has sent a PATCH, of which that fault has lost the answer.
func newLostSite(t *testing.T, f sandbox.Fault, change ...func(*sandbox.Options)) (*verifySite, sandbox.Domain) {
	t.Helper()
	s := newVerifySite(t, change...)
	s.giveUp = time.Hour
	d := s.domain(sandbox.Domain{Use: new(false)}, true)
	s.clock.advance(time.Hour) // reads show it, and the run is not young
	s.fail(sandbox.OpUpdateDiscoveryDomain, f)
	s.verify()
	s.step()
	return s, d
}

// named has the row name the domain instead of its id.
func named(name string) func(*tasks.VerifyRow) {
	return func(r *tasks.VerifyRow) { r.DiscoveryDomainID, r.Domain = "", name }
}

// claim sets host and token of the submitted row.
func claim(host, txt string) func(*tasks.VerifyRow) {
	return func(r *tasks.VerifyRow) { r.VerificationHost, r.VerificationTXT = host, txt }
}

// worker returns a worker around whose calls s.on is called.
func (s *verifySite) worker() (*engine.Engine, ledger.SessionID) {
	cfg := s.config
	cfg.API = func(b apiclient.Binding) handlers.Domains { return steppedDomains{s.config.API(b), s.around} }
	cfg.List = func(b apiclient.Binding) handlers.DomainList { return steppedList{s.config.List(b), s.around} }
	return s.Worker(func(c *engine.Config) {
		c.Ledger, c.Stopping = stepped{s.timed, s.around}, s.stopping
		c.Handlers = map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(cfg)}
		if s.handlers != nil {
			c.Handlers = s.handlers(cfg)
		}
	})
}

// step lets time pass until the row is due and executes it. It returns false if the row
// is not released. If the worker dies, as by kill -9, another one is given the task: a release
// without a begin would lapse only after ten seconds.
func (s *verifySite) step() bool {
	s.t.Helper()
	s.clock.advance(s.timed.after)
	s.timed.after = 0
	task := s.nextTask()
	if task == nil {
		return false
	}
	worker, session := s.worker()
	s.session = session
	if !executed(s.t.Context(), worker, task) {
		s.takeBack(session, s.runs()...)
		another, _ := s.worker()
		_ = another.ProcessTask(s.t.Context(), task)
	}
	return true
}

// runs returns the runs whose rows share tasks.
func (s *verifySite) runs() []ledger.Run {
	if s.together == nil {
		return []ledger.Run{s.Run}
	}
	return s.together
}

func (s *verifySite) nextTask() *asynq.Task {
	s.t.Helper()
	if s.together == nil {
		return s.NextTask()
	}
	return s.taskOf(s.together)
}

// until executes the row until a time.
func (s *verifySite) until(at time.Time) {
	s.t.Helper()
	for s.clock.now().Before(at) {
		if !s.step() {
			s.t.Fatalf("the row is not released: %+v", s.Row(0))
		}
	}
}

// settle executes the row until it is settled, and returns its result.
func (s *verifySite) settle() ledger.Result {
	s.t.Helper()
	for range 2000 {
		if !s.step() {
			break
		}
	}
	row := s.Row(0)
	if row.Phase != ledger.PhaseSettled {
		s.t.Fatalf("the row stays open: %+v, note %+v", row, ledger.ParseNote(row.Checkpoint.Memo))
	}
	return row.Result
}

// wantResult checks the result of the row.
func (s *verifySite) wantResult(outcome ledger.Outcome, detail string) ledger.Result {
	s.t.Helper()
	r := s.settle()
	if r.Outcome != outcome || !contains(r.Detail, detail) {
		s.t.Errorf("%s: %s; want %s: %s", r.Outcome, r.Detail, outcome, detail)
	}
	return r
}

// now returns the domain's present record.
func (s *verifySite) now(d sandbox.Domain) sandbox.Domain {
	d, _ = s.sandbox.Domain(org, d.ID)
	return d
}

// wantStatus checks that the domain has the status.
func (s *verifySite) wantStatus(status string) sandbox.Domain {
	s.t.Helper()
	d, _ := s.sandbox.Domain(org, dom)
	if d.Status != status {
		s.t.Errorf("the domain is %s, want %s", d.Status, status)
	}
	return d
}

// wantEvents checks that these types of events were notified, each ID once.
func (s *verifySite) wantEvents(types ...string) {
	s.t.Helper()
	var have, ids []string
	for _, e := range s.events {
		if !slices.Contains(ids, e.ID) {
			have, ids = append(have, e.Type), append(ids, e.ID)
		}
	}
	if !slices.Equal(have, types) {
		s.t.Errorf("events %v, want %v", have, types)
	}
}

// wantRequests checks the requests since the last call.
func (s *verifySite) wantRequests(methods ...string) {
	s.t.Helper()
	if have := s.requests(); !slices.Equal(have, methods) {
		s.t.Errorf("requests %v, want %v", have, methods)
	}
}

// writes returns the bodies of the PATCHes that reached the tenant.
func (s *verifySite) writes() (bodies []string) {
	for _, r := range s.sandbox.Requests() {
		if r.Method == "PATCH" {
			bodies = append(bodies, r.Body)
		}
	}
	return bodies
}

// wantApart checks that PATCHes were that far apart, or a second less.
func (s *verifySite) wantApart(least time.Duration) {
	s.t.Helper()
	var last time.Time
	for _, r := range s.sandbox.Requests() {
		if r.Method != http.MethodPatch {
			continue
		}
		if apart := r.At.Sub(last); apart < least-time.Second {
			s.t.Errorf("a PATCH %s after the last one", apart)
		}
		last = r.At
	}
}

// state returns the state stored with the open row.
func (s *verifySite) state() evidence.State {
	s.t.Helper()
	state, err := evidence.ReadState(ledger.ParseNote(s.Row(0).Checkpoint.Memo).Memo)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// fail adds a fault to one operation, once.
func (s *verifySite) fail(operation string, f sandbox.Fault) {
	f.Operation, f.Count = operation, max(f.Count, 1)
	s.sandbox.AddFault(f)
}

// die executes the row in a worker that dies at a point.
func (s *verifySite) die(point int) (died string) {
	s.t.Helper()
	reached := s.at(point, runtime.Goexit)
	s.step()
	s.calm()
	return *reached
}

// takeBack has the ledger take the rows of a session back, and those of runs, or else of the site's
// run, due at once, however often its worker has died.
func (s *verifySite) takeBack(session ledger.SessionID, runs ...ledger.Run) {
	s.t.Helper()
	if len(runs) == 0 {
		runs = []ledger.Run{s.Run}
	}
	for _, run := range runs {
		_, r, err := s.Reclaim(s.t.Context(), s.Of(run).Segment(), session)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, set := range []string{"check", "ready", "intended_check", "intended_ready"} {
			key := "orgops:v3:{tenant:" + string(tenant) + "}:" + string(run.Incarnation) + ".0:" + set
			if err := s.Redis.ZAddXX(s.t.Context(), key, redis.Z{Score: float64(r.Now.UnixMilli()),
				Member: "0"}).Err(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.timed.open = true
}
