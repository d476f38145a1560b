package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"orgops/apiclient"
	"orgops/internal/events"
	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/metrics"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/reference"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/tasks"
)

var (
	begun = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	ended = time.Date(2026, 11, 20, 4, 30, 0, 0, time.UTC)
)

// busy is the metrics of a worker that has done something of each, and whose tenant has
// met everything.
func busy(t *testing.T) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	m, registry := newMetrics(t)
	m.BuildInfo("1.2.3", "0123456789abcdef")
	m.Task("acme", tasks.TypeVerify, "done", time.Second)
	m.APIRequest("acme", "get_discovery_domain", http.StatusOK, time.Second)
	m.DNSQuery("authority", "udp", "NOERROR", "present", "found", time.Second)
	m.Verdict("acme", "present", "found")
	m.PermitWait("acme", time.Second)
	m.ClientsPerRequest("acme", 100)
	m.Event("acme", events.DomainVerified)
	m.Delivery("acme", "crm", "delivered")
	m.SweepTick("acme", "started")
	m.Network("closed", "silent")

	rdb := redistest.Open(t)
	enqueue(t, rdb, "acme.rows")
	client := asynq.NewClientFromRedisClient(rdb)
	if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("x", nil), asynq.Queue("acme.webhook.crm"),
		asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	l := ledger.New(rdb)
	ledgertest.Create(t, l, ledger.NewRun{ID: "job", Tenant: "acme"})
	limiter := pace.New(pace.Config{Redis: rdb, Tenant: "acme",
		Limit: pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 10, Reserve: .2}})
	for range 6 {
		if err := limiter.Wait(t.Context(), pace.Request{Operation: "get_discovery_domain"}); err != nil {
			t.Fatal(err)
		}
	}
	limiter.Answered(t.Context(), "get_discovery_domain", http.StatusTooManyRequests, nil, 600*time.Second)
	if err := limiter.Block(t.Context(), "create_template", "403", "fix it"); err != nil {
		t.Fatal(err)
	}
	keepSweep(t, sweep.NewStore(rdb, "acme"))
	m.WatchRedis(rdb, l, func() []tenant.Announced {
		return []tenant.Announced{{Tenant: "acme", Rate: "10/s", Burst: 10, Reserve: 20}}
	}, quiet)
	m.WatchTenant("acme", clientWith(t, "opaque"))
	return m, registry
}

func keepSweep(t *testing.T, store *sweep.Store) {
	t.Helper()
	for name, state := range map[string]any{
		sweep.SummaryState: sweep.Summary{At: ended, Present: 90, Absent: 7, Unknown: 3, Lost: 2, Unproven: 4},
	} {
		value, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := store.SetState(t.Context(), name, nil, value); err != nil || !ok {
			t.Fatalf("state %s: %t, %v", name, ok, err)
		}
	}
	ticks := sweep.Ticks{Sweep: sweep.TenantSweep{Run: "sweep", At: begun, Started: true},
		ByHand: sweep.TenantSweep{Run: "older", At: begun.Add(-time.Hour)}}
	if ok, err := store.SetTicks(t.Context(), &ticks); err != nil || !ok {
		t.Fatalf("ticks: %t, %v", ok, err)
	}
}

