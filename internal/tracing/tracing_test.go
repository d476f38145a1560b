package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/otlptest"
	"orgops/internal/redistest"
	"orgops/internal/tracing"
)

// start starts a Tracing of the variables.
func start(t *testing.T, endpoint string, variables ...string) *tracing.Tracing {
	t.Helper()
	return startWith(t, slog.New(slog.DiscardHandler), endpoint, variables...)
}

func startWith(t *testing.T, log *slog.Logger, endpoint string, variables ...string) *tracing.Tracing {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	for i := 0; i < len(variables); i += 2 {
		t.Setenv(variables[i], variables[i+1])
	}
	traces, err := tracing.New(t.Context(), os.Getenv, "test", "1.2.3", log)
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

func task(typ, payload string) *asynq.Task { return asynq.NewTask(typ, []byte(payload)) }

// TestLogNamesTheTrace of the span that a line belongs to.
func TestLogNamesTheTrace(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL)
	var out bytes.Buffer
	log := traces.Logger(slog.New(slog.NewTextHandler(&out, nil))).With("tenant", "acme")
	ctx, end := traces.Begin(t.Context(), "permit")
	log.InfoContext(ctx, "in it")
	end(false)
	log.Info("beside")
	traces.Close()
	span := c.Spans()[0]
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[0], "tenant=acme trace_id="+span.Trace+" span_id="+span.ID) ||
		strings.Contains(lines[1], "trace_id") {
		t.Errorf("log %q, want the first line to name %+v", lines, span)
	}
}

// TestRowsOfTheEngine: an execution of the engine is a trace of its own, which links to
// the submission, and names its rows.
func TestRowsOfTheEngine(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	c := otlptest.Start(t)
	traces := start(t, c.URL)
	rows := []ledger.ReleasedRow{{Row: 5, Content: []byte(`{}`)}, {Row: 9, Content: []byte(`{}`)}}
	run := ledger.Run{ID: "job", Kind: "clients:remove",
		Description: ledger.Description{Trace: "00-" + id + "-b7ad6b7169203331-01"}}
	rowsOfTwo := engine.NewTask(run, ledger.Segment{Run: "job", Incarnation: "a", Number: 2}, "t", rows...)
	const other = "1af7651916cd43dd8448eb211c80319c"
	run.Trace = "00-" + other + "-b7ad6b7169203331-01"
	rowsOfTwo.Add(engine.NewTask(run, ledger.Segment{Run: "job-2", Incarnation: "b"}, "t", rows[0]))
	payload, err := rowsOfTwo.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	process := traces.Traced(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		traces.Ended(ctx, "done")
		return nil
	}))
	if err := process.ProcessTask(t.Context(), task("clients:remove", string(payload))); err != nil {
		t.Fatal(err)
	}
	traces.Close()
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Parent != "" || spans[0].Trace == id ||
		!cmp.Equal(spans[0].Links, []string{other, id}) {
		t.Fatalf("spans %+v, want a root that links to %s and %s", spans, id, other)
	}
	want := map[string]string{
		"orgops.tenant": "", "orgops.run": "job", "orgops.segment": "2", "orgops.row": "5", "orgops.rows": "2",
		"orgops.outcome": "done",
	}
	if diff := cmp.Diff(want, spans[0].Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// TestRetriesKeepTheTrace of the execution that enqueued the task; a task of a producer that
// traces nothing begins a trace. The tenant's name is not valid UTF-8 after it was cut, which
// must not lose the other spans.
func TestRetriesKeepTheTrace(t *testing.T) {
	c, rdb := otlptest.Start(t), redistest.Open(t)
	traces := start(t, c.URL, "OTEL_SERVICE_NAME", "mine")
	client := asynq.NewClientFromRedisClient(rdb)
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	executed := make(chan int, 3)
	handler := traces.Traced(asynq.HandlerFunc(func(ctx context.Context, at *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(ctx)
		defer func() { executed <- retried }()
		switch {
		case at.Type() == "first":
			next := asynq.NewTaskWithHeaders("delivery", []byte(`{"tenant":"`+strings.Repeat("x", 127)+`é"}`),
				traces.Headers(ctx))
			_, err := client.EnqueueContext(ctx, next)
			return err
		case retried == 0:
			return errors.New("once")
		}
		return nil
	}))
	if _, err := client.EnqueueContext(t.Context(), task("first", `no JSON`)); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(handler); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-executed
	}
	server.Shutdown()
	traces.Close()
	byName := map[string][]otlptest.Span{}
	for _, s := range c.Spans() {
		byName[s.Name] = append(byName[s.Name], s)
	}
	first, deliveries := byName["process first"], byName["process delivery"]
	if len(first) != 1 || len(deliveries) != 2 || first[0].Parent != "" || first[0].Service != "mine" {
		t.Fatalf("spans %v, want a root of the service mine, and two of a delivery", byName)
	}
	for _, s := range deliveries {
		if s.Parent != first[0].ID || s.Trace != first[0].Trace ||
			s.Attributes["orgops.tenant"] != strings.Repeat("x", 127)+"\ufffd" {
			t.Errorf("%+v: want it below %s of %s", s, first[0].ID, first[0].Trace)
		}
	}
}

