package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

const kind = ledger.Kind("test")

// TestEndings has a handler return each sort of answer.
func TestEndings(t *testing.T) {
	t.Parallel()
	api := func(status int, message string) error {
		return &apiclient.Error{Operation: schema.OpUpdateDiscoveryDomain, Status: status, Message: message}
	}
	for _, c := range []struct {
		name     string
		end      *engine.Consequence
		phase    ledger.Phase
		outcome  ledger.Outcome // of a settled row, or of the note of another
		stage    ledger.Stage
		attempts int
		after    time.Duration // at least
		archived bool
		note     string // within the note of a row that is given back
	}{
		{name: "done", end: engine.Settle(ledger.Result{}), phase: ledger.PhaseSettled, outcome: ledger.Done},
		{name: "unchanged", end: engine.Settle(ledger.Result{Outcome: ledger.Unchanged, Detail: "so before"}),
			phase:   ledger.PhaseSettled,
			outcome: ledger.Unchanged},
		{name: "refused", end: engine.Fail(engine.Refuse("no")),
			phase: ledger.PhaseSettled, outcome: ledger.Refused, archived: true},
		{name: "refused by the API", end: engine.Fail(api(404, "none")), phase: ledger.PhaseSettled,
			outcome: ledger.Refused, archived: true},
		{name: "invalid", end: engine.Fail(engine.Invalid(errors.New("bad"))), phase: ledger.PhaseSettled,
			outcome: ledger.InvalidRow, archived: true},
		{name: "expired", end: engine.Expire("too late", []byte("seen")), phase: ledger.PhaseSettled,
			outcome: ledger.Expired, archived: true},
		{name: "not yet", end: engine.NotYet("no record", time.Hour),
			phase: ledger.PhaseWaiting, outcome: ledger.NotYetFound,
			stage: ledger.StageCheck, after: 59 * time.Minute},
		{name: "ready", end: engine.Ready("no permit"), phase: ledger.PhaseWaiting, outcome: ledger.Paced,
			stage: ledger.StageReady},
		{name: "too far away", end: engine.Later("tomorrow", 100*time.Hour), phase: ledger.PhaseWaiting,
			outcome: ledger.Paced, stage: ledger.StageCheck, after: 23 * time.Hour},
		{name: "paced", end: engine.Fail(api(429, "slow")),
			phase: ledger.PhaseWaiting, outcome: ledger.Paced, stage: ledger.StageCheck},
		{name: "transient", end: engine.Fail(api(503, "busy")),
			phase: ledger.PhaseWaiting, outcome: ledger.Transient,
			stage: ledger.StageCheck, attempts: 1, after: 800 * time.Millisecond},
		{name: "blocked", end: engine.Fail(api(403, "Insufficient scope")),
			phase: ledger.PhaseWaiting, outcome: ledger.Blocked,
			stage: ledger.StageCheck, after: 29 * time.Second},
		{name: "unknown member", end: engine.Fail(engine.Decode([]byte(`{"new":1}`), &struct{}{})),
			phase: ledger.PhaseWaiting,
			stage: ledger.StageCheck, after: 4 * time.Second, note: "a newer worker is needed"},
		{name: "stopping", end: engine.Fail(engine.ErrStopping),
			phase: ledger.PhaseWaiting, stage: ledger.StageCheck,
			note: "the worker is stopping"},
		{name: "no memory", end: engine.Fail(ledger.ErrNoMemory),
			phase: ledger.PhaseWaiting, outcome: ledger.Transient,
			stage: ledger.StageCheck, after: 8 * time.Second},
		{name: "other", end: engine.Fail(errors.New("broken")),
			phase: ledger.PhaseWaiting, outcome: ledger.Transient,
			stage: ledger.StageCheck, attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enginetest.New(t)
			s.Submit(kind, `{}`)
			blocked := ""
			e, _ := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
				return c.end
			}), func(c *engine.Config) {
				c.Block = func(_ context.Context, operation, _ string, _ apiclient.Fault) error { blocked = operation; return nil }
			})
			task, before := s.NextTask(), redisNow(t, s)
			err := e.ProcessTask(t.Context(), task)
			if archived := errors.Is(err, asynq.SkipRetry); archived != c.archived || err != nil && !archived {
				t.Errorf("error %v", err)
			}
			row := s.Row(0)
			note := ledger.ParseNote(row.Checkpoint.Memo)
			outcome := note.Outcome
			if row.Phase == ledger.PhaseSettled {
				outcome = row.Result.Outcome
			}
			if row.Phase != c.phase || outcome != c.outcome ||
				row.Phase == ledger.PhaseWaiting && row.Checkpoint.Stage != c.stage || row.Checkpoint.Attempts != c.attempts {
				t.Errorf("row %+v, note %+v", row, note)
			}
			if given := row.Checkpoint.Note; (given == "") != (c.note == "") || !strings.Contains(given, c.note) {
				t.Errorf("note %q, want %q", given, c.note)
			}
			if after := row.Due.Sub(before); c.after > 0 && after < c.after {
				t.Errorf("due after %v", after)
			}
			if (blocked != "") != (c.name == "blocked") {
				t.Errorf("blocked %q", blocked)
			}
		})
	}
}

