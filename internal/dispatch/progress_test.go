package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
	"orgops/dnscheck/report"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/internal/workers"
	"orgops/tasks"
	"orgops/tasks/handlers"
	"orgops/tasks/releases"
)

// progress is a tenant whose rows make requests at a rate, by some workers, each with its own
// limiter.
type progress struct {
	*site
	rate     float64
	limiters []*pace.Limiter
	ctx      context.Context // of what goes on beside the rows
	beside   sync.WaitGroup

	mu       sync.Mutex
	verified map[string]bool   // by the domain's id
	fails    func(string) bool // whether PATCHes of a domain are answered with 500
	permits  map[ledger.RunID]int
	begun    map[ledger.RunID]int
}

const (
	// share is the part of the rate that is not reserved.
	share = 0.8
	// updates is a kind of rows that make one request each.
	updates ledger.Kind = "updates"
	// waits is a kind of rows that are proven at once, and have then failed for half an hour.
	waits ledger.Kind = "waits"
)

// request sends a request, which takes 50 ms, with a permit of a limiter. It is not sent if one of
// the functions fails then; nil: none.
func (p *progress) request(ctx context.Context, l *pace.Limiter, r pace.Request, status int,
	before ...func(context.Context) error) error {
	if err := l.Wait(ctx, r); err != nil {
		return err
	}
	for _, f := range before {
		if f == nil {
			continue
		}
		if err := f(ctx); err != nil {
			l.Answered(ctx, r.Operation, 0, nil, 0)
			return err
		}
	}
	time.Sleep(50 * time.Millisecond)
	l.Answered(ctx, r.Operation, status, nil, 0)
	if status >= 400 {
		return &apiclient.Error{Operation: r.Operation, Method: http.MethodPatch, Path: "/x", Status: status,
			Title: http.StatusText(status)}
	}
	return nil
}

// repeat makes requests of a class, so many at a time, one after the other, until the test ends.
func (p *progress) repeat(c pace.Class, atOnce int) {
	r := pace.Request{Operation: schema.OpListDiscoveryDomains, Class: c}
	for range atOnce {
		p.beside.Go(func() {
			for p.ctx.Err() == nil {
				if p.request(p.ctx, p.limiters[0], r, http.StatusOK) != nil {
					_ = engine.Sleep(p.ctx, time.Second)
				}
			}
		})
	}
}

// progressAPI is the API as the client of an execution reaches it.
type progressAPI struct {
	*progress
	limiter *pace.Limiter
	binding apiclient.Binding
}

// send sends a request with the class of the binding, as the client does: with the permit the
// intent is stored, and the ledger asked.
func (a progressAPI) send(ctx context.Context, operation string, status int, intent apiclient.Intent) error {
	r := pace.Request{Operation: operation, Class: pace.Class(a.binding.Class)}
	return a.request(ctx, a.limiter, r, status, intent, a.binding.Before)
}

func (a progressAPI) record(id string) schema.DiscoveryDomain {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := schema.DiscoveryDomain{ID: id, Domain: "customer.example", Status: schema.StatusPending,
		VerificationHost: "_check.customer.example", VerificationTXT: "token", UseForOrganizationDiscovery: new(true)}
	if a.verified[id] {
		d.Status = schema.StatusVerified
	}
	return d
}

// DiscoveryDomain implements [handlers.Domains].
func (a progressAPI) DiscoveryDomain(ctx context.Context, _, id string) (schema.DiscoveryDomain, error) {
	err := a.send(ctx, schema.OpGetDiscoveryDomain, http.StatusOK, nil)
	return a.record(id), err
}

// UpdateDiscoveryDomain implements [handlers.Domains].
func (a progressAPI) UpdateDiscoveryDomain(ctx context.Context, _, id string,
	_ schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	status := http.StatusOK
	if a.fails(id) {
		status = http.StatusInternalServerError
	}
	err := a.send(ctx, schema.OpUpdateDiscoveryDomain, status, intent)
	if err == nil {
		a.mu.Lock()
		a.verified[id] = true
		a.mu.Unlock()
	}
	return a.record(id), err
}

// presentDNS answers each query with the token, after 100 ms.
type presentDNS struct{}

func (presentDNS) Check(ctx context.Context, host, _ string) (dnscheck.Verdict, error) {
	err := engine.Sleep(ctx, 100*time.Millisecond)
	return dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Host: host, Basis: dnscheck.ByBoth,
		Quorum: 2, Resolvers: 3}, err
}

func (d presentDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.Check(ctx, host, token)
	return dnschecktest.Proven(v, token), err
}

