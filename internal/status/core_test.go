package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/status"
)

// TestStopped: whatever stops a run is its state, and that of its rows.
func TestStopped(t *testing.T) {
	later := time.Now().Add(time.Hour)
	committed := func(c ledger.Control) ledger.Run { return ledger.Run{CommittedAt: time.Now(), Control: c} }
	for want, r := range map[string]ledger.Run{
		"paused": committed(ledger.Control{Paused: true, NotBefore: later}),
		"postponed until " + later.Format(time.RFC3339): committed(ledger.Control{NotBefore: later}),
		"open":            committed(ledger.Control{NotBefore: time.Now().Add(-time.Hour)}),
		"being submitted": {},
	} {
		if have := status.State(r); have != want {
			t.Errorf("state %q, want %q", have, want)
		}
		row := status.OpenRow(r, 0, evidence.Open{Reason: "transient: 503", Next: later})
		if stopped := status.Stopped(r); stopped == "" && row.Reason != "transient: 503" ||
			stopped != "" && (row.Reason != stopped+"; before: transient: 503" || !row.NextCheck.IsZero()) {
			t.Errorf("a row of a run that is %s: %+v", want, row)
		}
	}
}

// TestQueueIsPaused: a run says that its tenant's queue is paused.
func TestQueueIsPaused(t *testing.T) {
	rdb := redistest.Open(t)
	l := ledger.New(rdb)
	r, _, err := l.Create(t.Context(), ledger.NewRun{ID: "new", Tenant: "default", Kind: "domain:update"})
	if err != nil {
		t.Fatal(err)
	}
	const paused = "the queue default.rows is paused since 20"
	now := time.Now()
	oracle := status.NewEstimator(rdb)
	says := func(want bool) {
		t.Helper()
		now = now.Add(time.Minute) // the state is read again
		if waits := oracle.Estimate(t.Context(), now, []ledger.Run{r})[0].Waits(); strings.Contains(waits, paused) != want {
			t.Errorf("the run waits for %q; paused: %v", waits, want)
		}
	}
	says(false) // there is no queue
	task := asynq.NewTask("domain:update", nil)
	if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(task, asynq.Queue("default.rows")); err != nil {
		t.Fatal(err)
	}
	says(false)
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	if err := inspector.PauseQueue("default.rows"); err != nil {
		t.Fatal(err)
	}
	says(true)
	if err := inspector.UnpauseQueue("default.rows"); err != nil {
		t.Fatal(err)
	}
	says(false)
}
