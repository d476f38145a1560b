package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// readyz returns the findings of /readyz of a process whose work is in that Redis, and whether
// it is ready.
func readyz(t *testing.T, url string,
	ready func(redis.Cmdable) *health.Readiness) (isReady bool, lines string) {
	t.Helper()
	client, err := redisconn.Open(redisconn.Config{URL: url, AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	isReady = true
	for _, f := range ready(client).Findings(t.Context()) {
		isReady, lines = isReady && f.Level != health.Wrong, lines+f.String()+"\n"
	}
	return isReady, lines
}

// TestReadinessTriesWork checks that worker and intake are not ready if Redis refuses their work,
// though it answers PING, and that both say why and what to do.
func TestReadinessTriesWork(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start func(t *testing.T) (url string)
		want  []string
	}{
		{"all is well", func(t *testing.T) string { return redistest.Start(t).URL() }, nil},
		{"maxmemory", func(t *testing.T) string { return redistest.Start(t, "--maxmemory", "1").URL() },
			[]string{"is not ready: OOM ", " -> Redis has reached its maxmemory and stores nothing: raise it, or "}},
		{"a replica", func(t *testing.T) string {
			master := redistest.Start(t)
			return redistest.Start(t, "--replicaof", strings.Replace(master.Addr, ":", " ", 1)).URL()
		}, []string{"is not ready: READONLY ", ": name the master in the URL, or its Sentinels by redis-sentinel://"}},
		{"too few replicas", func(t *testing.T) string { return redistest.Start(t, "--min-replicas-to-write", "1").URL() },
			[]string{"is not ready: NOREPLICAS ", ": start them, or lower min-replicas-to-write"}},
		{"a user who may not write", func(t *testing.T) string {
			server := redistest.Start(t)
			if err := server.Client().ACLSetUser(t.Context(), "partly", "on", ">secret", "~*", "+@all",
				"-zadd").Err(); err != nil {
				t.Fatal(err)
			}
			return strings.Replace(server.URL(), "redis://", "redis://partly:secret@", 1)
		}, []string{"this user may not run commands that rows need: ZADD -> give this user its rules of deploy/redis"}},
		{"all clients", func(t *testing.T) string {
			server := redistest.Start(t)
			taken := server.Client()
			if err := taken.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
				t.Fatal(err)
			}
			return server.URL()
		}, []string{"does not answer: ", "all of its connections (maxclients) may be in use"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := tc.start(t)
			for process, ready := range map[string]func(redis.Cmdable) *health.Readiness{
				"worker": func(rdb redis.Cmdable) *health.Readiness { return health.OfWorker(rdb, nil) },
				"intake": health.OfIntake,
			} {
				isReady, body := readyz(t, url, ready)
				if isReady != (tc.want == nil) {
					t.Errorf("%s: ready: %t", process, isReady)
				}
				for _, want := range tc.want {
					if !strings.Contains(body, want) {
						t.Errorf("%s: %swant %q", process, body, want)
					}
				}
				if strings.Contains(body, "secret") {
					t.Errorf("%s: the password is in the answer", process)
				}
			}
		})
	}
}

// TestIntakeComparesClocks checks that an intake is not ready while Redis' clock is more than ten
// seconds from its own.
func TestIntakeComparesClocks(t *testing.T) {
	mini := redistest.Mini(t)
	for ahead, want := range map[time.Duration]bool{
		0: true, 8 * time.Second: true, time.Minute: false, -time.Minute: false,
	} {
		mini.SetTime(time.Now().Add(ahead))
		isReady, body := readyz(t, redistest.URL(t), health.OfIntake)
		if isReady != want || want == strings.Contains(body, "wrong    clock: Redis's clock is 1m0s ") {
			t.Errorf("%s ahead: ready: %t, want %t\n%s", ahead, isReady, want, body)
		}
	}
}

// TestTriesAreBounded checks that requests within two seconds have Redis tried once.
func TestTriesAreBounded(t *testing.T) {
	redistest.Mini(t) // whose time stops
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		rdb, scripts := redistest.New(t), 0
		rdb.AddHook(counting{func(cmd redis.Cmder) {
			if cmd.Name() == "eval" {
				scripts++
			}
		}})
		ready := health.OfIntake(rdb)
		for _, want := range []int{1, 2} {
			for range 20 {
				ready.Findings(t.Context())
			}
			if scripts != want {
				t.Errorf("%d scripts, want %d", scripts, want)
			}
			time.Sleep(3 * time.Second)
		}
	})
}

// TestNoTryOfARedisThatIsNotReady checks that a Redis that does not answer is not given work as
// well: the answer would have to wait for a second limit.
func TestNoTryOfARedisThatIsNotReady(t *testing.T) {
	rdb := redistest.New(t)
	tried := false
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if cmds[0].Name() == "ping" {
			return errors.New("connection refused")
		}
		tried = tried || cmds[0].Name() == "eval"
		return run()
	}))
	found := health.OfIntake(rdb).Findings(t.Context())
	if len(found) == 0 || found[0].Level != health.Wrong || !strings.Contains(found[0].Text, "connection refused") {
		t.Errorf("findings %+v, want that Redis does not answer", found)
	}
	if tried {
		t.Error("a script was run")
	}
}

// counting is a hook that sees each command.
type counting struct{ see func(redis.Cmder) }

func (counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.see(cmd)
		return next(ctx, cmd)
	}
}

func (counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