// TestSweepsWithoutEnd: one that was cancelled, or whose run is gone, is not reported as
// started: an alert would wait for its end for ever.
func TestSweepsWithoutEnd(t *testing.T) {
	rdb := redistest.Open(t)
	l := ledger.New(rdb)
	scheduled := sweep.TenantSweep{Run: "open", At: begun, Started: true}
	byHand := func(id string) sweep.TenantSweep { return sweep.TenantSweep{Run: id, At: begun.Add(time.Hour)} }
	tests := []struct {
		name  string
		ticks sweep.Ticks
		want  time.Time // zero: none
	}{
		{"open", sweep.Ticks{Sweep: scheduled, ByHand: byHand("open")}, begun.Add(time.Hour)},
		{"cancelled", sweep.Ticks{ByHand: byHand("cancelled")}, time.Time{}},
		{"cancelled after one of the schedule", sweep.Ticks{Sweep: scheduled, ByHand: byHand("cancelled")}, begun},
		{"gone", sweep.Ticks{ByHand: byHand("gone")}, time.Time{}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprint("acme", i)
			for _, id := range []ledger.RunID{"cancelled", "open"} {
				ledgertest.Create(t, l, ledger.NewRun{ID: id, Tenant: ledger.Tenant(name)})
			}
			if err := l.Cancel(t.Context(), ledger.Tenant(name), "cancelled"); err != nil {
				t.Fatal(err)
			}
			if ok, err := sweep.NewStore(rdb, name).SetTicks(t.Context(), &test.ticks); err != nil || !ok {
				t.Fatalf("ticks: %t, %v", ok, err)
			}
			m, _ := newMetrics(t)
			m.WatchRedis(rdb, l, func() []tenant.Announced { return []tenant.Announced{{Tenant: name}} }, quiet)
			var want []string
			if !test.want.IsZero() {
				want = append(want, fmt.Sprintf(`orgops_sweep_started_timestamp_seconds{tenant="%s"} %g`, name,
					float64(test.want.Unix())))
			}
			if diff := cmp.Diff(want, series(t, m, "orgops_sweep_started")); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTenantInMetrics: the state in Redis of a tenant that was paused, blocked and swept.
func TestTenantInMetrics(t *testing.T) {
	m, _ := busy(t)
	want := []string{
		`orgops_pace_blocked{operation="create_template",tenant="acme"} 1`,
		`orgops_pace_limit_per_second{tenant="acme"} 8`,
		`orgops_pace_used_per_second{tenant="acme"} 0.1`,
		`orgops_rows_open{tenant="acme"} 0`,
		`orgops_rows_overdue_seconds{tenant="acme"} 0`,
		`orgops_runs_open{tenant="acme"} 1`,
		`orgops_runs_stuck{tenant="acme"} 0`,
		`orgops_sweep_domains{state="absent",tenant="acme"} 1`,
		`orgops_sweep_domains{state="lost",tenant="acme"} 2`,
		`orgops_sweep_domains{state="present",tenant="acme"} 90`,
		`orgops_sweep_domains{state="unknown",tenant="acme"} 3`,
		`orgops_sweep_domains{state="unproven",tenant="acme"} 4`,
		fmt.Sprintf(`orgops_sweep_ended_timestamp_seconds{tenant="acme"} %g`, float64(ended.Unix())),
		fmt.Sprintf(`orgops_sweep_started_timestamp_seconds{tenant="acme"} %g`, float64(begun.Unix())),
	}
	got := series(t, m, "orgops_pace_blocked", "orgops_pace_limit", "orgops_pace_used", "orgops_ro", "orgops_runs",
		"orgops_sweep_started", "orgops_sweep_domains", "orgops_sweep_ended")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	var left float64
	paused := series(t, m, "orgops_pace_paused")
	if _, err := fmt.Sscanf(strings.Join(paused, "\n"), `orgops_pace_paused_seconds{tenant="acme"} %g`,
		&left); err != nil || left <= 0 || left > 600 {
		t.Errorf("%q, %v: want what is left of ten minutes", paused, err)
	}
}

// TestMetricsAreLinted holds the names to what Prometheus asks of them.
func TestMetricsAreLinted(t *testing.T) {
	_, registry := busy(t)
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{registry, intake(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestOpenRunsAreNotReadEachTime: a reading is good for some seconds, and one that took
// long for a hundred times as long.
func TestOpenRunsAreNotReadEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		var readings int64
		m, registry := newMetrics(t)
		registry.MustRegister(metrics.NewRunCollector(func(context.Context) (map[string]ledger.OpenCounts, error) {
			time.Sleep(took)
			readings++
			return map[string]ledger.OpenCounts{"default": {Runs: readings}}, nil
		}))
		want := func(when string, reading int) {
			t.Helper()
			if diff := cmp.Diff([]string{fmt.Sprintf(`orgops_runs_open{tenant="default"} %d`, reading)},
				series(t, m, "orgops_runs_open")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want("first", 1)
		time.Sleep(4 * time.Second)
		want("soon", 1)
		took = time.Second
		time.Sleep(time.Second)
		want("later", 2)
		time.Sleep(98 * time.Second)
		want("a minute and a half after one that took a second", 2)
		time.Sleep(2 * time.Second)
		want("a hundred seconds after it", 3)
	})
}

// TestManyOpenRunsDelayNothing: runs that take Redis half a minute to tell of keep
// nothing else back, and are shown once they are read.
func TestManyOpenRunsDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		one := prometheus.MustNewConstMetric(prometheus.NewDesc("other", "", nil, nil), prometheus.GaugeValue, 1)
		quick := func(context.Context) ([]prometheus.Metric, error) { return []prometheus.Metric{one}, nil }
		readings := 0
		registry.MustRegister(metrics.NewCollector(quick, func(context.Context) (map[string]ledger.OpenCounts, error) {
			readings++
			time.Sleep(30 * time.Second)
			return map[string]ledger.OpenCounts{"default": {Runs: 1_000_000}}, nil
		}))
		others := []string{"orgops_redis_scrape_success 1", "other 1"}
		want := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, series(t, m, "orgops_redis", "orgops_runs_open", "other")); diff != "" {
				t.Errorf("after %d readings (-want +got):\n%s", readings, diff)
			}
		}
		want(others...)
		time.Sleep(10 * time.Second)
		want(others...)
		time.Sleep(20 * time.Second)
		want(others[0], `orgops_runs_open{tenant="default"} 1e+06`, others[1])
		if readings != 1 {
			t.Errorf("%d readings, want one", readings)
		}
	})
}

