package dispatch_test

import (
	"testing"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func TestLease(t *testing.T) {
	rdb := redistest.New(t)
	lease := func(protocol int) *dispatch.Lease {
		return dispatch.NewLease(rdb, tenant, ledger.NewSessionID(), protocol)
	}
	take := func(l *dispatch.Lease, want bool) {
		t.Helper()
		if held, err := l.Take(t.Context()); err != nil || held != want {
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
