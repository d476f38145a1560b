package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// mute makes connections that drop all data once it is on, without an error.
type mute struct{ on *atomic.Bool }

func (m mute) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		return mutedConn{conn, m.on}, err
	}
}

func (mute) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (mute) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type mutedConn struct {
	net.Conn
	on *atomic.Bool
}

func (c mutedConn) Write(b []byte) (int, error) {
	if c.on.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestASilentRedisHoldsNoPermitBack checks that a silent Redis delays a permit no longer than
// the limiter waits for it, which is half the timeout of asynq's commands.
func TestASilentRedisHoldsNoPermitBack(t *testing.T) {
	redistest.NeedsLong(t, "takes some seconds")
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	silent := new(atomic.Bool)
	w.redis.AddHook(mute{silent})
	w.permits.AddHook(mute{silent})
	tenant := sandboxTenant(box)
	if err := tenant.Complete(func(string) string { return box.ClientSecret() }); err != nil {
		t.Fatal(err)
	}
	one, err := w.serve(tenant)
	if err != nil {
		t.Fatal(err)
	}
	defer one.dns.Close()
	if err := one.limiter.Wait(t.Context(), apiclient.OpCreateTemplate); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	const lessThanAsynqs = 9 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), lessThanAsynqs)
	defer cancel()
	if err := one.limiter.Wait(ctx, apiclient.OpCreateTemplate); err != nil {
		t.Errorf("no permit of the worker's own share: %v", err)
	}
}

// TestAClockThatWasAhead checks that the permits stored in Redis while its clock was a year
// ahead delay no row once the clock is right.
func TestAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	const rows = 8
	for _, tc := range []struct {
		name  string
		ahead func(*testing.T, desk, *sandbox.Sandbox)
	}{
		{"a run by that clock", func(t *testing.T, d desk, box *sandbox.Sandbox) {
			clock := redistest.Mini(t)
			clock.SetTime(time.Now().Add(year))
			d.handIn(ledger.NewRun{ID: "ahead"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.ended("ahead")
			clock.SetTime(time.Time{}) // the machine's again
		}},
		{"as a version that stores no lengths has left it", func(t *testing.T, d desk, _ *sandbox.Sandbox) {
			at := fmt.Sprint(d.redis.Time(t.Context()).Val().Add(year).UnixMicro())
			err := d.redis.HSet(t.Context(), "orgops:v1:{tenant:default}:pace", "tat", at, "api_tat", at, "sweep_tat", at).Err()
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_RATE": "50/s", "ORGOPS_BURST": "50"})
			begin(t, env).says("worker started", nil)
			tc.ahead(t, d, box)
			d.handIn(ledger.NewRun{ID: "right"}, tasks.TypeUpdate, box.SeedUpdates(rows))
			d.ended("right")
			d.well("right", rows)
		})
	}
}
