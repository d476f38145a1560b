package queues_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
	"orgops/internal/redistest"
)

// TestReclaim has tasks in each state in which asynq never finds them again, and some that
// it does find.
func TestReclaim(t *testing.T) {
	t.Parallel()
	const (
		long = -2 * time.Minute // since the end of the lease
		key  = "asynq:{q}:"
	)
	type task struct {
		active     bool
		lease      time.Duration // until its end; 0: none
		state, msg string
	}
	for name, tt := range map[string]struct {
		task
		want     string // the lists that have it in the end
		lost     int
		keepHash bool
	}{
		"in progress":                  {task{true, 30 * time.Second, "active", "m"}, "active lease", 0, true},
		"of a worker killed just now":  {task{true, -time.Minute, "active", "m"}, "active lease", 0, true},
		"of a worker killed long ago":  {task{true, long, "active", "m"}, "pending", 1, true},
		"dequeued without a state":     {task{true, 0, "pending", "m"}, "pending", 1, true},
		"dequeued without a lease":     {task{true, 0, "active", "m"}, "pending", 1, true},
		"active list evicted":          {task{false, long, "active", "m"}, "pending", 1, true},
		"active list evicted just now": {task{false, 30 * time.Second, "active", "m"}, "lease", 0, true},
		"message evicted":              {task{true, long, "active", ""}, "", 1, false},
		"message and lease evicted":    {task{true, 0, "", ""}, "", 1, false},
		"task and list evicted":        {task{false, long, "", ""}, "", 1, false},
		"lease of one that is retried": {task{false, long, "retry", "m"}, "", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, ctx := redistest.Open(t), t.Context()
			if tt.active {
				rdb.LPush(ctx, key+"active", "id")
			}
			if tt.lease != 0 {
				rdb.ZAdd(ctx, key+"lease", redis.Z{Member: "id", Score: float64(time.Now().Add(tt.lease).Unix())})
			}
			for field, value := range map[string]string{"state": tt.state, "msg": tt.msg} {
				if value != "" {
					rdb.HSet(ctx, key+"t:id", field, value)
				}
			}
			lost, err := queues.Reclaim(ctx, rdb, "q")
			if err != nil || lost != tt.lost {
				t.Errorf("%d tasks, %v, want %d", lost, err, tt.lost)
			}
			var in []string
			for _, list := range []string{"active", "pending"} {
				if rdb.LLen(ctx, key+list).Val() == 1 {
					in = append(in, list)
				}
			}
			if rdb.ZCard(ctx, key+"lease").Val() == 1 {
				in = append(in, "lease")
			}
			if got := fmt.Sprint(in); got != "["+tt.want+"]" {
				t.Errorf("it is in %v, want %q", in, tt.want)
			}
			if kept := rdb.Exists(ctx, key+"t:id").Val() == 1; kept != tt.keepHash {
				t.Errorf("its hash is there: %v, want %v", kept, tt.keepHash)
			}
			if state := rdb.HGet(ctx, key+"t:id", "state").Val(); tt.want == "pending" && state != "pending" {
				t.Errorf("its state is %q", state)
			}
		})
	}
}

// TestReclaimMany has more lost tasks than one script takes, next to tasks in progress.
func TestReclaimMany(t *testing.T) {
	t.Parallel()
	const lost = 410
	rdb, ctx := redistest.Open(t), t.Context()
	for i := range lost {
		id := fmt.Sprint("lost", i)
		rdb.LPush(ctx, "asynq:{q}:active", id)
		rdb.HSet(ctx, "asynq:{q}:t:"+id, "msg", "m", "state", "active")
	}
	rdb.LPush(ctx, "asynq:{q}:active", "own")
	rdb.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Member: "own", Score: float64(time.Now().Add(30 * time.Second).Unix())})
	rdb.HSet(ctx, "asynq:{q}:t:own", "msg", "m", "state", "active")
	if n, err := queues.Reclaim(ctx, rdb, "q"); err != nil || n != lost {
		t.Errorf("%d tasks, %v, want %d", n, err, lost)
	}
	if n := rdb.LLen(ctx, "asynq:{q}:pending").Val(); n != lost {
		t.Errorf("%d tasks are pending, want %d", n, lost)
	}
	if left := rdb.LRange(ctx, "asynq:{q}:active", 0, -1).Val(); !slices.Equal(left, []string{"own"}) {
		t.Errorf("active are %q, want the task in progress", left)
	}
}

// TestLostTaskIsExecuted: a server that runs executes a task that was dequeued without a
// lease, and is shut down when no task is left.
func TestLostTaskIsExecuted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newSite(t, time.Second)
		s.enqueue("q1")
		if err := s.rdb.LMove(t.Context(), "asynq:{q1}:pending", "asynq:{q1}:active", "RIGHT", "LEFT").Err(); err != nil {
			t.Fatal(err)
		}
		s.run()
		s.await("its end", func() bool { return s.done.Load() == 1 })
		s.await("no server", func() bool { return s.servers() == 0 })
		if n := s.rdb.Exists(t.Context(), "asynq:{q1}:active").Val(); n != 0 {
			t.Error("a task is active still")
		}
	})
}

// TestKilledServersAreRemovedFromLists: a server that was killed is still in asynq's lists, since
// only one that is shut down leaves them.
func TestKilledServersAreRemovedFromLists(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s, ctx := newSite(t, time.Minute), t.Context()
		lists := []string{"asynq:servers", "asynq:workers"}
		for _, list := range lists {
			for name, seen := range map[string]time.Duration{"killed": -2 * time.Hour, "alive": 10 * time.Second} {
				if err := s.rdb.ZAdd(ctx, list, redis.Z{Member: name,
					Score: float64(time.Now().Add(seen).Unix())}).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.run()
		for _, list := range lists {
			s.await("only the living server in "+list, func() bool {
				return slices.Equal(s.rdb.ZRange(ctx, list, 0, -1).Val(), []string{"alive"})
			})
		}
	})
}
