package intake_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/tasks"
)

// putBack enqueues what was found and has no task.
func (c *counter) putBack() {
	c.t.Helper()
	if _, err := c.taker.Repair(c.t.Context(), "a"); err != nil {
		c.t.Fatal(err)
	}
}

// reconciler looks at what the counter has.
func reconciler(c *counter) (r *intake.Reconciler, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	return &intake.Reconciler{Intake: c.taker, Logger: slog.New(slog.NewTextHandler(log, nil))}, log
}

func TestReconcilerTellsWhatIsLost(t *testing.T) {
	c := newPending(t)
	c.found(2)
	c.found(0) // says that they were enqueued
	c.putBack()
	r, log := reconciler(c)
	once := func(rows int64, inLog string) {
		t.Helper()
		log.Reset()
		if err := c.redis.Del(t.Context(), "orgops:v1:runs:reconciled").Err(); err != nil { // its time has come again
			t.Fatal(err)
		}
		if err := r.Once(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, run := c.open(); run.Lost != rows || run.LostAt.IsZero() != (rows == 0) {
			t.Errorf("the run says %d at %v, want %d", run.Lost, run.LostAt, rows)
		}
		if (inLog == "") != (log.Len() == 0) || !strings.Contains(log.String(), inLog) {
			t.Errorf("the log says %q, want %q in it", log, inLog)
		}
	}
	once(0, "")
	c.delete("default.dns", "a-1-1")
	once(1, `level=WARN msg="rows lost: they are open and have no task" run=a rows=1 command="enqueue runs repair a"`)
	once(1, "rows=1")
	if _, err := c.taker.Repair(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	once(0, "")
	c.delete("default.dns", "a-1-2")
	if err := c.ledger.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	once(0, "") // none has to have a task
}

func TestOneReconcilerOfTheFleet(t *testing.T) {
	c := newPending(t)
	c.found(2)
	c.found(0) // says that they were enqueued
	c.putBack()
	c.delete("default.dns", "a-1-1")
	looked := 0
	for range 3 {
		r, log := reconciler(c)
		if err := r.Once(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if log.Len() > 0 {
			looked++
		}
	}
	if looked != 1 {
		t.Errorf("%d of three looked for it, want one", looked)
	}
}

func TestReconcilerTellsSilentProducersOnce(t *testing.T) {
	rdb := redistest.New(t)
	ledger := runs.New(rdb)
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	if _, _, err := ledger.Create(t.Context(), runs.Run{ID: "half", Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: start}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	now := start.Add(time.Minute)
	r := intake.Reconciler{Intake: intake.New(rdb, ledger), Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }}
	once := func() string {
		t.Helper()
		log.Reset()
		if err := rdb.Del(t.Context(), "orgops:v1:runs:reconciled").Err(); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if got := once(); got != "" {
		t.Errorf("after a minute: %s", got)
	}
	now = start.Add(6 * time.Minute)
	if got := once(); !strings.Contains(got, "its producer is silent") || !strings.Contains(got, `run=half tenant=default since=2026-11-20T08:00:00.000Z command="enqueue runs cancel half"`) {
		t.Errorf("after six: %s", got)
	}
	if got := once(); got != "" {
		t.Errorf("told again: %s", got)
	}
}

// TestReconcilerGoesOnUntilItIsStopped has its turn again and again.
func TestReconcilerGoesOnUntilItIsStopped(t *testing.T) {
	c := newPending(t)
	c.found(2)
	c.found(0) // says that they were enqueued
	c.putBack()
	looked := make(chan struct{})
	r, _ := reconciler(c)
	r.Every = 20 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.Now = func() time.Time { // asked each time that it looks
		select {
		case looked <- struct{}{}:
		case <-ctx.Done():
		}
		return time.Now()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	for range 3 {
		<-looked
	}
	stop()
	<-ended
}