// TestSecondDelivery delivers a task again while and after it is executed.
func TestSecondDelivery(t *testing.T) {
	s := enginetest.New(t)
	s.Submit(kind, `{}`)
	task := s.NextTask()
	var executed atomic.Int64
	var again *engine.Engine
	e, _ := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
		executed.Add(1)
		return enginetest.End(again.ProcessTask(t.Context(), task))
	}))
	again, _ = s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
		executed.Add(1)
		return engine.Settle(ledger.Result{})
	}))
	for range 2 {
		if err := e.ProcessTask(t.Context(), task); err != nil {
			t.Error(err)
		}
	}
	if n := executed.Load(); n != 1 || s.Row(0).Result.Outcome != ledger.Done {
		t.Errorf("executed %d times, row %+v", n, s.Row(0))
	}
}

// TestNewerTask gives rows back whose kind, version or members are unknown. They are due in
// five seconds, with a note, and no attempt is counted.
func TestNewerTask(t *testing.T) {
	for name, change := range map[string]func(payload string) string{
		"kind":    func(p string) string { return strings.Replace(p, `"test"`, `"newer"`, 1) },
		"version": func(p string) string { return strings.Replace(p, `"v":3`, `"v":99`, 1) },
		"member":  func(p string) string { return strings.Replace(p, `"v":3`, `"v":3,"hurry":true`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := enginetest.New(t)
			s.Submit(kind, `{}`)
			task := s.NextTask()
			e, _ := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
				t.Error("executed")
				return engine.Settle(ledger.Result{})
			}))
			before := redisNow(t, s)
			if err := e.ProcessTask(t.Context(), asynq.NewTask(task.Type(),
				[]byte(change(string(task.Payload()))))); err != nil {
				t.Error(err)
			}
			row, after := s.Row(0), redisNow(t, s)
			if row.Due.Sub(before) < 5*time.Second || row.Due.Sub(after) > 5*time.Second || row.Checkpoint.Attempts != 0 ||
				!strings.Contains(row.Checkpoint.Note, "newer worker") {
				t.Errorf("given back between %v and %v, row %+v", before, after, row)
			}
		})
	}
	t.Run("stage", func(t *testing.T) {
		s := enginetest.New(t)
		s.Submit(kind, `{}`)
		executed := 0
		e, _ := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
			executed++
			return engine.NotYet("no", 0)
		}))
		_ = e.ProcessTask(t.Context(), s.NextTask())
		key := "orgops:v3:{tenant:" + string(tenant) + "}:" + string(s.Run.Incarnation) + ".0:values"
		value := s.Redis.HGet(t.Context(), key, "0").Val() // which the ledger writes with no unknown stage
		if err := s.Redis.HSet(t.Context(), key, "0", strings.Replace(value, "c0,", "n0,", 1)).Err(); err != nil {
			t.Fatal(err)
		}
		_ = e.ProcessTask(t.Context(), s.NextTask())
		if row := s.Row(0); executed != 1 || !strings.Contains(row.Checkpoint.Note, `stage "n": a newer worker`) ||
			row.Checkpoint.Stage != "n" {
			t.Errorf("executed %d times, row %+v; stored %q", executed, row, value)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		s := enginetest.New(t)
		e, _ := s.Worker()
		for _, payload := range []string{``, `{`, `{"v":1}`, `{"v":1,"rows":[{"row":-1}]}`} {
			if err := e.ProcessTask(t.Context(), asynq.NewTask("test", []byte(payload))); !errors.Is(err, asynq.SkipRetry) {
				t.Errorf("%q: %v", payload, err)
			}
		}
	})
}

