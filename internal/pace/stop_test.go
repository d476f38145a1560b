package pace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

const read = "get_discovery_domain"

func writesOp(operation string) bool { return operation == op }

func writes(c *pace.Config) { c.Writes = writesOp }

// isStopped checks that err reports that alice has stopped the tenant.
func isStopped(t *testing.T, err error) {
	t.Helper()
	stopped, ok := errors.AsType[*pace.StoppedError](err)
	if !ok || stopped.Stop.By != "alice" || stopped.Stop.Reason != "wrong file" {
		t.Errorf("%v, want that alice has stopped the tenant", err)
	}
}

// TestStop stops a tenant for all processes, at an unlimited rate too. Requests that change
// something are refused and others are not, until it is started.
func TestStop(t *testing.T) {
	for name, limit := range map[string]pace.Limit{"a rate": perSecond(10, 5), "no rate": {}} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, limit)
			var log bytes.Buffer
			one := f.process(writes, func(c *pace.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			two, operator := f.process(writes), f.process()
			wait(t, one, op)
			wait(t, two, op)
			began := time.Now()
			stop, err := operator.Stop(t.Context(), "alice", "wrong file")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != pace.StopEffective {
				t.Errorf("the stop took %v", took)
			}
			for range 3 {
				isStopped(t, permit(t.Context(), one, op))
				isStopped(t, permit(t.Context(), two, op))
			}
			wait(t, one, read)
			again, err := operator.Stop(t.Context(), "bob", "me too")
			if err != nil || !cmp.Equal(again, stop) {
				t.Errorf("a second stop: %v, %v; want the first, %v", again, err, stop)
			}
			state, err := two.State(t.Context())
			if err != nil || state.Stopped == nil || !cmp.Equal(*state.Stopped, stop) {
				t.Errorf("the state has %v, %v; want %v", state.Stopped, err, stop)
			}
			ended, err := operator.Start(t.Context())
			if err != nil || !cmp.Equal(ended, pace.Started{Stop: &stop}) {
				t.Errorf("start ended %+v, %v; want %v", ended, err, stop)
			}
			wait(t, one, op)
			wait(t, two, op)
			if ended, err = operator.Start(t.Context()); ended.Stop != nil || err != nil {
				t.Errorf("a second start ended %+v, %v", ended, err)
			}
			if text := log.String(); strings.Count(text, "tenant stopped") != 1 ||
				strings.Count(text, "tenant started again") != 1 {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// TestStopWithoutRedis checks that a worker changes nothing in a stopped tenant while Redis is
// away, nor when it is back.
func TestStopWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		l := f.process(writes)
		wait(t, l, op)
		if _, err := f.process().Stop(t.Context(), "alice", "wrong file"); err != nil {
			t.Fatal(err)
		}
		isStopped(t, permit(t.Context(), l, op))
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		for range 3 {
			if err := permit(t.Context(), l, op); err == nil {
				t.Error("a permit without Redis")
			}
			time.Sleep(5 * time.Second)
		}
		f.redis.SetError("")
		isStopped(t, permit(t.Context(), l, op))
		wait(t, l, read)
	})
}

// TestStopIsStoredAgain has Redis lose its last second: the stop is stored again before
// it counts as effective.
func TestStopIsStoredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		time.AfterFunc(time.Second, f.redis.FlushAll)
		if _, err := f.process().Stop(t.Context(), "alice", "wrong file"); err != nil {
			t.Fatal(err)
		}
		isStopped(t, permit(t.Context(), f.process(writes), op))
	})
}

