package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
	"orgops/internal/cli"
	"orgops/internal/logtest"
	"orgops/internal/redisconn"
)

// typed runs the command as it is typed, and returns the results that it writes.
func typed(t *testing.T, args ...string) (status int, results []measured, stderr string) {
	t.Helper()
	var out bytes.Buffer
	var errs logtest.Buffer
	status = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	for d := json.NewDecoder(&out); ; {
		var m measured
		switch err := d.Decode(&m.raw); {
		case errors.Is(err, io.EOF):
			return status, results, errs.String()
		case err != nil:
			t.Fatal(err)
		}
		m.into(t, &m)
		results = append(results, m)
	}
}

// measured has members of all results.
type measured struct {
	raw                json.RawMessage
	Benchmark, Variant string
	Tenant             string
	Command, Go, Redis string
	Cores              int
	Rows, Round        int
	PerSecond          float64 `json:"rows_per_second"`
	Ratio              float64
	RequestsPerRow     float64 `json:"requests_per_row"`
	Seconds            float64
}

func (m measured) into(t *testing.T, result any) {
	t.Helper()
	if err := json.Unmarshal(m.raw, result); err != nil {
		t.Fatalf("%s: %v", m.raw, err)
	}
}

// measuredBy runs a benchmark, and returns its results after the one about the machine.
func measuredBy(t *testing.T, args ...string) []measured {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	status, all, errs := typed(t, args...)
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	if m := all[0]; m.Cores < 1 || m.Go == "" || m.Redis == "" || !strings.HasPrefix(m.Command, "go run -C bench . ") {
		t.Errorf("the first result does not say where it was measured: %s", m.raw)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "orgops-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return all[1:]
}

func TestVerify(t *testing.T) {
	var order []string
	for _, m := range measuredBy(t, "verify", "--rows", "12", "--rounds", "2") {
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
			t.Errorf("got %s", m.raw)
		}
	}
	want := []string{variantOurs, variantLoop, variantLoop, variantOurs, "verify_summary"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnqueue(t *testing.T) {
	var order []string
	for _, m := range measuredBy(t, "enqueue", "--rows", "1200", "--rounds", "2") {
		if m.Benchmark == "enqueue_summary" {
			order = append(order, m.Benchmark)
			if m.Ratio <= 0 {
				t.Errorf("a ratio of %v", m.Ratio)
			}
			continue
		}
		order = append(order, m.Variant)
		if m.Benchmark != "enqueue" || m.Rows != 1200 || m.PerSecond <= 0 {
			t.Errorf("got %s", m.raw)
		}
	}
	want := []string{variantOurs, variantPlain, variantPlain, variantOurs, "enqueue_summary"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPace: each variant once, with few rows: the figures say nothing, and nobody
// is refused in a burst of 50.
func TestPace(t *testing.T) {
	all := measuredBy(t, "pace", "--rows", "8", "--behind", "30")
	if len(all) != len(paceVariants)+1 {
		t.Fatalf("%d results", len(all))
	}
	for i, v := range paceVariants {
		var r paceResult
		if all[i].into(t, &r); r.Benchmark != "pace" || r.Variant != v.name || r.Requests != 8 || r.Lost != 0 ||
			r.Refused != 0 {
			t.Errorf("got %+v", r)
		}
	}
	if m := all[len(all)-1]; m.Benchmark != "pace_small_run" || m.Rows != paceSmall || m.Seconds <= 0 {
		t.Errorf("got %s", m.raw)
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
	const ours, others = schema.OpUpdateDiscoveryDomain, schema.OpListOrganizations
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no rows", []string{"verify", "--rows", "0"}, "rows: want 1 or more, got 0"},
		{"no rows of enqueue", []string{"enqueue", "--rows", "0"}, "rows: want 1 or more, got 0"},
		{"no rounds", []string{"verify", "--rounds", "0"}, "rounds: want 1 or more, got 0"},
		{"nothing to be behind", []string{"pace", "--behind", "0"}, "behind: want 1 or more, got 0"},
		{"an unknown benchmark", []string{"speed"}, "speed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, results, errs := typed(t, tt.args...)
			if status != cli.StatusUsage || !strings.Contains(errs, tt.want) || len(results) > 0 {
				t.Errorf("status %d, %q: want %q", status, errs, tt.want)
			}
		})
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
	if v := s.version(t.Context()); v == "" {
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
