package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// clockQueue is the prefix of asynq's keys in the tests of the clock.
const clockQueue = "asynq:{default}:"

// clockSite is an asynq server whose clock is not Redis'.
type clockSite struct {
	t   *testing.T
	rdb redis.UniversalClient // without a hook
	now time.Time             // Redis' time, which does not pass
}

// serve starts a server on an embedded Redis whose clock is so far ahead of this process'.
// Tasks of type "retry" and "archive" fail, those of type "hold" do not end.
func serve(t *testing.T, ahead time.Duration, seed func(*clockSite)) (*clockSite, *asynq.Client) {
	t.Helper()
	s := &clockSite{t: t, now: time.Now().Add(ahead).Truncate(time.Second)}
	redistest.Mini(t).SetTime(s.now)
	s.rdb = redistest.New(t)
	if seed != nil {
		seed(s)
	}
	client := redistest.ForServer(t)
	client.AddHook(redisconn.NewClock(client))
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond,
		JanitorInterval: 50 * time.Millisecond,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour }, LogLevel: asynq.FatalLevel,
		ShutdownTimeout: time.Millisecond,
	})
	ended := make(chan struct{})
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return errors.New("failed")
		case "archive":
			return asynq.SkipRetry
		case "hold":
			<-ended
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(ended)
		server.Shutdown()
	})
	return s, asynq.NewClientFromRedisClient(client)
}

// score waits until the set has the member, and returns by how much its time is later than
// Redis'.
func (s *clockSite) score(set, id string) (after time.Duration) {
	s.t.Helper()
	s.await(set+" has "+id, func() bool {
		score, err := s.rdb.ZScore(s.t.Context(), clockQueue+set, id).Result()
		after = time.Unix(int64(score), 0).Sub(s.now)
		return err == nil
	})
	return after
}

// await waits for two minutes at most: asynq extends leases each 5 s.
func (s *clockSite) await(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// state returns the state of a task in asynq, or "" if it has none.
func (s *clockSite) state(id string) string {
	return s.rdb.HGet(s.t.Context(), clockQueue+"t:"+id, "state").Val()
}

// clocksApart are by how much Redis' clock is ahead of a server's.
var clocksApart = []time.Duration{10 * time.Minute, -10 * time.Minute}

// TestAsynqWritesRedisTime has asynq store times while the clocks differ by ten minutes.
func TestAsynqWritesRedisTime(t *testing.T) {
	t.Parallel()
	const near = 5 * time.Second // the test's own time passes, and asynq rounds to seconds
	for _, ahead := range clocksApart {
		t.Run(fmt.Sprint("Redis ahead by ", ahead), func(t *testing.T) {
			t.Parallel()
			redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
				s, client := serve(t, ahead, nil)
				for _, tt := range []struct {
					task, set string
					want      time.Duration
				}{
					{"hold", "lease", 30 * time.Second},
					{"retry", "retry", time.Hour},
					{"done", "completed", 2 * time.Hour},
					{"archive", "archived", 0},
				} {
					if _, err := client.Enqueue(asynq.NewTask(tt.task, nil), asynq.TaskID(tt.task),
						asynq.Retention(2*time.Hour)); err != nil {
						t.Fatal(err)
					}
					if got := s.score(tt.set, tt.task); (got - tt.want).Abs() > near {
						t.Errorf("task %s is in set %s at Redis' time + %v, want + %v", tt.task, tt.set, got, tt.want)
					}
				}
				s.rdb.ZAdd(t.Context(), clockQueue+"lease", redis.Z{Member: "hold", Score: float64(s.now.Unix() + 10)})
				s.await("the lease is extended", func() bool { return s.score("lease", "hold") != 10*time.Second })
				if got := s.score("lease", "hold"); (got - 30*time.Second).Abs() > 2*near {
					t.Errorf("the lease was extended until Redis' time + %v, want + 30s", got)
				}
			})
		})
	}
}

// TestAsynqPendingSinceRedisTime has asynq store since when a task is pending.
func TestAsynqPendingSinceRedisTime(t *testing.T) {
	t.Parallel()
	for _, ahead := range clocksApart {
		t.Run(fmt.Sprint("Redis ahead by ", ahead), func(t *testing.T) {
			t.Parallel()
			redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
				s, client := serve(t, ahead, func(s *clockSite) { s.rdb.Set(t.Context(), clockQueue+"paused", 1, 0) })
				if _, err := client.Enqueue(asynq.NewTask("done", nil), asynq.TaskID("waits")); err != nil {
					t.Fatal(err)
				}
				ns, err := s.rdb.HGet(t.Context(), clockQueue+"t:waits", "pending_since").Int64()
				if age := s.now.Sub(time.Unix(0, ns)); err != nil || age.Abs() > 5*time.Second {
					t.Errorf("the task is pending for %v, %v", age, err)
				}
			})
		})
	}
}

// TestAsynqComparesWithRedisTime has two tasks in each set that asynq reads: one whose time
// has come by Redis' clock, and one whose time has not.
func TestAsynqComparesWithRedisTime(t *testing.T) {
	t.Parallel()
	for _, ahead := range clocksApart {
		for _, tt := range []struct {
			set   string
			state string // while its time has not come
			after string // then
		}{
			{"lease", "active", "retry"}, {"retry", "retry", ""}, {"scheduled", "scheduled", ""}, {"completed", "completed", ""},
		} {
			t.Run(fmt.Sprint(tt.set, ", Redis ahead by ", ahead), func(t *testing.T) {
				t.Parallel()
				s, _ := serve(t, ahead, func(s *clockSite) {
					s.put(tt.set, tt.state, "past", -2*time.Minute)
					s.put(tt.set, tt.state, "future", 2*time.Minute)
				})
				s.await("the task of the past is in state "+tt.after, func() bool { return s.state("past") == tt.after })
				if got := s.state("future"); got != tt.state {
					t.Errorf("a task whose time comes in two minutes is in state %q, want %q", got, tt.state)
				}
			})
		}
	}
}

// put stores a task as asynq has it in a set, at a time after Redis'.
func (s *clockSite) put(set, state, id string, after time.Duration) {
	s.t.Helper()
	ctx := s.t.Context()
	client, err := redisconn.Open(redisconn.Config{URL: redistest.URL(s.t), AllowURLPassword: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("done", nil), asynq.TaskID(id)); err != nil {
		s.t.Fatal(err)
	}
	s.rdb.LRem(ctx, clockQueue+"pending", 0, id)
	s.rdb.HSet(ctx, clockQueue+"t:"+id, "state", state)
	s.rdb.ZAdd(ctx, clockQueue+set, redis.Z{Member: id, Score: float64(s.now.Add(after).Unix())})
	if set == "lease" {
		s.rdb.LPush(ctx, clockQueue+"active", id)
	}
}
