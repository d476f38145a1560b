package status_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/stamp"
	"orgops/internal/status"
	tenants "orgops/internal/tenant"
)

// followed is what a test sees of runs that are followed.
type followed struct {
	t      *testing.T
	ledger *ledger.Ledger
	now    time.Time
	ids    []string
	worker *ledger.Session // that lives; nil: none
	giveUp time.Duration   // of the runs: 50 h; 0 if that is the tenant's
	see    func(now time.Time) []status.Estimate
}

// follow has a worker announce a tenant, if s has one, and follows runs that the test makes.
func follow(t *testing.T, s tenants.Announced) *followed {
	t.Helper()
	rdb := redistest.New(t)
	f := &followed{t: t, ledger: ledger.New(rdb), now: time.Now()}
	if s.GiveUp == 0 {
		f.giveUp = 50 * time.Hour
	}
	if s.Tenant != "" {
		if _, err := tenants.Announce(t.Context(), rdb, s); err != nil {
			t.Fatal(err)
		}
		f.worker = &ledger.Session{ID: ledger.NewSessionID(), Tenants: []ledger.Tenant{ledger.Tenant(s.Tenant)}}
	}
	see := status.NewEstimator(rdb).Estimate
	f.see = func(now time.Time) []status.Estimate {
		if f.worker != nil {
			if _, err := f.ledger.Renew(t.Context(), *f.worker); err != nil {
				t.Fatal(err)
			}
		}
		var all []ledger.Run
		for _, id := range f.ids {
			all = append(all, f.get(id))
		}
		return see(t.Context(), now, all)
	}
	return f
}

