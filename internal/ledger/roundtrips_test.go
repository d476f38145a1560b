package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// roundTrips is a hook that counts round trips, those of a pipeline as one.
type roundTrips struct{ n atomic.Int64 }

func (c *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !slices.Contains(handshake, cmd.Name()) {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.Contains(handshake, cmds[0].Name()) {
			c.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

// counted returns a ledger whose round trips are counted.
func counted(t *testing.T) (*ledger.Ledger, *roundTrips) {
	t.Helper()
	rdb, c := redistest.New(t), &roundTrips{}
	rdb.AddHook(c)
	return ledger.New(rdb), c
}

func TestTakeDueOfManyTenants(t *testing.T) {
	w := newWorker(t)
	var tenants []ledger.Tenant
	for n := range 30 {
		w.tenant = ledger.Tenant(fmt.Sprintf("tenant-%d", n))
		tenants = append(tenants, w.tenant)
		if n%2 == 0 {
			w.submit(ledger.RunID(w.tenant), 3)
		}
	}
	l, trips := counted(t)
	if err := w.rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for i, most := range []int64{2, 1} { // the first time Redis does not have the script
		trips.n.Store(0)
		all, err := l.TakeDue(t.Context(), 10, tenants...)
		if err != nil || len(all) != len(tenants) {
			t.Fatalf("%d tenants, %v", len(all), err)
		}
		for n, due := range all {
			wantDue := count(i == 0 && n%2 == 0)
			if due.Tenant != tenants[n] || len(due.Segments) != wantDue || time.Since(due.Now).Abs() > time.Hour {
				t.Errorf("%+v, want %d segments of %s", due, wantDue, tenants[n])
			}
		}
		// The hook of a Cluster's client counts a pipeline once, whatever its nodes.
		if n := trips.n.Load(); n > most {
			t.Errorf("%d round trips, want %d", n, most)
		}
	}
}

// The index of one tenant cannot be read, and neither can one entry of another.
func TestTakeDueReturnsTheOthers(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 3), 0)
	if err := w.rdb.Set(t.Context(), ledger.DueKey("broken"), "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.rdb.ZAdd(t.Context(), ledger.DueKey(tenant), redis.Z{Score: 1, Member: "no segment"}).Err(); err != nil {
		t.Fatal(err)
	}
	all, err := w.Ledger.TakeDue(t.Context(), 10, "broken", tenant)
	if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "no segment") {
		t.Errorf("error %v, want one that names both", err)
	}
	if len(all) != 1 || all[0].Tenant != tenant || !slices.Equal(all[0].Segments, []ledger.Segment{seg}) {
		t.Errorf("due %+v, want %s", all, seg)
	}
}

func TestReclaimDeadOfManySegments(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	w.renew()
	other.renew()
	run := w.submit("a", 2, 2, 2, 2, 2, 2)
	var segs []ledger.Segment
	for n := range 6 {
		segs = append(segs, segment(run, n))
		other.take(segs[n])
	}
	w.take(segs[4])
	l, trips := counted(t)
	if all, err := l.ReclaimDead(t.Context(), segs...); err != nil || len(all) > 0 {
		t.Errorf("reclaimed %+v, %v, want none", all, err)
	}
	if n := trips.n.Load(); n > 3 { // the first script is sent twice
		t.Errorf("%d round trips, want 3 at most", n)
	}
	w.passSessions(ledger.DeadAfter+ledger.RenewEvery, other)
	all, err := l.ReclaimDead(t.Context(), append(segs, ledger.Segment{Run: "gone", Incarnation: run.Incarnation, Number: 9})...)
	if err != nil || len(all) != 1 || all[0].Segment != segs[4] || all[0].Rows != 1 {
		t.Errorf("reclaimed %+v, %v, want a row of %s", all, err, segs[4])
	}
}