// TestAttempts has a handler that panics or fails each time: the row fails in the end.
func TestAttempts(t *testing.T) {
	s := enginetest.New(t)
	s.Submit(kind, `{}`)
	n := 0
	e, session := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
		n++
		panic("no such thing")
	}))
	for range engine.MaxAttempts - 1 { // as if it had failed each time
		token := release(t, s)
		execution := ledger.Execution{Token: token, Nonce: ledger.NewNonce(), Session: session}
		if _, err := s.Begin(t.Context(), s.Segment(), execution, 0); err != nil {
			t.Fatal(err)
		}
		failed := ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck, CountAttempt: true}, 0)
		if _, err := s.End(t.Context(), s.Segment(), execution.Nonce, failed...); err != nil {
			t.Fatal(err)
		}
	}
	err := e.ProcessTask(t.Context(), s.NextTask())
	if row := s.Row(0); n != 1 || row.Result.Outcome != ledger.Failed || err == nil ||
		!strings.Contains(row.Result.Detail, "given up after 17 attempts: panic: no such thing") {
		t.Errorf("executed %d times, row %+v, %v", n, row, err)
	}
}

// redisNow returns Redis' time.
func redisNow(t *testing.T, s *site) time.Time {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// release releases the row and returns its token.
func release(t *testing.T, s *site) ledger.Token {
	t.Helper()
	r, err := s.Release(t.Context(), s.Segment(), ledger.Quota{First: 1, Check: 1, Ready: 1})
	if err != nil || len(r.Rows) != 1 {
		t.Fatalf("released %v, %v", r.Rows, err)
	}
	return r.Token
}

// TestTimeout has a handler that works too long.
func TestTimeout(t *testing.T) {
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		s := enginetest.New(t)
		s.Submit(kind, `{}`)
		e, _ := s.Worker(handler(func(ctx context.Context, _ *engine.Execution, _ *engine.Row) *engine.Consequence {
			<-ctx.Done()
			return engine.Fail(ctx.Err())
		}), func(c *engine.Config) { c.Timeout = time.Second })
		_ = e.ProcessTask(t.Context(), s.NextTask())
		if row := s.Row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 1 {
			t.Errorf("row %+v", row)
		}
	})
}

// faulty returns an error from the first begin.
type faulty struct {
	engine.Ledger
	begin        error
	begun, ended int
}

func (f *faulty) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	if f.begun++; f.begun == 1 && f.begin != nil {
		return ledger.Begun{}, f.begin
	}
	return f.Ledger.Begin(ctx, seg, e, rows...)
}

func (f *faulty) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	f.ended++
	return f.Ledger.End(ctx, seg, n, ends...)
}

// mixed answers some rows, each in its own way, and fails for the others.
type mixed struct{}

func (mixed) Execute(context.Context, *engine.Execution) (engine.Answers, error) {
	return engine.Answers{0: engine.Settle(ledger.Result{}), 1: engine.Fail(engine.Refuse("no")),
		2: engine.NotYet("no record", time.Hour), 3: engine.Fail(engine.ErrSuperseded),
		4: engine.Fail(engine.Retry(errors.New("busy"))), 5: nil}, errors.New("lost")
}