// TestSubmissions: rows that a caller submits with a traceparent belong to its trace, unless the
// caller does not sample it.
func TestSubmissions(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL)
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, want := range map[string]string{"00-" + id + "-" + parent + "-01": id,
		"00-" + id + "-" + parent + "-00": id, "": "", "rubbish\x00": ""} {
		got := traces.Submission(traces.Remote(t.Context(), header))
		if !strings.Contains(got, want) || len(got) != 55 {
			t.Errorf("traceparent %q: got %q, want the trace %q", header, got, want)
		}
	}
	traces.Close()
	if n := len(c.Spans()); n != 3 {
		t.Errorf("%d spans, want all but the one that the caller does not sample", n)
	}
}

// TestCollectorThatHangs holds up neither the work, nor the end for long.
func TestCollectorThatHangs(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	var log bytes.Buffer
	traces := startWith(t, slog.New(slog.NewTextHandler(&log, nil)), silent.URL)
	for range 30_000 { // more than are kept for it
		_, end := traces.Begin(t.Context(), "permit")
		end(false)
	}
	traces.Close()
	if !strings.Contains(log.String(), "sending the last traces failed") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestVariables(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tc := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "want http://HOST:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://me:s3cret@collector", "want http://HOST:4318"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "sent by http/protobuf alone"},
		{"OTEL_RESOURCE_ATTRIBUTES", "rubbish", "OTEL_RESOURCE_ATTRIBUTES"},
		{"OTEL_SDK_DISABLED", "true", ""},
		{"OTEL_TRACES_EXPORTER", "none", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
			t.Setenv(tc.name, tc.value)
			traces, err := tracing.New(t.Context(), os.Getenv, "test", "1.2.3", log)
			switch {
			case tc.want == "" && (traces != nil || err != nil):
				t.Errorf("got %v, %v, want no tracing", traces, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) ||
				strings.Contains(err.Error(), "s3cret")):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestOff: a nil Tracing leaves everything as it is.
func TestOff(t *testing.T) {
	var off *tracing.Tracing
	logger := slog.New(slog.DiscardHandler)
	if off.Logger(logger) != logger {
		t.Error("something is around the logger")
	}
	ctx := t.Context()
	began, end := off.Begin(ctx, "permit")
	end(true)
	checked, endCheck := off.DNS(began, "check")
	endCheck(dnscheck.Verdict{}, nil)
	if asked, answered := off.Request(checked, "get", "GET"); off.Remote(asked, "x") != ctx {
		t.Error("another context")
	} else {
		answered(200)
	}
	if off.Headers(ctx) != nil || off.Submission(ctx) != "" {
		t.Error("something is traced")
	}
	off.Ended(ctx, "done")
	off.Close()
}
