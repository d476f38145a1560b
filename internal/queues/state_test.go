package queues_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
	"orgops/internal/redistest"
)

// TestRead compares the states of queues with those of asynq's inspector, which fails as soon as an
// id has no task any more.
func TestRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rdb := redistest.Open(t)
		client, inspector := asynq.NewClientFromRedisClient(rdb), asynq.NewInspectorFromRedisClient(rdb)
		for i, options := range [][]asynq.Option{nil, nil, {asynq.ProcessIn(time.Hour)}, {asynq.TaskID("archived")}} {
			if _, err := client.Enqueue(asynq.NewTask("x", nil), append(options, asynq.Queue("q"))...); err != nil {
				t.Fatal(i, err)
			}
		}
		mustNot(t, inspector.ArchiveTask("q", "archived"))
		mustNot(t, inspector.PauseQueue("q"))
		mustNot(t, rdb.Set(t.Context(), "asynq:{q}:processed", 7, 0).Err())
		mustNot(t, rdb.Set(t.Context(), "asynq:{q}:failed", 3, 0).Err())
		time.Sleep(time.Second)
		info, err := inspector.GetQueueInfo("q")
		mustNot(t, err)
		want := []queues.State{{Name: "unused"}, {Name: "q", Pending: 2, Scheduled: 1, Archived: 1, Processed: 7, Failed: 3,
			Paused: true}}
		least := info.Latency // at a later time it is longer
		read := func() []queues.State {
			t.Helper()
			got, err := queues.Read(t.Context(), rdb, "unused", "q")
			mustNot(t, err)
			if got[1].Latency < least {
				t.Errorf("latency %s, want at least %s", got[1].Latency, least)
			}
			got[1].Latency = 0
			return got
		}
		if diff := cmp.Diff(want, read()); diff != "" || least < time.Second {
			t.Errorf("latency %s; states (-want +got):\n%s", least, diff)
		}
		for _, set := range []string{"retry", "scheduled", "completed"} {
			mustNot(t, rdb.ZAdd(t.Context(), "asynq:{q}:"+set, redis.Z{Score: 2e9, Member: "ghost"}).Err())
		}
		mustNot(t, rdb.RPush(t.Context(), "asynq:{q}:pending", "ghost").Err())
		want[1].Pending++
		want[1].Scheduled++
		want[1].Retry++
		want[1].Completed++
		least = 0
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("with ids without a task (-want +got):\n%s", diff)
		}
		mustNot(t, rdb.Set(t.Context(), "asynq:{unused}:pending", "x", 0).Err())
		if got, err := queues.Read(t.Context(), rdb, "unused", "q"); err == nil {
			t.Errorf("a queue that cannot be read has the state %+v", got)
		}
	})
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOurs checks which names are those of queues of orgops.
func TestOurs(t *testing.T) {
	for name, want := range map[string]bool{
		queues.OfRows("acme"): true, "acme.webhook.crm": true, "0_-.webhook.9-_": true,
		"": false, "acme": false, "acme.": false, "acme.rows.x": false, "acme.dns": false, "Acme.rows": false, ".rows": false,
		"_acme.rows": false, "acme.webhook.": false, "acme.webhook": false, "acme.webhook.a.b": false,
		"acme.webhook.Crm": false,
	} {
		if queues.Ours(name) != want {
			t.Errorf("%q: %t, want %t", name, !want, want)
		}
	}
}