// TestOpenRunsThatCannotBeRead: they are not asked for again with each scrape.
func TestOpenRunsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		readings := 0
		registry.MustRegister(metrics.NewRunCollector(func(context.Context) (map[string]ledger.OpenCounts, error) {
			readings++
			time.Sleep(time.Second)
			return nil, os.ErrDeadlineExceeded
		}))
		for i, wanted := range []int{1, 1, 2} { // at 0, 6 and 12 s
			if diff := cmp.Diff([]string{"orgops_redis_scrape_success 0"},
				series(t, m, "orgops_redis", "orgops_runs_open")); diff != "" || readings != wanted {
				t.Errorf("scrape %d: %d readings, want %d (-want +got):\n%s", i, readings, wanted, diff)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// intake is the registry of an intake that has refused a request.
func intake(t *testing.T) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	h := httpapi.New(httpapi.Config{Redis: redistest.Open(t), Registry: registry, Limits: httpapi.Limits{Uploads: -1}})
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/runs/domain:verify?dry_run=1", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	return registry
}

// TestReference compares the page of metrics with what is exposed.
func TestReference(t *testing.T) {
	_, registry := busy(t)
	families, err := prometheus.Gatherers{registry, intake(t)}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "orgops_") {
			continue
		}
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		rows = append(rows, []string{reference.Code(f.GetName()), strings.ToLower(f.GetType().String()),
			strings.Join(labels, ", "), reference.Prose(f.GetHelp())})
	}
	reference.Check(t, "metrics.md", "metrics", reference.Table([]string{"name", "type", "labels", "meaning"}, rows))
}

// clientWith is a client with that token.
func clientWith(t *testing.T, token string) *apiclient.Client {
	t.Helper()
	c, err := apiclient.New(apiclient.Config{BaseURL: "https://tenant.example/api/v2",
		Tokens: apiclient.StaticToken(apiclient.NewSecret(token))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTokenInMetrics: one that has ended is none.
func TestTokenInMetrics(t *testing.T) {
	const ended = "eyJhbGciOiJub25lIn0.eyJleHAiOjE1MDAwMDAwMDB9." // exp: 2017
	m, _ := newMetrics(t)
	m.WatchTenant("good", clientWith(t, "opaque"))
	m.WatchTenant("late", clientWith(t, ended))
	want := []string{
		`orgops_token_failures_total{tenant="good"} 0`,
		`orgops_token_failures_total{tenant="late"} 0`,
		`orgops_token_ok{tenant="good"} 1`,
		`orgops_token_ok{tenant="late"} 0`,
	}
	if diff := cmp.Diff(want, series(t, m, "orgops_token")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestForgottenTenantHasNoSeries: a tenant that is not served any more has no series, and can be
// served again.
func TestForgottenTenantHasNoSeries(t *testing.T) {
	m, _ := newMetrics(t)
	all := func(tenant string) func() {
		m.Task(tenant, "domain:verify", "done", time.Second)
		m.APIRequest(tenant, "get_discovery_domain", 200, time.Second)
		m.PermitWait(tenant, time.Second)
		m.ClientsPerRequest(tenant, 100)
		m.Event(tenant, "run.finished")
		m.Delivery(tenant, "crm", "delivered")
		m.SweepTick(tenant, "started")
		m.Verdict(tenant, "absent", "no_txt_record")
		return m.WatchTenant(tenant, clientWith(t, "opaque"))
	}
	all("other")
	want := series(t, m, "orgops_")
	all("gone")()
	if diff := cmp.Diff(want, series(t, m, "orgops_")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	all("gone")
	if got := series(t, m, "orgops_"); len(got) != 2*len(want)-1 { // orgops_settings_refused has no tenant
		t.Errorf("%d series, want those of two tenants: %q", len(got), got)
	}
}
