package intake_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// counter is a ledger and queues with run "a", of which nothing is carried out.
type counter struct {
	t         *testing.T
	redis     redis.UniversalClient
	ledger    *runs.Ledger
	taker     intake.Intake
	inspector *asynq.Inspector
}

func newCounter(t *testing.T) *counter {
	rdb := redistest.New(t)
	ledger := runs.New(rdb)
	return &counter{t: t, redis: rdb, ledger: ledger, taker: intake.New(rdb, ledger), inspector: asynq.NewInspectorFromRedisClient(rdb)}
}

// pending are the ids of the tasks that wait in the queue.
func (c *counter) pending(queue string) (ids []string) {
	c.t.Helper()
	all, err := c.inspector.ListPendingTasks(queue, asynq.PageSize(10_000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		c.t.Fatal(err)
	}
	for _, task := range all {
		ids = append(ids, redistest.RelativeTaskID(task.ID))
	}
	return ids
}

func (c *counter) delete(queue, id string) {
	c.t.Helper()
	if err := c.inspector.DeleteTask(queue, redistest.TaskID(c.t, redistest.New(c.t), queue, id)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *counter) wantRepaired(want intake.Repaired) {
	c.t.Helper()
	got, err := c.taker.Repair(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("repaired (-want +got):\n%s", diff)
	}
}

// open says how many rows of the run are open.
func (c *counter) open() (open int64, run runs.Run) {
	c.t.Helper()
	run, err := c.ledger.Get(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	return run.Total - run.Settled, run
}

func TestRepairWithoutAQueue(t *testing.T) {
	c := newPending(t)
	c.found(1)
	c.taker.Queue = nil
	if _, err := c.taker.Repair(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no queue to search") {
		t.Errorf("%v, want it refused", err)
	}
}