// restricted returns a client of a user who may run all commands but those taken away by the rules.
func restricted(t *testing.T, server *redistest.Server, user string, rules ...any) *redis.Client {
	t.Helper()
	set := append([]any{"ACL", "SETUSER", user, "on", ">secret", "~*", "+@all"}, rules...)
	if err := server.Client().Do(t.Context(), set...).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: user, Password: "secret",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// TestStopWhileRedisRefusesWrites stops a tenant on a real Redis that refuses the writes of
// workers: none of them changes anything from then on, and each says who has stopped the
// tenant. Before, and after its start, Redis gives no permits at all.
func TestStopWhileRedisRefusesWrites(t *testing.T) {
	denied := func(right string) func(context.Context, redis.UniversalClient) error {
		return func(ctx context.Context, rdb redis.UniversalClient) error {
			return rdb.Do(ctx, "ACL", "SETUSER", "worker", right).Err()
		}
	}
	for name, refuse := range map[string]func(context.Context, redis.UniversalClient) error{
		"at maxmemory": func(ctx context.Context, rdb redis.UniversalClient) error {
			return rdb.ConfigSet(ctx, "maxmemory", "1mb").Err()
		},
		"ZADD is denied": denied("-zadd"), "HSET is denied": denied("-hset"), "all writes are denied": denied("-@write"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			operators := server.Client()
			config := pace.Config{Redis: restricted(t, server, "worker"), Tenant: "acme", Limit: perSecond(1000, 10),
				MaxWait: time.Second / 2, Writes: writesOp}
			worker := pace.New(config)
			operator := pace.New(pace.Config{Redis: operators, Tenant: "acme"})
			none := func(when string) {
				t.Helper()
				err := permit(t.Context(), worker, op)
				if _, ok := errors.AsType[*pace.NoPermitError](err); !ok ||
					!strings.Contains(err.Error(), "ask redis for a permit to "+op) {
					t.Errorf("%s: %v, want no permit", when, err)
				}
			}
			wait(t, worker, op)
			worker = pace.New(config) // it is not counted among the workers yet
			if err := refuse(t.Context(), operators); err != nil {
				t.Fatal(err)
			}
			none("Redis refuses writes")
			if _, err := operator.Stop(t.Context(), "alice", "wrong file"); err != nil {
				t.Fatal(err)
			}
			isStopped(t, permit(t.Context(), worker, op))
			if err := operator.Block(t.Context(), pace.All, "401", "fix it"); err != nil {
				t.Errorf("no block: %v", err)
			}
			operator.Answered(t.Context(), op, http.StatusTooManyRequests, nil, 600*time.Second)
			if s, err := operator.State(t.Context()); err != nil || s.Stopped == nil || s.PausedUntil.IsZero() ||
				len(s.Blocks) != 1 {
				t.Errorf("%+v, %v; want it stopped, paused and blocked", s, err)
			}
			if _, ok := errors.AsType[*pace.BlockedError](permit(t.Context(), worker, read)); !ok {
				t.Error("a read is not blocked")
			}
			operator.Answered(t.Context(), op, http.StatusOK, nil, 0)
			if err := permit(t.Context(), worker, read); err == nil ||
				!strings.Contains(err.Error(), "has asked this tenant to pause") {
				t.Errorf("a read: %v, want a pause", err)
			}
			if _, err := operator.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := operators.HDel(t.Context(), paceKey, "paused_until").Err(); err != nil {
				t.Fatal(err)
			}
			none("the tenant is started")
		})
	}
}

// TestStopWithOneRight stops a tenant as a user who may run no other write than HSET.
func TestStopWithOneRight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := pace.New(pace.Config{Redis: restricted(t, server, "operator", "-@write", "+hset"), Tenant: "acme"})
	if _, err := operator.Stop(t.Context(), "alice", "wrong file"); err != nil {
		t.Fatal(err)
	}
	worker := pace.New(pace.Config{Redis: server.Client(), Tenant: "acme", Writes: writesOp})
	isStopped(t, permit(t.Context(), worker, op))
}

// TestStopText checks that typed text is truncated, and printed as stored.
func TestStopText(t *testing.T) {
	l := pace.New(pace.Config{Redis: redistest.New(t), Tenant: "acme"})
	stop, err := l.Stop(t.Context(), "eve\n", strings.Repeat("x", 1000))
	if err != nil {
		t.Fatal(err)
	}
	if text := stop.String(); len(text) > 400 || strings.Contains(text, "\n") ||
		!strings.HasPrefix(text, `stopped by eve\n at 20`) {
		t.Errorf("%s", text)
	}
}
