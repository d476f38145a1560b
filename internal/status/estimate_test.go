package status_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/runstest"
	"orgops/internal/status"
	tenants "orgops/internal/tenant"
)

// followed is what a test sees of runs that are followed.
type followed struct {
	t      *testing.T
	ledger *runs.Ledger
	now    time.Time
	ids    []string
	see    func(now time.Time) []status.Estimate
}

// follow announces a tenant, if s has one, and follows runs that the test makes.
func follow(t *testing.T, s tenants.Announced) *followed {
	t.Helper()
	rdb := redistest.New(t)
	f := &followed{t: t, ledger: runs.New(rdb), now: time.Now()}
	if s.Tenant != "" {
		if err := tenants.Announce(t.Context(), rdb, s); err != nil {
			t.Fatal(err)
		}
	}
	see := status.NewEstimator(rdb).Estimate
	f.see = func(now time.Time) []status.Estimate {
		var all []ledger.Run
		for _, id := range f.ids {
			r, err := f.ledger.Get(t.Context(), ledger.RunID(id))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return see(t.Context(), now, all)
	}
	return f
}

// run makes a sealed run of that many rows; %d in a row is its number.
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
	runstest.Submit(f.t, f.ledger, ledger.NewRun{
		ID: ledger.RunID(id), Kind: ledger.Kind(kind), Description: ledger.Description{Format: "csv", Columns: strings.Split(columns, ","), GiveUp: 50 * time.Hour},
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
	runstest.Settle(f.t, f.ledger, id, "done", "", items...)
}

// note executes the next n rows of run "a", which then wait.
func (f *followed) note(reason string, n int) {
	f.t.Helper()
	runstest.Wait(f.t, f.ledger, "a", reason, time.Hour, n)
}

// until is when the rows of run "a" are given up, as Waits has it.
func (f *followed) until() string {
	f.t.Helper()
	r, err := f.ledger.Get(f.t.Context(), "a")
	if err != nil {
		f.t.Fatal(err)
	}
	return r.CreatedAt.Add(50 * time.Hour).UTC().Format("2006-01-02 15:04 UTC")
}

// eight requests a second are left to us.
var eight = tenants.Announced{Tenant: "default", Rate: "10/s", Burst: 1, Reserve: 0.2}

// TestLeft: how long runs take at the tenant's pace.
func TestLeft(t *testing.T) {
	const ids = "organization_id,discovery_domain_id,"
	tests := []struct {
		name     string
		settings tenants.Announced
		setup    func(f *followed)
		want     []time.Duration
	}{
		{"two calls a row", eight, func(f *followed) { f.verify("a", 80) }, []time.Duration{20 * time.Second}},
		{"half of it is settled", eight, func(f *followed) {
			f.verify("a", 80)
			f.settle("a", 0, 40)
		}, []time.Duration{10 * time.Second}},
		{"a part of it waits for DNS", eight, func(f *followed) {
			f.verify("a", 80)
			f.note("not_yet: There is no TXT record at x.example.", 40)
			f.note("transient: no answer", 20)
		}, []time.Duration{10 * time.Second}},
		{"all of it waits for another attempt", eight, func(f *followed) {
			f.verify("a", 80)
			f.note("transient: no answer", 80)
		}, []time.Duration{0}},
		{"two runs share the tenant", eight, func(f *followed) {
			f.run("a", "domain:update", 80, ids+"status", "o,d%d,pending")
			f.run("b", "domain:update", 40, ids+"status", "o,d%d,pending")
		}, []time.Duration{15 * time.Second, 10 * time.Second}},
		{"clients go in batches", eight, func(f *followed) {
			f.run("a", "clients:remove", 800, "client_id,organization_id", "c%d,o")
		}, []time.Duration{time.Second}},
		{"it is paused", eight, func(f *followed) {
			f.verify("a", 80)
			if err := f.ledger.Core().Pause(f.t.Context(), "a"); err != nil {
				f.t.Fatal(err)
			}
		}, []time.Duration{0}},
		{"nobody has announced the tenant", tenants.Announced{}, func(f *followed) { f.verify("a", 80) }, []time.Duration{0}},
		{"no limit, and nothing seen yet", tenants.Announced{Tenant: "default", Rate: "unlimited"}, func(f *followed) { f.verify("a", 80) }, []time.Duration{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, tt.settings)
			tt.setup(f)
			var got []time.Duration
			for _, o := range f.see(f.now) {
				got = append(got, o.Left)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRate: it is that of the last half minute, and of a run that has ended none.
func TestRate(t *testing.T) {
	f := follow(t, tenants.Announced{Tenant: "default", Rate: "unlimited"})
	f.verify("a", 100)
	at := func(seconds int) status.Estimate { return f.see(f.now.Add(time.Duration(seconds) * time.Second))[0] }
	if got := at(0); got.Rate != 0 || got.Figures() != "" {
		t.Errorf("at first: %v, %q", got.Rate, got.Figures())
	}
	f.settle("a", 0, 50)
	if got := at(10); got.Rate != 5 || got.Left != 10*time.Second || got.Figures() != "5.0 rows/s, about 10s left" {
		t.Errorf("after 10 s: %v, %v, %q", got.Rate, got.Left, got.Figures())
	}
	if got := at(25); got.Rate != 2 {
		t.Errorf("after 25 s: %v", got.Rate)
	}
	if got := at(60); got.Rate != 0 {
		t.Errorf("after a minute: %v", got.Rate)
	}
	f.settle("a", 50, 100)
	if diff := cmp.Diff(status.Estimate{}, at(62)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

// TestHeld: an estimate names the obstacles of a run.
func TestHeld(t *testing.T) {
	tests := []struct {
		name     string
		settings tenants.Announced
		setup    func(f *followed, budget *pace.Limiter)
		want     string
	}{
		{"nothing", eight, func(*followed, *pace.Limiter) {}, ""},
		{"no worker", tenants.Announced{}, func(*followed, *pace.Limiter) {}, "no worker for tenant default has been seen on this Redis"},
		{"DNS", eight, func(f *followed, _ *pace.Limiter) { f.note("not_yet: there is none", 12) }, "12 wait for DNS, until UNTIL at most"},
		{"another attempt", eight, func(f *followed, _ *pace.Limiter) {
			f.note("transient: get_discovery_domain: GET /organizations/org_1/x: 404 Not Found: No domain found by that id", 11)
			f.note("transient: no answer", 5)
		}, "16 wait for another attempt: get_discovery_domain: GET …: 404 Not Found: No domain found by that id"},
		{"DNS, a row", eight, func(f *followed, _ *pace.Limiter) { f.note("not_yet: there is none", 1) }, "1 waits for DNS, until UNTIL at most"},
		{"a block", eight, func(f *followed, budget *pace.Limiter) {
			if err := budget.Block(f.t.Context(), "get_discovery_domain", "403 Forbidden"); err != nil {
				f.t.Fatal(err)
			}
		}, "the operation get_discovery_domain is blocked: 403 Forbidden; fix the credentials or grant the missing scope; a test request is sent from time to time, and work resumes once it succeeds"},
		{"all is blocked", eight, func(f *followed, budget *pace.Limiter) {
			if err := budget.Block(f.t.Context(), pace.All, "401"); err != nil {
				f.t.Fatal(err)
			}
			f.note("not_yet: there is none", 2)
		}, "every operation is blocked: 401; fix the credentials or grant the missing scope; a test request is sent from time to time, and work resumes once it succeeds; 2 wait for DNS, until UNTIL at most"},
		{"a pause of the run", eight, func(f *followed, _ *pace.Limiter) {
			if err := f.ledger.Core().Pause(f.t.Context(), "a"); err != nil {
				f.t.Fatal(err)
			}
		}, "paused; to continue: enqueue runs resume a"},
		{"a cancel that is not through", eight, func(f *followed, _ *pace.Limiter) {
			runstest.Begin(f.t, f.ledger, "a", 1)
			if _, err := f.ledger.Cancel(f.t.Context(), "a"); err != nil {
				f.t.Fatal(err)
			}
		}, "being cancelled; rows in progress finish first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, tt.settings)
			f.verify("a", 20)
			tt.setup(f, pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default"}))
			if got, want := f.see(f.now)[0].Waits(), strings.ReplaceAll(tt.want, "UNTIL", f.until()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestObstacleOfAPause: a pause after a 429 is an obstacle, and part of the time left.
func TestObstacleOfAPause(t *testing.T) {
	f := follow(t, eight)
	f.verify("a", 80)
	budget := pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default", Limit: pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 1}})
	budget.Answered(t.Context(), "get_discovery_domain", http.StatusTooManyRequests, http.Header{"Retry-After": {"600"}})
	got := f.see(time.Now())[0]
	if !strings.HasPrefix(got.Waits(), "the API has asked this tenant to pause (429) until ") || got.Left < 10*time.Minute {
		t.Errorf("%q, %v", got.Waits(), got.Left)
	}
}

// TestLineBelowABar: it never breaks in two, since it is drawn over.
func TestLineBelowABar(t *testing.T) {
	for width, want := range map[int]string{80: "  paused; wait\n", 14: "  paused; wa…\n", 1: "…\n", 0: "…\n"} {
		var out strings.Builder
		if err := status.WriteBelow(&out, "paused; wait", width); err != nil || out.String() != want {
			t.Errorf("%d: %q, %v, want %q", width, out.String(), err, want)
		}
	}
}