func (presentDNS) Diagnose(context.Context, string, string, string, dnscheck.Verdict) (d report.Diagnosis,
	err error) {
	return d, nil
}

// onProgress runs a test of a tenant with a rate in requests per second and some workers.
func onProgress(outer *testing.T, rate float64, fleet int, test func(t *testing.T, p *progress)) {
	onSite(outer, func(t *testing.T, s *site) {
		redistest.Mini(t) // on a real one the machine has its part in the waits
		ctx, cancel := context.WithCancel(t.Context())
		p := &progress{site: s, rate: rate, ctx: ctx, verified: map[string]bool{}, permits: map[ledger.RunID]int{},
			begun: map[ledger.RunID]int{}, fails: func(string) bool { return false }}
		for rank := range fleet {
			s.start(func(o *options) { p.join(o, rank, fleet) })
		}
		test(t, p)
		cancel()
		p.beside.Wait()
	})
}

// join sets the limiter, handlers and releases of a worker.
func (p *progress) join(o *options, rank, fleet int) {
	l := pace.New(pace.Config{Redis: redistest.Open(p.t), Tenant: string(tenant), Stopping: o.engine.Stopping,
		Limit: pace.Limit{Rate: pace.Rate{Count: p.rate, Per: time.Second}, Burst: 10, Reserve: 1 - share},
		// As that of cmd/worker.
		MaxWait: 20*time.Second + time.Duration(2/(share*p.rate)*float64(time.Second)),
	})
	p.limiters = append(p.limiters, l)
	o.places, o.dispatch.Places = 450, 450 // as those of cmd/worker
	o.dispatch.Place = func() workers.Place { return workers.Place{Rank: rank, Workers: fleet} }
	o.dispatch.Pace, o.dispatch.Rate = l.State, func() float64 { return share * p.rate }
	o.dispatch.Ahead = func() time.Duration { return l.Ahead(pace.Finish) }
	o.dispatch.Kinds = releases.Kinds(schema.MaxClientsPerRequest)
	o.dispatch.Kinds[updates] = release.Kind{Operations: release.Always(schema.OpUpdateDiscoveryDomain),
		Cost: release.Cost{First: 1, Check: 1, Ready: 1}}
	o.dispatch.Kinds[waits] = release.Kind{
		Operations: release.Operations{Ready: []string{schema.OpUpdateDiscoveryDomain}}, Cost: release.Cost{Ready: 2},
	}
	api := func(b apiclient.Binding) handlers.Domains { return progressAPI{p, l, b} }
	o.engine.Block = func(ctx context.Context, operation, reason string, fault apiclient.Fault) error {
		return l.Block(ctx, operation, reason, string(fault))
	}
	o.engine.Handlers = map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(handlers.VerifyConfig{API: api, DNS: presentDNS{}, Line: l,
			RequestTimeout: 30 * time.Second, GiveUp: 72 * time.Hour}),
		waits: engine.One(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
			return &engine.Consequence{Outcome: ledger.Transient, Counts: true, Stage: ledger.StageReady,
				After: 30 * time.Minute, Reason: "500"}
		}),
		updates: engine.One(func(ctx context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
			p.mu.Lock()
			p.begun[x.Run]++
			p.mu.Unlock()
			r := pace.Request{Operation: schema.OpUpdateDiscoveryDomain}
			err := p.request(ctx, l, r, http.StatusOK, x.Fenced().Before)
			p.mu.Lock()
			p.permits[x.Run]++
			p.mu.Unlock()
			return enginetest.End(err)
		}),
	}
}

// rows returns rows of a kind.
func (p *progress) rows(kind ledger.Kind, prefix string, n int) (all [][]byte) {
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		var row any = map[string]string{"id": id}
		if kind == handlers.Verify {
			row = tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: id}
		}
		content, err := json.Marshal(row)
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, content)
	}
	return all
}

// obstacles is what may go on while a run is executed. Each returns when it is there.
var obstacles = []struct {
	name  string
	kinds []ledger.Kind
	begin func(p *progress)
}{
	{"PATCHes of a hundredth of the rows are answered with 500", []ledger.Kind{handlers.Verify}, func(p *progress) {
		p.fails = func(id string) bool { return len(id) > 1 && id[len(id)-2:] == "07" }
	}},
	{"a sweep", []ledger.Kind{handlers.Verify, updates}, func(p *progress) { p.repeat(pace.Sweep, 5) }},
	{"a scan", []ledger.Kind{handlers.Verify, updates}, func(p *progress) { p.repeat(pace.Scan, 5) }},
	{"100 rows wait at ready", []ledger.Kind{handlers.Verify, updates}, func(p *progress) {
		p.submit("waits", waits, p.rows(waits, "w", 100))
	}},
	{"a pause that ends", []ledger.Kind{handlers.Verify, updates}, func(p *progress) {
		l := p.limiters[len(p.limiters)-1]
		if err := l.Wait(p.ctx, pace.Request{Operation: schema.OpGetDiscoveryDomain}); err != nil {
			p.t.Fatal(err)
		}
		l.Answered(p.ctx, schema.OpGetDiscoveryDomain, http.StatusTooManyRequests,
			nil, 60*time.Second)
		time.Sleep(time.Minute)
	}},
}

