package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

func start(t *testing.T, endpoint string, ratio float64) *tracing.Tracing {
	t.Helper()
	traces, err := tracing.New(t.Context(), tracing.Config{Endpoint: endpoint, Ratio: ratio, Service: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

// queue keeps what was enqueued.
type queue struct {
	mu    sync.Mutex
	tasks []*asynq.Task
	err   error
}

func (q *queue) EnqueueContext(_ context.Context, task *asynq.Task, _ ...asynq.Option) (*asynq.TaskInfo, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, task)
	return nil, q.err
}

func task(typ, payload string) *asynq.Task { return asynq.NewTask(typ, []byte(payload)) }

// parents names the span above each span.
func parents(spans []otlptest.Span) map[string]string {
	byID, got := map[string]string{}, map[string]string{}
	for _, s := range spans {
		byID[s.ID] = s.Name
	}
	for _, s := range spans {
		got[s.Name] = byID[s.Parent]
	}
	return got
}

// TestDeliveriesGoOnWithTheTrace of the execution that enqueues them; without one they
// begin a trace.
func TestDeliveriesGoOnWithTheTrace(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL, 1)
	q := &queue{}
	e := traces.Around(q)
	if _, err := e.EnqueueContext(t.Context(), task("webhook:finished", `{}`)); err != nil {
		t.Fatal(err)
	}
	process := traces.Middleware()(asynq.HandlerFunc(func(ctx context.Context, at *asynq.Task) error {
		if at.Type() != "domain:verify" {
			return nil
		}
		_, err := e.EnqueueContext(ctx, task("webhook:deliver", `{}`))
		return err
	}))
	if err := process.ProcessTask(t.Context(), task("domain:verify", `{"run":"r"}`)); err != nil {
		t.Fatal(err)
	}
	for _, next := range q.tasks {
		if err := process.ProcessTask(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	traces.Close()
	want := map[string]string{
		"send webhook:finished":    "",
		"process webhook:finished": "send webhook:finished",
		"process domain:verify":    "",
		"send webhook:deliver":     "process domain:verify",
		"process webhook:deliver":  "send webhook:deliver",
	}
	if diff := cmp.Diff(want, parents(c.Spans())); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// TestRetriesKeepTheTrace: of a task that fails once on a real queue, and of one of a
// producer that traces nothing.
func TestRetriesKeepTheTrace(t *testing.T) {
	c, rdb := otlptest.Start(t), redistest.New(t)
	traces := start(t, c.URL, 1)
	client := asynq.NewClientFromRedisClient(rdb)
	if _, err := traces.Around(client).EnqueueContext(t.Context(), task("fails once", `{"run":"r","tenant":"acme"}`), asynq.TaskID("r-7-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueContext(t.Context(), task("untraced", `no JSON`)); err != nil {
		t.Fatal(err)
	}
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	executed := make(chan int, 3)
	handler := traces.Middleware()(asynq.HandlerFunc(func(ctx context.Context, at *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(ctx)
		defer func() { executed <- retried }()
		if at.Type() == "fails once" && retried == 0 {
			return errors.New("once")
		}
		return nil
	}))
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
	sent, processed, untraced := byName["send fails once"], byName["process fails once"], byName["process untraced"]
	if len(sent) != 1 || len(processed) != 2 || len(untraced) != 1 {
		t.Fatalf("spans %v, want one that sends, two that process it, and one beside", byName)
	}
	for _, s := range processed {
		if s.Parent != sent[0].ID || s.Trace != sent[0].Trace {
			t.Errorf("%+v: want it below %s of %s", s, sent[0].ID, sent[0].Trace)
		}
	}
	want := map[string]string{
		"messaging.system": "asynq", "messaging.destination.name": "default", "messaging.message.id": "r-7-0",
		"orgops.task.type": "fails once", "orgops.tenant": "acme", "orgops.run": "r", "orgops.attempt": "1",
	}
	if diff := cmp.Diff(want, processed[1].Attributes); diff != "" {
		t.Errorf("the second execution (-want +got):\n%s", diff)
	}
	if untraced[0].Parent != "" {
		t.Errorf("%+v: want a root", untraced[0])
	}
}

// TestNotSampled: whoever enqueues decides, and the task carries the word.
func TestNotSampled(t *testing.T) {
	c := otlptest.Start(t)
	never, always := start(t, c.URL, 0), start(t, c.URL, 1)
	q := &queue{}
	if _, err := never.Around(q).EnqueueContext(t.Context(), task("x", `{}`)); err != nil {
		t.Fatal(err)
	}
	done := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	if err := always.Middleware()(done).ProcessTask(t.Context(), q.tasks[0]); err != nil {
		t.Fatal(err)
	}
	never.Close()
	always.Close()
	if spans := c.Spans(); len(spans) != 0 {
		t.Errorf("spans %v, want none", spans)
	}
}

// TestRemote: rows that a caller submits with a traceparent link there.
func TestRemote(t *testing.T) {
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traces := start(t, otlptest.Start(t).URL, 1)
	defer traces.Close()
	for header, want := range map[string]string{traced: traced, "": "", "rubbish\x00": ""} {
		if got := traces.Traceparent(traces.Remote(t.Context(), header)); got != want {
			t.Errorf("traceparent %q: got %q, want %q", header, got, want)
		}
	}
}

// TestCollectorThatHangs holds up neither the work, nor the end for long.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	var log bytes.Buffer
	traces, err := tracing.New(t.Context(), tracing.Config{Endpoint: silent.URL, Ratio: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	traces.CloseWithin(200 * time.Millisecond)
	q := &queue{}
	e := traces.Around(q)
	for range 30_000 { // more than are kept for it
		if _, err := e.EnqueueContext(t.Context(), task("x", `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	traces.Close()
	if len(q.tasks) != 30_000 {
		t.Errorf("%d tasks, want all", len(q.tasks))
	}
	if !strings.Contains(log.String(), "sending the last traces failed") {
		t.Errorf("the log says %q", log.String())
	}
}

// TestTextsOfAnyBytes: a type that is invalid UTF-8, at once or when it is cut, loses no other
// span.
func TestTextsOfAnyBytes(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL, 1)
	cut := strings.Repeat("x", 127)
	types := []string{"fine", "\xff", cut + "é"}
	for _, typ := range types {
		if _, err := traces.Around(&queue{}).EnqueueContext(t.Context(), task(typ, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	traces.Close()
	var got []string
	for _, s := range c.Spans() {
		got = append(got, s.Name, s.Attributes["orgops.task.type"])
	}
	want := []string{"send fine", "fine", "send \ufffd", "\ufffd", "send " + cut + "\ufffd", cut + "\ufffd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// TestErrorsOfTheQueue come back as they are.
func TestErrorsOfTheQueue(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL, 1)
	for _, want := range []error{asynq.ErrTaskIDConflict, errors.New("down")} {
		if _, err := traces.Around(&queue{err: want}).EnqueueContext(t.Context(), task("x", `{}`)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	traces.Close()
	if spans := c.Spans(); len(spans) != 2 || spans[0].Attributes["orgops.there_already"] != "true" {
		t.Errorf("spans %+v", spans)
	}
}

func TestWrongSettings(t *testing.T) {
	for endpoint, want := range map[string]string{
		"collector:4318":             "want http://HOST:4318",
		"ftp://collector":            "want http://HOST:4318",
		"http://":                    "want http://HOST:4318",
		"http://me:s3cret@collector": "must not contain a user or password",
		"http://collector/?key=1":    "must not contain a query or fragment",
		"http://a\x7f":               "not a URL",
	} {
		err := tracing.Check(endpoint, 1)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q in it", endpoint, err, want)
		}
	}
	for _, ratio := range []float64{-.1, 1.1, math.NaN()} {
		if err := tracing.Check("", ratio); err == nil {
			t.Errorf("ratio %v is taken", ratio)
		}
	}
}

// TestOffCostsNothing: a nil Tracing leaves everything as it is, and allocates nothing.
func TestOffCostsNothing(t *testing.T) {
	var off *tracing.Tracing
	q, logger := &queue{}, slog.New(slog.DiscardHandler)
	if off.Around(q) != tracing.Enqueuer(q) || off.Logger(logger) != logger {
		t.Error("something goes around what enqueues, or logs")
	}
	if off.Middleware() != nil || off.Requests("acme") != nil || off.Ended() != nil {
		t.Error("something is to be called")
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		began, end := off.Begin(ctx, "permit")
		end(nil)
		checked, endCheck := off.DNS(began, "look")
		endCheck(dnscheck.Verdict{}, nil)
		if off.Remote(checked, "x") != ctx {
			t.Error("another context")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	off.Close()
}

// TestLogNamesTheTrace of the span that a line belongs to.
func TestLogNamesTheTrace(t *testing.T) {
	c := otlptest.Start(t)
	traces := start(t, c.URL, 1)
	var out bytes.Buffer
	log := traces.Logger(slog.New(slog.NewTextHandler(&out, nil))).With("tenant", "acme")
	ctx, end := traces.Begin(t.Context(), "permit")
	log.InfoContext(ctx, "in it")
	end(nil)
	log.Info("beside")
	traces.Close()
	span := c.Spans()[0]
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[0], "tenant=acme trace_id="+span.Trace+" span_id="+span.ID) || strings.Contains(lines[1], "trace_id") {
		t.Errorf("log %q, want the first line to name %+v", lines, span)
	}
}

// TestRowsOfTheEngine: an execution of the engine is a trace of its own, which links to
// the submission, and names its rows.
func TestRowsOfTheEngine(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	c := otlptest.Start(t)
	traces := start(t, c.URL, 1)
	rows := []ledger.ReleasedRow{{Row: 5, Content: []byte(`{}`)}, {Row: 9, Content: []byte(`{}`)}}
	run := ledger.Run{ID: "job", Kind: "clients:remove", Description: ledger.Description{Trace: "00-" + id + "-b7ad6b7169203331-01"}}
	rowsOfTwo := engine.NewTask(run, ledger.Segment{Run: "job", Incarnation: "a", Number: 2}, "t", rows...)
	const other = "1af7651916cd43dd8448eb211c80319c"
	run.Trace = "00-" + other + "-b7ad6b7169203331-01"
	rowsOfTwo.Add(engine.NewTask(run, ledger.Segment{Run: "job-2", Incarnation: "b"}, "t", rows[0]))
	payload, err := rowsOfTwo.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	process := traces.Middleware()(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		traces.Ended()(ctx, "done")
		return nil
	}))
	if err := process.ProcessTask(t.Context(), task("clients:remove", string(payload))); err != nil {
		t.Fatal(err)
	}
	traces.Close()
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Parent != "" || spans[0].Trace == id || !cmp.Equal(spans[0].Links, []string{id, other}) {
		t.Fatalf("spans %+v, want a root that links to %s and %s", spans, id, other)
	}
	want := map[string]string{
		"orgops.runs":      "2",
		"messaging.system": "asynq", "orgops.task.type": "clients:remove", "orgops.run": "job",
		"orgops.segment": "2", "orgops.row": "5", "orgops.rows": "2", "orgops.outcome": "done",
	}
	if diff := cmp.Diff(want, spans[0].Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}
