package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/internal/cli"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// typed runs the command as it is typed.
func typed(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// measured is what all lines of JSON have.
type measured struct {
	Benchmark, Variant, Command string
	Machine                     machine
	Tasks, Rows, Round          int
	PerSecond                   float64 `json:"rows_per_second"`
	P50                         float64 `json:"p50_ms"`
	Ratio                       float64
	RequestsPerRow              float64 `json:"requests_per_row"`
	Requests, Refused           int
	Lost                        int64 `json:"rows_lost"`
	Seconds                     float64
}

func lines(t *testing.T, out string) []measured {
	t.Helper()
	var all []measured
	for line := range strings.Lines(out) {
		var m measured
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m.Machine.Cores < 1 || m.Machine.Go == "" || m.Machine.Redis == "" ||
			!strings.HasPrefix(m.Command, "go run -C bench . ") {
			t.Errorf("a line that does not say where it was measured: %s", line)
		}
		all = append(all, m)
	}
	return all
}

// ofACluster is why there are no benchmarks on one.
const ofACluster = "a benchmark empties its database, of a Cluster it would be all"

func TestVerify(t *testing.T) {
	redistest.Single(t, ofACluster)
	status, out, errs := typed(t, "verify", "--rows", "12", "--rounds", "2", "--json", "--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var order []string
	for _, m := range lines(t, out) {
		if m.Benchmark == "verify_summary" {
			order = append(order, m.Benchmark)
			if m.Ratio <= 0 {
				t.Errorf("a ratio of %v", m.Ratio)
			}
			continue
		}
		order = append(order, m.Variant)
		if m.Benchmark != "verify" || m.Rows != 12 || m.PerSecond <= 0 ||
			(m.Variant == variantOurs && (m.RequestsPerRow < 2 || m.RequestsPerRow > 2.5)) {
			t.Errorf("got %+v", m)
		}
	}
	want := []string{
		variantOurs, variantNoop, variantLoop,
		variantNoop, variantLoop, variantOurs,
		"verify_summary",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if keys := redistest.New(t).DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys were left behind", keys)
	}
}

func TestIdle(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("an embedded Redis counts no commands: set " + redistest.EnvURL)
	}
	redistest.Single(t, ofACluster)
	status, out, errs := typed(t, "idle", "--tenants", "2", "--seconds", "2", "--settle", "3s", "--json",
		"--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var r idleResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Benchmark != "idle" || r.Tenants != 2 || r.Workers != 1 || r.Commands <= 0 || r.All < r.Commands ||
		r.Connections < 1 || r.Memory <= 0 || r.Stop <= 0 {
		t.Errorf("got %+v", r)
	}
	for _, p := range r.Pages {
		if p.Status != http.StatusOK || p.First <= 0 || p.Again <= 0 {
			t.Errorf("got %+v", p)
		}
	}
	if len(r.Pages) != 4 {
		t.Errorf("%d pages, want 4", len(r.Pages))
	}
}

func TestLarge(t *testing.T) {
	if os.Getenv(redistest.EnvURL) == "" {
		t.Skip("an embedded Redis has no slow log: set " + redistest.EnvURL)
	}
	redistest.Single(t, ofACluster)
	settings := redistest.New(t).ConfigGet(t.Context(), "slowlog-*").Val()
	status, out, errs := typed(t, "large", "--rows", "2000", "--watch", "1s", "--expired", "0", "--json",
		"--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var r largeResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	// The server's memory is also that of other tests.
	if r.Rows != 2000 || r.Bytes == 0 || r.Resumed <= 0 || r.Pause <= 0 || r.Cancel <= 0 || r.Ended <= 0 || r.Delete <= 0 {
		t.Errorf("got %+v", r)
	}
	if want := []string{"cancel", "delete", "execute", "pause", "resume",
		"submit"}; !slices.Equal(slices.Sorted(maps.Keys(r.Longest)), want) {
		t.Errorf("longest commands of %v, want %v", r.Longest, want)
	}
	if after := redistest.New(t).ConfigGet(t.Context(), "slowlog-*").Val(); !maps.Equal(after, settings) {
		t.Errorf("settings of Redis: %v, want %v as before", after, settings)
	}
}

func TestPickup(t *testing.T) {
	redistest.Single(t, ofACluster)
	status, out, errs := typed(t, "pickup", "--tenants", "2", "--active", "3", "--settle", "1s", "--json",
		"--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var tenants []string
	for line := range strings.Lines(out) {
		var r pickupResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		tenants = append(tenants, r.Tenant)
		if r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
			t.Errorf("got %+v", r)
		}
	}
	if want := []string{"idle", "active"}; !slices.Equal(tenants, want) {
		t.Errorf("tenants %v, want %v", tenants, want)
	}
}

func TestEnqueue(t *testing.T) {
	redistest.Single(t, ofACluster)
	status, out, errs := typed(t, "enqueue", "--rows", "1200", "--rounds", "2", "--json", "--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var order []string
	for _, m := range lines(t, out) {
		if m.Benchmark == "enqueue_summary" {
			order = append(order, m.Benchmark)
			if m.Ratio <= 0 {
				t.Errorf("a ratio of %v", m.Ratio)
			}
			continue
		}
		order = append(order, m.Variant)
		if m.Benchmark != "enqueue" || m.Rows != 1200 || m.PerSecond <= 0 {
			t.Errorf("got %+v", m)
		}
	}
	want := []string{variantOurs, variantPlain, variantPlain, variantOurs, "enqueue_summary"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDryRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no redis-server
	status, out, errs := typed(t, "enqueue", "--dry-run", "--rows", "1200", "--json")
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	all := lines(t, out)
	if len(all) != 1 || all[0].Variant != variantDryRun || all[0].Rows != 1200 || all[0].PerSecond <= 0 {
		t.Errorf("got %+v", all)
	}
}

// TestPace: each variant once, with few rows: the figures say nothing, and nobody
// is refused in a burst of 50.
func TestPace(t *testing.T) {
	redistest.Single(t, ofACluster)
	status, out, errs := typed(t, "pace", "--rows", "8", "--behind", "30", "--json", "--redis-url", redistest.URL(t))
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	all := lines(t, out)
	if len(all) != len(paceVariants)+1 {
		t.Fatalf("%d results: %s", len(all), out)
	}
	for i, v := range paceVariants {
		if m := all[i]; m.Benchmark != "pace" || m.Variant != v.name || m.Requests != 8 || m.Lost != 0 || m.Refused != 0 {
			t.Errorf("got %+v", m)
		}
	}
	if m := all[len(all)-1]; m.Benchmark != "pace_small_run" || m.Rows != paceSmall || m.Seconds <= 0 {
		t.Errorf("got %+v", m)
	}
}

// TestPaceResult: what others take is none of ours, nor is what was refused in the
// first second counted against us, nor the first burst for us.
func TestPaceResult(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var log []request
	note := func(n int, operation string, status int, after time.Duration) {
		for range n {
			log = append(log, request{At: start.Add(after), Operation: operation, Status: status})
		}
	}
	const ours, others = apiclient.OpUpdateDiscoveryDomain, apiclient.OpListOrganizations
	note(50, ours, 200, 0)
	note(3, ours, 429, time.Second/2)
	note(2, ours, 429, 2*time.Second)
	note(60, others, 200, 5*time.Second)
	note(1, others, 429, 5*time.Second)
	note(90, ours, 200, 10*time.Second)
	note(9, others, 200, 11*time.Second) // after our last one
	got := newPaceResult(paceVariant{name: "v", foreign: true}, 140, 2, log)
	want := paceResult{
		Benchmark: "pace", Variant: "v", Rows: 140, Lost: 2, Seconds: 10,
		Used:    0.9, // 90 of the 160 less 60
		Refused: 5, RefusedLater: 2, Requests: 145, Others: 61, OthersRefused: 1,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(paceResult{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	var out bytes.Buffer
	r := &report{
		out: &out, about: about{Command: "go run -C bench .",
			Machine: machine{Cores: 2, OS: "linux", Arch: "amd64", Go: "go1.26", Redis: "7.0.15"}},
	}
	steps := []error{
		r.begin(),
		r.round(verifyResult{Variant: variantLoop, Round: 1, Rows: 1000, Seconds: 0.5, PerSecond: 2000,
			CPU: cpu{Bench: 0.4, Sandbox: 0.25}}),
		r.round(verifyResult{Variant: variantOurs, Round: 1, Rows: 1000, Seconds: 0.625, PerSecond: 1600,
			CPU: cpu{Bench: 0.5, Redis: 0.1, Sandbox: 0.25}}),
		r.summary(verifySummary{Ours: 1600, Noop: 6000, Loop: 2000, Ratio: 0.8}),
		r.enqueueRound(enqueueResult{Variant: variantPlain, Round: 1, Rows: 1_000_000, Seconds: 20, PerSecond: 50_000,
			CPU: cpu{Bench: 12, Redis: 10}, Peak: 25.04, RedisBytes: 756}),
		r.enqueueRound(enqueueResult{Variant: variantOurs, Round: 1, Rows: 1_000_000, Seconds: 16, PerSecond: 62_500,
			CPU: cpu{Bench: 15, Redis: 8}, Peak: 51.2, RedisBytes: 722}),
		r.enqueueSummary(enqueueSummary{Ours: 62_500, Plain: 50_000, Ratio: 1.25, Peak: 51.2}),
		r.pace(paceResult{Variant: "orgops, reserve 20 %", Rows: 5000, Seconds: 387.5, Used: 0.998, Requests: 5000,
			Others: 700, OthersRefused: 1}),
		r.smallRun(smallRunResult{Rows: 10, Behind: 20_000, Seconds: 2.84}),
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `go run -C bench .
2 cores, linux/amd64, go1.26, Redis 7.0.15

verify: from two ids to a verified domain; processor time in µs a row
ROUND    ROWS   SECONDS     ROWS/S  CPU OF BENCH      OF REDIS    OF SANDBOX   VARIANT
    1    1000      0.50       2000           400             0           250   plain loop
    1    1000      0.62       1600           500           100           250   orgops
medians, rows/s: orgops 1600; asynq, no-op handler 6000; plain loop 2000
orgops to plain loop: 0.80 (aimed at: 0.70)

enqueue: rows checked and stored; processor time in µs a row
ROUND      ROWS   SECONDS     ROWS/S  CPU OF PRODUCER  OF REDIS  PEAK, MB  REDIS BYTES A ROW   VARIANT
    1   1000000     20.00      50000               12        10      25.0                756   asynq.Client.Enqueue, 64 goroutines
    1   1000000     16.00      62500               15         8      51.2                722   orgops
medians, rows/s: orgops 62500 (aimed at: 100000); asynq.Client.Enqueue, 64 goroutines 50000; ratio 1.25 (aimed at: 2)
highest peak of orgops: 51.2 MB (aimed at: below 64)

pace: at 16/s, burst 50; 4 workers
  ROWS    LOST   SECONDS     USED       429s  AFTER 1st SECOND    OTHERS    OF 429s   VARIANT
  5000       0     387.5   99.8 %          0                0       700          1   orgops, reserve 20 %
10 rows to verify, submitted behind 20000: 2.8 s (aimed at: below 10)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	redistest.Single(t, ofACluster)
	used := redistest.New(t)
	if err := used.Set(t.Context(), "somebody's", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"a database with keys", []string{"--redis-url", redistest.URL(t)}, cli.StatusUsage,
			"has 1 keys; the benchmark empties its database"},
		{"a cluster", []string{"--redis-url", "redis-cluster://127.0.0.1:1"}, cli.StatusUsage, "want redis:// or rediss://"},
		{"no URL", []string{"--redis-url", "cache:6379"}, cli.StatusUsage, "redis-url: it has no scheme"},
		{"no rows", []string{"verify", "--rows", "0"}, cli.StatusUsage, "rows: want 1 or more, got 0"},
		{"no rows of enqueue", []string{"enqueue", "--rows", "0"}, cli.StatusUsage, "rows: want 1 or more, got 0"},
		{"no rounds", []string{"verify", "--rounds", "0"}, cli.StatusUsage, "rounds: want 1 or more, got 0"},
		{"nothing to be behind", []string{"pace", "--behind", "0"}, cli.StatusUsage, "behind: want 1 or more, got 0"},
		{"an unknown benchmark", []string{"speed"}, cli.StatusUsage, "speed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := typed(t, tt.args...)
			if status != tt.status || !strings.Contains(errs, tt.want) || out != "" {
				t.Errorf("status %d, %q, %q: want status %d and %q", status, out, errs, tt.status, tt.want)
			}
		})
	}
	if value := used.Get(t.Context(), "somebody's").Val(); value != "value" {
		t.Error("what was in the database is gone")
	}
}

func TestWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	status, _, errs := typed(t)
	if status != cli.StatusFailed || !strings.Contains(errs, "redis-server is not installed: install it") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestOwnRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, stop, err := startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := s.version(t.Context()); v == "unknown" {
		t.Error("its version is not known")
	}
	if s.cpu(t.Context()) <= 0 {
		t.Error("its processor time is not known")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	client, err := redisconn.Open(redisconn.Config{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if redisconn.Ready(t.Context(), client) == nil {
		t.Error("it still answers")
	}
}