// envProgress names the environment variable with which the tests of this file have all rates,
// fleets and sizes, which takes an hour.
const envProgress = "ORGOPS_TEST_PROGRESS"

// TestRunsProgress has a bulk run beside whatever else a tenant may do: in each minute at least
// half as many of its rows are settled as the tenant's rate allows.
func TestRunsProgress(t *testing.T) {
	t.Parallel()
	type size struct {
		rate          float64
		workers, rows int
	}
	sizes := []size{{1, 1, 600}}
	whole := os.Getenv(envProgress) != ""
	if whole {
		sizes = append(sizes, size{1, 1, 2000}, size{1, 3, 600}, size{1, 3, 2000}, size{2, 1, 600}, size{2, 1, 2000},
			size{2, 3, 600}, size{2, 3, 2000}, size{16, 1, 600}, size{16, 1, 2000}, size{16, 3, 600}, size{16, 3, 2000})
	}
	for _, o := range obstacles {
		kinds := o.kinds
		if !whole {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			for _, s := range sizes {
				t.Run(fmt.Sprintf("%s/%s, %v requests a second, %d workers, %d rows", o.name, kind, s.rate, s.workers, s.rows),
					func(t *testing.T) {
						t.Parallel()
						onProgress(t, s.rate, s.workers, func(t *testing.T, p *progress) {
							run := p.submit("bulk", kind, p.rows(kind, "d", s.rows))
							time.Sleep(5 * time.Second)
							o.begin(p)
							time.Sleep(time.Second)
							p.watch(t, run, o.name)
						})
					})
			}
		}
	}
}

// watch compares the rows that are settled in each of three minutes with the rate.
func (p *progress) watch(t *testing.T, run ledger.Run, beside string) {
	t.Helper()
	requests := map[ledger.Kind]float64{handlers.Verify: 2, updates: 1}[run.Kind]
	least := int64(math.Floor(share * p.rate * 60 / requests / 2))
	before := p.settled(run.ID)
	for minute := range 3 {
		time.Sleep(time.Minute)
		now := p.settled(run.ID)
		if run := p.run(run.ID); !run.Ended() && now-before < least && run.Rows-now > 40 {
			t.Errorf("minute %d: %d rows were settled beside %s, want at least %d", minute+1, now-before, beside, least)
		}
		before = now
	}
}

// settled returns the number of settled rows of a run.
func (p *progress) settled(id ledger.RunID) (n int64) {
	for _, rows := range p.run(id).Counts {
		n += rows
	}
	return n
}

// TestFiveRowsBesideABigRun: five rows that are submitted beside a big run begin before requests
// of two seconds were made for that run.
func TestFiveRowsBesideABigRun(t *testing.T) {
	t.Parallel()
	rates := []float64{2}
	fleets := []int{1}
	rows := 5000
	if os.Getenv(envProgress) != "" {
		rates = []float64{1, 2, 16}
		fleets = []int{1, 3}
		rows = 50_000
	}
	for _, rate := range rates {
		for _, fleet := range fleets {
			t.Run(fmt.Sprintf("%v requests a second, %d workers", rate, fleet), func(t *testing.T) {
				t.Parallel()
				onProgress(t, rate, fleet, func(t *testing.T, p *progress) {
					p.submit("big", updates, p.rows(updates, "b", rows))
					time.Sleep(30 * time.Second)
					count := func() (big, five int) {
						p.mu.Lock()
						defer p.mu.Unlock()
						return p.permits["big"], p.begun["five"]
					}
					before, _ := count()
					p.submit("five", updates, p.rows(updates, "f", 5))
					p.await("the begin of five rows", func() bool {
						_, five := count()
						return five == 5
					})
					after, _ := count()
					if n, most := after-before, max(2, int(math.Ceil(2*share*rate))); n > most {
						t.Errorf("%d requests were made for the big run before five rows had begun, want at most %d", n, most)
					}
				})
			})
		}
	}
}
