package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// drainEvery is how often a worker that drains asks whether something is left.
const drainEvery = 500 * time.Millisecond

// drained waits until nothing is left that this worker could do: every run of its tenants
// has ended, and every sweep is evaluated, with the actions that follow. Runs that wait for
// an operator, a producer or a time are left. A Redis that does not answer now and then
// is asked again.
func (w *worker) drained(ctx context.Context) error {
	for {
		left, err := w.left(ctx)
		if err != nil {
			w.logger.WarnContext(ctx, "reading runs failed", "error", err)
		} else if !left {
			return w.tellEnded(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainEvery):
		}
	}
}

// left reports whether there is work for this worker, now or later.
func (w *worker) left(ctx context.Context) (bool, error) {
	inCore, left, err := w.leftInCore(ctx)
	if err != nil || left {
		return left, err
	}
	if left, err = w.leftInRuns(ctx, inCore); err != nil || left {
		return left, err
	}
	return w.deciding(ctx)
}

// leftInCore reports whether the core has an open run, or one that has ended and is not
// finished, of a tenant of this worker. It returns the ids of all of these runs.
func (w *worker) leftInCore(ctx context.Context) (ids map[string]bool, left bool, err error) {
	ids = map[string]bool{}
	for _, t := range w.tenants {
		open, err := w.ledger.Core().OpenRuns(ctx, ledger.Tenant(t.name))
		if err != nil {
			return nil, false, err
		}
		for _, r := range open {
			ids[string(r.ID)] = true
			left = left || continues(r, time.Now())
		}
	}
	return ids, left, nil
}

// continues reports whether something will be done for a run without an operator, a producer
// or a time that is yet to come.
func continues(r ledger.Run, now time.Time) bool {
	if r.Ended() {
		return true // until it is finished
	}
	c := r.Control
	return !r.Staged() && !r.Growing && (c.Cancelled || !c.Paused && !c.Held && !c.Incomplete && !c.NotBefore.After(now))
}

// leftInRuns reports whether a run that is not in the core has work for this worker.
func (w *worker) leftInRuns(ctx context.Context, inCore map[string]bool) (bool, error) {
	ids, err := w.ledger.Unsettled(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if inCore[id] {
			continue
		}
		r, err := w.ledger.Get(ctx, id)
		if errors.Is(err, runs.ErrNotFound) { // deleted meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		if w.serves(r.Tenant) && !paused(r) {
			return true, nil
		}
	}
	return false, nil
}

// serves reports whether the tenant is one of this worker's.
func (w *worker) serves(tenant string) bool {
	return slices.ContainsFunc(w.tenants, func(t *served) bool { return t.name == tenant })
}

// deciding reports whether there are tasks that evaluate sweeps or change their domains.
func (w *worker) deciding(ctx context.Context) (bool, error) {
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	queues, err := inspector.Queues()
	if err != nil {
		return false, fmt.Errorf("list queues: %w", err)
	}
	for _, t := range w.tenants {
		queue := tasks.SweepQueue(t.name)
		if !slices.Contains(queues, queue) {
			continue // nothing was ever in it
		}
		if some, err := w.decidingIn(ctx, inspector, queue); err != nil || some {
			return some, err
		}
	}
	return false, nil
}

func (w *worker) decidingIn(ctx context.Context, inspector *asynq.Inspector, queue string) (bool, error) {
	info, err := inspector.GetQueueInfo(queue)
	if err != nil {
		return false, fmt.Errorf("queue %s: %w", queue, err)
	}
	if info.Pending+info.Active > 0 {
		return true, nil
	}
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){inspector.ListScheduledTasks, inspector.ListRetryTasks} {
		waiting, err := list(queue, asynq.PageSize(info.Scheduled+info.Retry+1))
		if err != nil {
			return false, fmt.Errorf("queue %s: %w", queue, err)
		}
		for _, task := range waiting {
			if paused, err := w.ofPausedRun(ctx, task.Payload); err != nil || !paused {
				return true, err
			}
		}
	}
	return false, nil
}

// ofPausedRun reports whether a task is of a run that is paused: a sweep's evaluation waits
// for the end of its run, and stays in its queue meanwhile.
func (w *worker) ofPausedRun(ctx context.Context, payload []byte) (bool, error) {
	var of struct {
		Run string `json:"run"`
	}
	if json.Unmarshal(payload, &of) != nil || of.Run == "" {
		return false, nil
	}
	r, err := w.ledger.Get(ctx, of.Run)
	if errors.Is(err, runs.ErrNotFound) {
		return false, nil
	}
	return paused(r), err
}

// paused reports whether nothing is done for a run until it is resumed.
func paused(r runs.Run) bool { return r.Paused && r.CancelledAt.IsZero() }