func (f *followed) get(id string) ledger.Run {
	f.t.Helper()
	r, err := f.ledger.Get(f.t.Context(), "", ledger.RunID(id))
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// run makes a committed run of that many rows; %d in a row is its number.
func (f *followed) run(id, kind string, rows int, columns, row string) {
	f.t.Helper()
	var stored []string
	for i := range rows {
		cells := strings.Split(strings.ReplaceAll(row, "%d", strconv.Itoa(i)), ",")
		members := map[string]string{}
		for n, column := range strings.Split(columns, ",") {
			members[column] = cells[n]
		}
		text, err := json.Marshal(members)
		if err != nil {
			f.t.Fatal(err)
		}
		stored = append(stored, string(text))
	}
	ledgertest.Submit(f.t, f.ledger, ledger.NewRun{
		ID: ledger.RunID(id), Kind: ledger.Kind(kind), Description: ledger.Description{Format: "csv",
			Columns: strings.Split(columns, ","), GiveUp: f.giveUp},
	}, stored...)
	f.ids = append(f.ids, id)
}

// verify makes a run of domains of which neither host nor token is known.
func (f *followed) verify(id string, rows int) {
	f.run(id, "domain:verify", rows, "organization_id,discovery_domain_id", "o1,d%d")
}

// settle settles rows from one up to another.
func (f *followed) settle(id string, from, past int64) {
	f.t.Helper()
	var items []int64
	for item := from; item < past; item++ {
		items = append(items, item)
	}
	ledgertest.Settle(f.t, f.ledger, id, "done", "", items...)
}

// note executes the next n rows of run "a", which then wait.
func (f *followed) note(reason string, n int) {
	f.t.Helper()
	ledgertest.Wait(f.t, f.ledger, "a", reason, time.Hour, n)
}

// until is when the rows of run "a" are given up, as Waits has it.
func (f *followed) until() string {
	f.t.Helper()
	return stamp.UTC(f.get("a").CreatedAt.Add(50 * time.Hour))
}

var announced = tenants.Announced{Tenant: "default", Rate: "10/s", Burst: 1}

// at returns the estimate of run "a" some seconds after the first.
func (f *followed) at(seconds int) status.Estimate {
	return f.see(f.now.Add(time.Duration(seconds) * time.Second))[0]
}

// TestTimeLeftOfARun: how long a run takes at its rate, of which 40 of 80 rows were settled in ten
// seconds; nothing is said of a run that does not move.
func TestTimeLeftOfARun(t *testing.T) {
	tests := []struct {
		name     string
		settings tenants.Announced
		setup    func(f *followed)
		want     string
	}{
		{"all others are in line", announced, func(*followed) {}, "4.0 rows/s, about 10s left"},
		{"a part of it waits", announced, func(f *followed) {
			f.note("not_yet: There is no TXT record at x.example.", 10)
			f.note("transient: no answer", 10)
		}, "6.0 rows/s, about 3s left"},
		{"all of it waits for another attempt", announced,
			func(f *followed) { f.note("transient: no answer", 40) }, "8.0 rows/s"},
		{"it is paused", announced, func(f *followed) {
			if err := ledgertest.Control(f.t.Context(), f.ledger, (*ledger.Ledger).Pause, "a"); err != nil {
				f.t.Fatal(err)
			}
		}, ""},
		{"its tenant is blocked", announced, func(f *followed) {
			if err := pace.New(pace.Config{Redis: redistest.New(f.t), Tenant: "default"}).Block(f.t.Context(),
				pace.All, "401", "fix it"); err != nil {
				f.t.Fatal(err)
			}
		}, ""},
		{"no worker serves it", tenants.Announced{}, func(*followed) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, tt.settings)
			f.verify("a", 80)
			f.at(0)
			f.settle("a", 0, 40)
			tt.setup(f)
			if got := f.at(10).Figures(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRate: it is that of the last two minutes without their first seconds, and of a run that has
// ended none.
func TestRate(t *testing.T) {
	f := follow(t, announced)
	f.verify("a", 100)
	if got := f.at(0); got.Rate != 0 || got.Figures() != "" {
		t.Errorf("at first: %v, %q", got.Rate, got.Figures())
	}
	f.settle("a", 0, 20)
	if got := f.at(5); got.Rate != 4 {
		t.Errorf("with the burst: %v, want 4", got.Rate)
	}
	f.settle("a", 20, 50)
	for _, step := range []struct {
		at   int
		want float64
	}{{10, 6}, {65, .5}, {134, 0}} {
		if got := f.at(step.at); got.Rate != step.want {
			t.Errorf("after %d s: %v, want %v", step.at, got.Rate, step.want)
		}
	}
	f.settle("a", 50, 100)
	if diff := cmp.Diff(status.Estimate{}, f.at(136)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

// TestEstimatesDoNotWaitForEachOther: one that reads a Redis which does not answer holds up no
// other, and what could not be read is not taken for a fault.
func TestEstimatesDoNotWaitForEachOther(t *testing.T) {
	f := follow(t, announced)
	f.verify("a", 10)
	all := []ledger.Run{f.get("a")}
	rdb := redistest.New(t)
	hold := &holding{first: make(chan struct{}), release: make(chan struct{})}
	rdb.AddHook(hold)
	e := status.NewEstimator(rdb)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Estimate(t.Context(), f.now, all)
	}()
	<-hold.first
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := e.Estimate(ctx, f.now, all)[0].Waits(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	select {
	case <-ended:
		t.Error("the first estimate has ended before Redis answered")
	default:
	}
	close(hold.release)
	<-ended
}

// holding holds the pipelines of a client, of contexts that are not done, until it is released.
type holding struct {
	once           sync.Once
	first, release chan struct{}
}

func (h *holding) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.hold(ctx)
		return next(ctx, cmd)
	}
}

func (h *holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.hold(ctx)
		return next(ctx, cmds)
	}
}

func (h *holding) hold(ctx context.Context) {
	if ctx.Err() == nil {
		h.once.Do(func() { close(h.first) })
		<-h.release
	}
}

// sinceTime matches the beginning of an obstacle in a text.
var sinceTime = regexp.MustCompile(`since 20\d\d-\S*Z`)

// TestHeld: an estimate names the obstacles of a run.
func TestHeld(t *testing.T) {
	tests := []struct {
		name     string
		settings tenants.Announced
		setup    func(f *followed, budget *pace.Limiter)
		want     string
	}{
		{"nothing", announced, func(*followed, *pace.Limiter) {}, ""},
		{"no worker", tenants.Announced{}, func(*followed, *pace.Limiter) {},
			"no worker of tenant default has been seen on this Redis; start a worker that serves it; rows wait until then"},
		{"the worker has stopped", tenants.Announced{Tenant: "default", Rate: "10/s", Burst: 1,
			UpdatedAt: time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)}, func(f *followed, _ *pace.Limiter) {
			f.worker = nil
			f.note("not_yet: there is none", 2)
		}, "no worker of tenant default runs SINCE; start a worker that serves it; " +
			"rows wait until then; 2 wait for DNS, until UNTIL at most"},
		{"DNS", announced, func(f *followed, _ *pace.Limiter) { f.note("not_yet: there is none", 12) },
			"12 wait for DNS, until UNTIL at most"},
		{"DNS, for the time that the tenant has", tenants.Announced{Tenant: "default", Rate: "10/s", Burst: 1,
			GiveUp: cli.Duration(50 * time.Hour)}, func(f *followed, _ *pace.Limiter) { f.note("not_yet: there is none", 12) },
			"12 wait for DNS, until UNTIL at most"},
		{"another attempt", announced, func(f *followed, _ *pace.Limiter) {
			f.note("transient: get_discovery_domain: GET /organizations/org_1/x: 404 Not Found: No domain found by that id", 11)
			f.note("transient: no answer", 5)
		}, "16 wait for another attempt: get_discovery_domain: GET …: 404 Not Found: No domain found by that id"},
		{"DNS, a row", announced, func(f *followed, _ *pace.Limiter) { f.note("not_yet: there is none", 1) },
			"1 waits for DNS, until UNTIL at most"},
		{"a block", announced, func(f *followed, budget *pace.Limiter) {
			if err := budget.Block(f.t.Context(), "get_discovery_domain", "403 Forbidden", "fix it"); err != nil {
				f.t.Fatal(err)
			}
		},
			"the operation get_discovery_domain is blocked SINCE: 403 Forbidden; fix it; a request tests it within five minutes, or within 30 seconds after: enqueue tenant start default, or Try now on its page"},
		{"a block of another operation", announced, func(f *followed, budget *pace.Limiter) {
			if err := budget.Block(f.t.Context(), "delete_organization_clients", "403 Forbidden", "fix it"); err != nil {
				f.t.Fatal(err)
			}
		}, ""},
		{"all is blocked", announced, func(f *followed, budget *pace.Limiter) {
			if err := budget.Block(f.t.Context(), pace.All, "401", "fix it"); err != nil {
				f.t.Fatal(err)
			}
			f.note("not_yet: there is none", 2)
		},
			"every operation is blocked SINCE: 401; fix it; a request tests it within five minutes, or within 30 seconds after: enqueue tenant start default, or Try now on its page; 2 wait for DNS, until UNTIL at most"},
		{"a pause of the run", announced, func(f *followed, _ *pace.Limiter) {
			if err := ledgertest.Control(f.t.Context(), f.ledger, (*ledger.Ledger).Pause, "a"); err != nil {
				f.t.Fatal(err)
			}
		}, "paused; to continue: enqueue runs resume a"},
		{"a cancel that is not through", announced, func(f *followed, _ *pace.Limiter) {
			ledgertest.Begin(f.t, f.ledger, "a", 1)
			if err := f.ledger.Cancel(f.t.Context(), "default", "a"); err != nil {
				f.t.Fatal(err)
			}
		}, "being cancelled; rows in progress finish first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, tt.settings)
			f.verify("a", 20)
			tt.setup(f, pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default"}))
			got := sinceTime.ReplaceAllString(f.see(f.now)[0].Waits(), "SINCE")
			if want := strings.ReplaceAll(tt.want, "UNTIL", f.until()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestObstacleOfAPause: a pause after a 429 is an obstacle of a run.
func TestObstacleOfAPause(t *testing.T) {
	f := follow(t, announced)
	f.verify("a", 80)
	budget := pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default",
		Limit: pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 1}})
	budget.Answered(t.Context(), "get_discovery_domain", http.StatusTooManyRequests, nil, 600*time.Second)
	if got := f.see(time.Now())[0].Waits(); !strings.HasPrefix(got,
		"the API has asked this tenant to pause (429) until ") {
		t.Errorf("%q", got)
	}
}

// TestEnds checks that of a run which takes more than ten minutes the time of its end is said.
func TestEnds(t *testing.T) {
	f := follow(t, announced)
	f.verify("a", 1000)
	f.at(0)
	f.settle("a", 0, 10)
	got := f.at(10)
	ends := f.now.Add((10 + 990) * time.Second).Truncate(time.Minute)
	want := "1.0 rows/s, about 16m left, until " + stamp.UTC(ends)
	if got.Figures() != want {
		t.Errorf("%q, want %q", got.Figures(), want)
	}
}