// TestMixedEndings ends the rows of a batch each in its own way, and those without an answer
// together, with one write.
func TestMixedEndings(t *testing.T) {
	s := enginetest.New(t)
	s.Submit(kind, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`)
	f := &faulty{Ledger: s.Ledger}
	e, _ := s.Worker(func(c *engine.Config) { c.Ledger, c.Handlers[kind] = f, mixed{} })
	if err := e.ProcessTask(t.Context(), s.NextTask()); !errors.Is(err, asynq.SkipRetry) ||
		!strings.Contains(err.Error(), "refused: no") {
		t.Errorf("error %v", err)
	}
	for n, want := range []string{"settled done 0 ", "settled refused 0 ", "waiting  0 not_yet", "in progress  0 ",
		"waiting  1 transient", "waiting  1 transient", "waiting  1 transient"} {
		row := s.Row(ledger.Row(n))
		if got := fmt.Sprintf("%s %s %d %s", row.Phase, row.Result.Outcome, row.Checkpoint.Attempts,
			ledger.ParseNote(row.Checkpoint.Memo).Outcome); got != want {
			t.Errorf("row %d: %s, want %s", n, got, want)
		}
	}
	if a, b := s.Row(5).Due, s.Row(6).Due; !a.Equal(b) {
		t.Errorf("rows that failed together are due at %v and %v", a, b)
	}
	if f.ended != 1 {
		t.Errorf("%d writes, want one", f.ended)
	}
}

// TestBeginAtMaxmemory has Redis refuse a begin: the place is held for a second, the
// handler is not called, and no attempt is used up.
func TestBeginAtMaxmemory(t *testing.T) {
	t.Parallel()
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		s := enginetest.New(t)
		s.Submit(kind, `{}`)
		f := &faulty{Ledger: s.Ledger, begin: ledger.ErrNoMemory}
		e, _ := s.Worker(handler(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
			t.Error("executed")
			return engine.Settle(ledger.Result{})
		}), func(c *engine.Config) { c.Ledger = f })
		begun := time.Now()
		if err := e.ProcessTask(t.Context(), s.NextTask()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took < time.Second || f.begun != 1 {
			t.Errorf("took %v, begun %d times", took, f.begun)
		}
	})
}

// TestEndEarly has a handler end a row of a batch and then panic: the other rows are
// repeated, and that one is not.
func TestEndEarly(t *testing.T) {
	s := enginetest.New(t)
	s.Submit(kind, `{}`, `{}`, `{}`)
	e, _ := s.Worker(func(c *engine.Config) { c.Handlers[kind] = early{} })
	err := e.ProcessTask(t.Context(), s.NextTask())
	if row := s.Row(1); !errors.Is(err, asynq.SkipRetry) || row.Result.Outcome != ledger.Refused {
		t.Errorf("row %+v, %v", row, err)
	}
	for _, n := range []ledger.Row{0, 2} {
		if row := s.Row(n); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 1 {
			t.Errorf("row %d: %+v", n, row)
		}
	}
}

type early struct{}

func (early) Execute(ctx context.Context, x *engine.Execution) (engine.Answers, error) {
	x.End(ctx, engine.Answers{1: engine.Fail(engine.Refuse("no"))})
	panic(len(x.Rows))
}

// TestAbandoned cancels the context of an execution whose worker stops, as asynq does
// when it does not wait any longer: the row is given back, and no attempt is counted.
func TestAbandoned(t *testing.T) {
	s := enginetest.New(t)
	s.Submit(kind, `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	stopping := make(chan struct{})
	e, _ := s.Worker(handler(func(ctx context.Context, _ *engine.Execution, _ *engine.Row) *engine.Consequence {
		close(stopping)
		cancel()
		return engine.Fail(fmt.Errorf("request: %w", ctx.Err()))
	}), func(c *engine.Config) { c.Stopping = stopping })
	if err := e.ProcessTask(ctx, s.NextTask()); err != nil {
		t.Error(err)
	}
	if row := s.Row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 {
		t.Errorf("row %+v, want it to wait without an attempt", row)
	}
}
