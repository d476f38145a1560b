package intake_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/tasks"
)

const sweepQueue = "default.sweep"

// newPending is run "a" of what is pending.
func newPending(t *testing.T) *counter {
	c := newCounter(t)
	if _, created := c.mustBegin(""); !created {
		t.Fatal("the run was there")
	}
	return c
}

func (c *counter) mustBegin(organization string) (run runs.Run, created bool) {
	c.t.Helper()
	run, created, err := c.taker.BeginPending(c.t.Context(), organization, intake.Run{ID: "a", Tenant: "default"})
	if err != nil {
		c.t.Fatal(err)
	}
	return run, created
}

// found makes a step that finds n domains and whose rows nobody has enqueued yet.
func (c *counter) found(n int) {
	c.t.Helper()
	step, _, stored, told, _, err := c.ledger.WalkAt(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	var rows [][]byte
	for i := range n {
		rows = append(rows, []byte(`{"organization_id":"org_1","discovery_domain_id":"dom_`+strings.Repeat("x", int(stored)+i+1)+`"}`))
	}
	run := c.run()
	against, err := c.ledger.WalkStep(c.t.Context(), "a", run.Generation, step, told, []byte(`{"from":"x"}`), rows, "record", nil)
	if err != nil || against != "" {
		c.t.Fatal(against, err)
	}
}

func (c *counter) run() runs.Run {
	c.t.Helper()
	run, err := c.ledger.Get(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	return run
}

func (c *counter) wantPending(queue string, ids ...string) {
	c.t.Helper()
	got := c.pending(queue)
	slices.Sort(got)
	if diff := cmp.Diff(ids, got); diff != "" {
		c.t.Errorf("tasks of %s (-want +got):\n%s", queue, diff)
	}
}

// TestBeginPendingAgain: the same again is one run with one walk; for something
// else its id is taken.
func TestBeginPendingAgain(t *testing.T) {
	c := newPending(t)
	if run, created := c.mustBegin(""); created || !run.Walking() || run.Kind != tasks.TypeVerify {
		t.Errorf("created %v, run %+v", created, run)
	}
	c.wantPending(sweepQueue, "a-walk-0-0")
	_, _, err := c.taker.BeginPending(t.Context(), "org_1", intake.Run{ID: "a", Tenant: "default"})
	if mismatch, ok := errors.AsType[*runs.MismatchError](err); !ok || mismatch.Member != "content" {
		t.Errorf("%v, want the content refused", err)
	}
}

// TestBeginPendingPutsBack: whoever gives the same command again brings back a walk
// whose task was lost.
func TestBeginPendingPutsBack(t *testing.T) {
	c := newPending(t)
	c.delete(sweepQueue, "a-walk-0-0")
	c.mustBegin("")
	c.wantPending(sweepQueue, "a-walk-0-1")
	if run := c.run(); run.Resuming {
		t.Error("the repair is not at its end")
	}
}

// beforeGet does something before a run is read for the first time.
type beforeGet struct {
	done atomic.Bool
	do   func()
}

func (h *beforeGet) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beforeGet) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *beforeGet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hgetall" && h.done.CompareAndSwap(false, true) {
			h.do() // which may read the run too
		}
		return next(ctx, cmd)
	}
}

// TestBeginPendingOfARunThatEnds, or is paused, while the same command is given again:
// nothing is wrong with it.
func TestBeginPendingOfARunThatEnds(t *testing.T) {
	for name, do := range map[string]func(*counter) error{
		"ends":      func(c *counter) error { return c.ledger.Seal(c.t.Context(), "a", 0) },
		"is paused": func(c *counter) error { return c.ledger.Pause(c.t.Context(), "a") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newPending(t)
			c.redis.AddHook(&beforeGet{do: func() {
				if err := do(c); err != nil {
					t.Error(err)
				}
			}})
			c.mustBegin("")
			if run := c.run(); !run.Ended() && !run.Paused {
				t.Errorf("run %+v: nothing happened to it meanwhile", run)
			}
		})
	}
}

// TestRepairOfAWalk puts back the walk, and rows that it had enqueued; what it has not
// yet is its own to enqueue.
func TestRepairOfAWalk(t *testing.T) {
	c := newPending(t)
	c.found(2)
	c.found(3) // says that the first two were enqueued
	c.delete(sweepQueue, "a-walk-0-0")
	c.wantRepaired(intake.Repaired{Open: 2, Lost: 2, Tasks: 2, Walk: true})
	c.wantPending("default.dns", "a-0-1", "a-1-1")
	c.wantPending(sweepQueue, "a-walk-2-1")
	c.wantRepaired(intake.Repaired{Open: 2, Standing: 2})
}

// TestWalkThatHandsOn: the task that made the last step, and may have made more before,
// may be about to enqueue the next.
func TestWalkThatHandsOn(t *testing.T) {
	c := newPending(t)
	c.found(0)
	c.found(0)
	if lost, err := c.taker.WalkLost(t.Context(), c.run()); err != nil || lost {
		t.Errorf("lost %v, %v, while the task that made the last step stands", lost, err)
	}
	before := c.run()
	c.delete(sweepQueue, "a-walk-0-0")
	if lost, err := c.taker.WalkLost(t.Context(), before); err != nil || !lost {
		t.Errorf("lost %v, %v, where no task stands", lost, err)
	}
	c.found(0)
	if lost, err := c.taker.WalkLost(t.Context(), before); err != nil || lost {
		t.Errorf("lost %v, %v, though it has gone on meanwhile", lost, err)
	}
}

// TestResumeOfAWalk enqueues what was found, and the walk, anew.
func TestResumeOfAWalk(t *testing.T) {
	c := newPending(t)
	c.found(2)
	if err := c.ledger.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if run, created := c.mustBegin(""); created || !run.Paused {
		t.Errorf("run %+v", run)
	}
	sum, resumed, err := c.taker.Resume(t.Context(), "a")
	if err != nil || !resumed || sum.Rows != 2 || sum.Tasks != 2 || sum.Settled != 0 {
		t.Errorf("resumed %v with %+v, %v", resumed, sum, err)
	}
	c.wantPending("default.dns", "a-0-1", "a-1-1")
	c.wantPending(sweepQueue, "a-walk-0-0", "a-walk-1-1") // the first is dropped as it comes up
}

// TestReconcileAWalk tells of a walk that was lost, and no more once it is back.
func TestReconcileAWalk(t *testing.T) {
	c := newPending(t)
	var log bytes.Buffer
	r := intake.Reconciler{Intake: c.taker, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	once := func() {
		t.Helper()
		log.Reset()
		if err := c.redis.Del(t.Context(), "orgops:v1:runs:reconciled").Err(); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(t.Context(), intake.ReconcileEvery); err != nil {
			t.Fatal(err)
		}
	}
	if once(); log.Len() > 0 || !c.run().Walk.LostAt.IsZero() {
		t.Errorf("lost before anything was: %s", &log)
	}
	c.delete(sweepQueue, "a-walk-0-0")
	if once(); !strings.Contains(log.String(), "runs repair a") || c.run().Walk.LostAt.IsZero() {
		t.Errorf("told: %q, run %+v", &log, c.run().Walk)
	}
	c.wantRepaired(intake.Repaired{Walk: true})
	if once(); log.Len() > 0 || !c.run().Walk.LostAt.IsZero() {
		t.Errorf("repaired, and told: %q", &log)
	}
}
