package metrics_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/metrics"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

var quiet = slog.New(slog.DiscardHandler)

func newMetrics(t *testing.T) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	return metrics.New(registry), registry
}

// series gives the lines of /metrics that begin so, without comments and
// buckets.
func series(t *testing.T, m *metrics.Metrics, prefixes ...string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d", w.Code)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) &&
			!strings.Contains(line, "_bucket{") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	m, _ := newMetrics(t)
	m.Task("default", "domain:verify", "done", 1500*time.Millisecond)
	m.Task("default", "domain:verify", "refused", 500*time.Millisecond)
	m.APIRequest("default", "get_discovery_domain", 200, 20*time.Millisecond)
	m.APIRequest("default", "get_discovery_domain", 0, 30*time.Second)
	m.DNSQuery("1.1.1.1", "udp", "NOERROR", "absent", "no_txt_record", 10*time.Millisecond)
	m.PermitWait("default", 250*time.Millisecond)
	m.ClientsPerRequest("default", 100)
	m.ClientsPerRequest("default", 10)
	m.SweepTick("default", "started")
	m.SweepTick("default", "skipped")
	m.DNSQuery("authority", "udp", "", "unknown", "timeout", time.Second)
	m.DNSQuery("authority", "udp", "RESERVED17", "unknown", "unexpected_rcode", time.Second)
	m.Verdict("default", "absent", "no_txt_record")
	m.BuildInfo("1.2.3", "")
	m.SettingsRefused(true)
	want := []string{
		`orgops_api_request_duration_seconds_sum{operation="get_discovery_domain",tenant="default"} 30.02`,
		`orgops_api_request_duration_seconds_count{operation="get_discovery_domain",tenant="default"} 2`,
		`orgops_api_requests_total{operation="get_discovery_domain",status="200",tenant="default"} 1`,
		`orgops_api_requests_total{operation="get_discovery_domain",status="none",tenant="default"} 1`,
		`orgops_build_info{commit="unknown",go_version="` + runtime.Version() + `",version="1.2.3"} 1`,
		`orgops_clients_per_request_limit{tenant="default"} 10`,
		`orgops_dns_queries_total{rcode="NOERROR",reason="no_txt_record",resolver="1.1.1.1",state="absent",transport="udp"} 1`,
		`orgops_dns_queries_total{rcode="none",reason="timeout",resolver="authority",state="unknown",transport="udp"} 1`,
		`orgops_dns_queries_total{rcode="other",reason="unexpected_rcode",resolver="authority",state="unknown",transport="udp"} 1`,
		`orgops_dns_query_duration_seconds_sum{resolver="1.1.1.1",transport="udp"} 0.01`,
		`orgops_dns_query_duration_seconds_count{resolver="1.1.1.1",transport="udp"} 1`,
		`orgops_dns_query_duration_seconds_sum{resolver="authority",transport="udp"} 2`,
		`orgops_dns_query_duration_seconds_count{resolver="authority",transport="udp"} 2`,
		`orgops_permit_wait_seconds_sum{tenant="default"} 0.25`,
		`orgops_permit_wait_seconds_count{tenant="default"} 1`,
		`orgops_settings_refused 1`,
		`orgops_sweep_ticks_total{result="skipped",tenant="default"} 1`,
		`orgops_sweep_ticks_total{result="started",tenant="default"} 1`,
		`orgops_task_duration_seconds_sum{tenant="default",type="domain:verify"} 2`,
		`orgops_task_duration_seconds_count{tenant="default",type="domain:verify"} 2`,
		`orgops_tasks_total{outcome="done",tenant="default",type="domain:verify"} 1`,
		`orgops_tasks_total{outcome="refused",tenant="default",type="domain:verify"} 1`,
		`orgops_verdicts_total{reason="no_txt_record",state="absent",tenant="default"} 1`,
	}
	if diff := cmp.Diff(want, series(t, m, "orgops_")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if got := series(t, m, "go_goroutines", "process_open_fds"); len(got) != 2 {
		t.Errorf("the runtime's and the process's metrics: %q, want both", got)
	}
}

func TestMetricsAcceptAnyLabel(t *testing.T) {
	m, _ := newMetrics(t)
	m.Task("default", "\xff\"\n", "invalid", 0)
	want := []string{"orgops_tasks_total{outcome=\"invalid\",tenant=\"default\",type=\"\ufffd\\\"\\n\"} 1"}
	if diff := cmp.Diff(want, series(t, m, "orgops_tasks_total")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func enqueue(t *testing.T, rdb redis.UniversalClient, queue string) {
	t.Helper()
	if _, err := asynq.NewClientFromRedisClient(rdb).EnqueueContext(t.Context(), asynq.NewTask("x", []byte("{}")),
		asynq.Queue(queue)); err != nil {
		t.Fatal(err)
	}
}

func TestQueues(t *testing.T) {
	rdb := redistest.Open(t)
	enqueue(t, rdb, "default.rows")
	enqueue(t, rdb, "default.rows")
	enqueue(t, rdb, "mails") // of another program
	client := asynq.NewClientFromRedisClient(rdb)
	if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("x", nil), asynq.Queue("acme.webhook.crm"),
		asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := asynq.NewInspectorFromRedisClient(rdb).PauseQueue("acme.webhook.crm"); err != nil {
		t.Fatal(err)
	}
	m, _ := newMetrics(t)
	m.WatchRedis(rdb, ledger.New(rdb), func() []tenant.Announced { return nil }, quiet)
	var want []string
	for _, queue := range []struct{ name, pending, scheduled string }{{"acme.webhook.crm", "0", "1"},
		{"default.rows", "2", "0"}} {
		for _, state := range []struct{ name, tasks string }{
			{"active", "0"}, {"archived", "0"}, {"completed", "0"}, {"pending", queue.pending},
			{"retry", "0"}, {"scheduled", queue.scheduled},
		} {
			want = append(want, `orgops_queue_tasks{queue="`+queue.name+`",state="`+state.name+`"} `+state.tasks)
		}
	}
	if diff := cmp.Diff(want, series(t, m, "orgops_queue_tasks")); diff != "" {
		t.Errorf("queue sizes (-want +got):\n%s", diff)
	}
	want = []string{`orgops_queue_paused{queue="acme.webhook.crm"} 1`, `orgops_queue_paused{queue="default.rows"} 0`,
		`orgops_redis_scrape_success 1`}
	if diff := cmp.Diff(want, series(t, m, "orgops_queue_paused", "orgops_redis_scrape")); diff != "" {
		t.Errorf("queue states (-want +got):\n%s", diff)
	}
	if got := series(t, m, "orgops_queue_latency_seconds"); len(got) != 2 {
		t.Errorf("latencies %q, want those of two queues", got)
	}
}

func TestQueuesThatCannotBeRead(t *testing.T) {
	const notOfASet = "WRONGTYPE Operation against a key"
	tests := []struct {
		name, damaged string // a key that is no queue's
		want          []string
		log           string
	}{
		{"none at all", "asynq:queues", []string{"orgops_redis_scrape_success 0"}, "list queues: " + notOfASet},
		{"one of two", "asynq:{default.rows}:pending",
			[]string{`orgops_queue_paused{queue="acme.webhook.crm"} 0`, "orgops_redis_scrape_success 0"},
			`queue \"default.rows\": read queues: ` + notOfASet},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rdb := redistest.Open(t)
			enqueue(t, rdb, "default.rows")
			enqueue(t, rdb, "acme.webhook.crm")
			if err := rdb.Set(t.Context(), test.damaged, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			m, _ := newMetrics(t)
			m.WatchRedis(rdb, ledger.New(rdb), func() []tenant.Announced { return nil },
				slog.New(slog.NewTextHandler(&log, nil)))
			m.Task("default", "x", "done", 0)
			if diff := cmp.Diff(test.want, series(t, m, "orgops_queue_paused", "orgops_redis_scrape")); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if got := series(t, m, "orgops_tasks_total"); len(got) != 1 {
				t.Errorf("the other metrics: %q, want them all the same", got)
			}
			if !strings.Contains(log.String(), test.log) {
				t.Errorf("log %q, want %q in it", log.String(), test.log)
			}
		})
	}
}

// TestInformationFailsNoScrape has ids without a task in the sets of a queue, for whose memory
// Redis has no answer, and a document that a newer version has stored: neither says that Redis is
// down, for which the scrape's success stands.
func TestInformationFailsNoScrape(t *testing.T) {
	rdb := redistest.Open(t)
	enqueue(t, rdb, "default.rows")
	for _, set := range []string{"retry", "scheduled", "completed"} {
		if err := rdb.ZAdd(t.Context(), "asynq:{default.rows}:"+set, redis.Z{Score: 2e9, Member: "ghost"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sweep.NewStore(rdb, "acme").SetState(t.Context(), "ticks", nil, []byte("a newer version")); err != nil {
		t.Fatal(err)
	}
	m, _ := newMetrics(t)
	acme := []tenant.Announced{{Tenant: "acme", Rate: "1/s"}}
	m.WatchRedis(rdb, ledger.New(rdb), func() []tenant.Announced { return acme }, quiet)
	want := []string{
		`orgops_queue_tasks{queue="default.rows",state="pending"} 1`,
		`orgops_queue_tasks{queue="default.rows",state="retry"} 1`,
		`orgops_redis_scrape_success 1`,
	}
	got := series(t, m, `orgops_queue_tasks{queue="default.rows",state="pending"}`,
		`orgops_queue_tasks{queue="default.rows",state="retry"}`, "orgops_redis_scrape_success")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestOverdueRows has a tenant whose rows are released by a dispatcher, one that has none,
// one that has had no run, and one that cannot be read.
func TestOverdueRows(t *testing.T) {
	rdb := redistest.Open(t)
	core := ledger.New(rdb)
	for _, name := range []ledger.Tenant{"served", "unserved"} {
		id := ledger.RunID("of-" + name)
		if _, _, err := core.SubmitRow(t.Context(), ledger.NewRun{ID: id, Tenant: name, Kind: "domain:update"},
			[]byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := core.TakeDue(t.Context(), "served", 10); err != nil {
		t.Fatal(err)
	}
	m, _ := newMetrics(t)
	m.WatchRedis(rdb, ledger.New(rdb), func() []tenant.Announced { return []tenant.Announced{{Tenant: "new"}} }, quiet)
	time.Sleep(10 * time.Millisecond)
	if err := rdb.SAdd(t.Context(), "orgops:v3:tenants", "Bad").Err(); err != nil {
		t.Fatal(err)
	}
	got := series(t, m, "orgops_rows_overdue_seconds")
	if len(got) != 3 || got[0] != `orgops_rows_overdue_seconds{tenant="new"} 0` ||
		got[1] != `orgops_rows_overdue_seconds{tenant="served"} 0` ||
		!strings.HasPrefix(got[2], `orgops_rows_overdue_seconds{tenant="unserved"} `) || strings.HasSuffix(got[2], " 0") {
		t.Errorf("metrics %q", got)
	}
	// Redis has answered: a name that no tenant can have is only logged.
	if got := series(t, m, "orgops_redis_scrape"); !slices.Equal(got, []string{"orgops_redis_scrape_success 1"}) {
		t.Errorf("metrics %q", got)
	}
}

// TestScrapesShareAReading: two servers that scrape at the same time both get the metrics
// in Redis.
func TestScrapesShareAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, readings := make(chan struct{}), 0
		slow := func(context.Context) ([]prometheus.Metric, error) { readings++; <-release; return nil, nil }
		collector := metrics.NewSourceCollector(slow, quiet)
		got := make(chan prometheus.Metric, 10)
		for range 2 {
			go collector.Collect(got)
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		close(got)
		for m := range got {
			var value dto.Metric
			if err := m.Write(&value); err != nil || value.GetGauge().GetValue() != 1 {
				t.Errorf("success %v, %v: want 1", value.GetGauge(), err)
			}
		}
		if readings != 1 {
			t.Errorf("%d readings, want 1", readings)
		}
	})
}

// TestReadMetricsAreExposed: the metrics of other sources are exposed while one hangs.
func TestReadMetricsAreExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hanging := func(context.Context) ([]prometheus.Metric, error) { <-release; return nil, nil }
		m, registry := newMetrics(t)
		registry.MustRegister(metrics.NewCollector(hanging, func(context.Context) (map[string]ledger.OpenCounts, error) {
			return map[string]ledger.OpenCounts{"default": {Runs: 7}}, nil
		}))
		want := []string{"orgops_redis_scrape_success 0", `orgops_runs_open{tenant="default"} 7`}
		if diff := cmp.Diff(want, series(t, m, "orgops_redis", "orgops_runs_open")); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		close(release)
		synctest.Wait()
	})
}

func TestHangingRedisDelaysLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hanging := func(context.Context) ([]prometheus.Metric, error) { <-release; return nil, nil }
		collector := metrics.NewSourceCollector(hanging, quiet)
		collect := func() (count int, took time.Duration) {
			start := time.Now()
			metrics := make(chan prometheus.Metric, 10)
			collector.Collect(metrics)
			return len(metrics), time.Since(start)
		}
		if count, took := collect(); count != 1 || took != 5*time.Second {
			t.Errorf("first: %d metrics after %s, want 1 after 5s", count, took)
		}
		if count, took := collect(); count != 1 || took != 0 {
			t.Errorf("while that one still hangs: %d metrics after %s, want 1 at once", count, took)
		}
		close(release)
		synctest.Wait()
		if count, took := collect(); count != 1 || took != 0 {
			t.Errorf("after it: %d metrics after %s, want 1 at once", count, took)
		}
	})
}
