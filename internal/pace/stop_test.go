package pace_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

const read = "get_discovery_domain"

func writes(c *pace.Config) { c.Writes = func(operation string) bool { return operation == op } }

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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
					isStopped(t, one.Wait(t.Context(), op))
					isStopped(t, two.Wait(t.Context(), op))
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
				if err != nil || ended == nil || !cmp.Equal(*ended, stop) {
					t.Errorf("start ended %v, %v; want %v", ended, err, stop)
				}
				wait(t, one, op)
				wait(t, two, op)
				if ended, err = operator.Start(t.Context()); ended != nil || err != nil {
					t.Errorf("a second start ended %v, %v", ended, err)
				}
				if text := log.String(); strings.Count(text, "tenant stopped") != 1 || strings.Count(text, "tenant started again") != 1 {
					t.Errorf("log: %s", text)
				}
			})
		})
	}
}

// TestStopWithoutRedis checks that a worker which knows of a stop applies it while Redis is
// away.
func TestStopWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, perSecond(10, 5))
		l := f.process(writes)
		wait(t, l, op)
		if _, err := f.process().Stop(t.Context(), "alice", "wrong file"); err != nil {
			t.Fatal(err)
		}
		isStopped(t, l.Wait(t.Context(), op))
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		for range 3 {
			if err := l.Wait(t.Context(), op); err == nil {
				t.Error("a permit without Redis")
			}
			time.Sleep(5 * time.Second)
		}
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
		isStopped(t, f.process(writes).Wait(t.Context(), op))
	})
}

// TestStopText checks that typed text is truncated, and printed as stored.
func TestStopText(t *testing.T) {
	l := pace.New(pace.Config{Redis: redistest.New(t), Tenant: "acme"})
	stop, err := l.Stop(t.Context(), "eve\n", strings.Repeat("x", 1000))
	if err != nil {
		t.Fatal(err)
	}
	if text := stop.String(); len(text) > 400 || strings.Contains(text, "\n") || !strings.HasPrefix(text, `stopped by eve\n at 20`) {
		t.Errorf("%s", text)
	}
}
