package dispatch_test

import (
	"testing"
	"time"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func TestLease(t *testing.T) {
	rdb := redistest.Open(t)
	lease := func(protocol int) *dispatch.Lease {
		return dispatch.NewLease(rdb, tenant, ledger.NewSessionID(), protocol)
	}
	take := func(l *dispatch.Lease, want bool) {
		t.Helper()
		if held, _, err := l.Take(t.Context(), time.Minute, time.Minute); err != nil || held != want {
			t.Errorf("held %t, %v", held, err)
		}
	}
	old, other, newer := lease(1), lease(1), lease(2)
	take(old, true)
	take(other, false)
	take(old, true)
	take(newer, true)
	take(old, false)
	if err := old.Drop(t.Context()); err != nil { // not its own
		t.Error(err)
	}
	take(old, false)
	if err := newer.Drop(t.Context()); err != nil {
		t.Error(err)
	}
	take(other, true)
}

// TestLeaseIsShortened has a dispatcher find the lease taken, and shorten it. Its holder may renew
// it.
func TestLeaseIsShortened(t *testing.T) {
	rdb := redistest.Open(t)
	holder := dispatch.NewLease(rdb, tenant, ledger.NewSessionID(), 1)
	other := dispatch.NewLease(rdb, tenant, ledger.NewSessionID(), 1)
	for _, step := range []struct {
		lease   *dispatch.Lease
		d, most time.Duration
		held    bool
		left    time.Duration
	}{
		{holder, time.Hour, time.Minute, true, 0},
		{other, time.Second, 2 * time.Hour, false, time.Hour},
		{other, time.Second, 20 * time.Minute, false, 20 * time.Minute},
		{other, time.Second, 2 * time.Hour, false, 20 * time.Minute},
		{holder, 40 * time.Minute, time.Minute, true, 0},
		{other, time.Second, 2 * time.Hour, false, 40 * time.Minute},
	} {
		held, left, err := step.lease.Take(t.Context(), step.d, step.most)
		if err != nil || held != step.held || (left-step.left).Abs() > 5*time.Minute {
			t.Fatalf("%+v: held %t, left %v, %v", step, held, left, err)
		}
	}
}
