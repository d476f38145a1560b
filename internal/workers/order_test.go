package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/workers"
)

// sessions are the living ones, or an error.
type sessions struct {
	all []ledger.Session
	err error
}

func (s *sessions) Sessions(context.Context) ([]ledger.Session, error) { return s.all, s.err }

// tenants returns n tenants.
func tenants(n int) (all []ledger.Tenant) {
	for i := range n {
		all = append(all, ledger.Tenant(fmt.Sprint("tenant-", i)))
	}
	return all
}

// newSessions returns n sessions of the tenants.
func newSessions(n int, of []ledger.Tenant) (all []ledger.Session) {
	for range n {
		all = append(all, ledger.Session{ID: ledger.NewSessionID(), Protocol: 2, Tenants: of})
	}
	return all
}

// places returns the place of each session for a tenant.
func places(t *testing.T, all []ledger.Session, tenant ledger.Tenant) map[ledger.SessionID]workers.Place {
	t.Helper()
	of := map[ledger.SessionID]workers.Place{}
	for _, s := range all {
		f := workers.New(func() ledger.Session { return s }, (&sessions{all: all}).Sessions, slog.New(slog.DiscardHandler))
		if err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		of[s.ID] = f.Place(tenant)
	}
	return of
}

// first returns the session of rank 0, after it has checked that each rank is there once.
func first(t *testing.T, all []ledger.Session, tenant ledger.Tenant) (id ledger.SessionID) {
	t.Helper()
	var ranks []int
	for s, p := range places(t, all, tenant) {
		ranks = append(ranks, p.Rank)
		if p.Workers != len(all) {
			t.Errorf("%d workers, want %d", p.Workers, len(all))
		}
		if p.Rank == 0 {
			id = s
		}
	}
	slices.Sort(ranks)
	for i, rank := range ranks {
		if rank != i {
			t.Fatalf("ranks %v", ranks)
		}
	}
	return id
}

// TestSpread: the first places of a hundred tenants are spread over ten workers, and a worker
// that leaves changes those of its own tenants only.
func TestSpread(t *testing.T) {
	names := tenants(100)
	all := newSessions(10, names)
	was, firsts := map[ledger.Tenant]ledger.SessionID{}, map[ledger.SessionID]int{}
	for _, tenant := range names {
		was[tenant] = first(t, all, tenant)
		firsts[was[tenant]]++
	}
	for _, s := range all {
		if n := firsts[s.ID]; n == 0 || n > 30 { // 10 on average; 30: one in 10^7
			t.Errorf("a worker is the first of %d tenants", n)
		}
	}
	gone, left := all[0].ID, all[1:]
	for _, tenant := range names {
		if now := first(t, left, tenant); was[tenant] != gone && now != was[tenant] {
			t.Errorf("tenant %s has another first worker although its own lives", tenant)
		}
	}
}

// TestNewerFirst: workers of a newer protocol are before older ones, and those that do not
// serve a tenant have no place.
func TestNewerFirst(t *testing.T) {
	all := newSessions(4, tenants(3))
	all[0].Protocol = 1
	all[1].Tenants = tenants(1)
	all[2].Protocol = 3
	for _, tenant := range tenants(3)[1:] {
		of := places(t, all, tenant)
		if got, want := of[all[2].ID], (workers.Place{Rank: 0, Workers: 3}); got != want {
			t.Errorf("%s: the newer one has %+v, want %+v", tenant, got, want)
		}
		if got, want := of[all[0].ID], (workers.Place{Rank: 2, Workers: 3}); got != want {
			t.Errorf("%s: the older one has %+v, want %+v", tenant, got, want)
		}
		if got, want := of[all[1].ID], (workers.Place{Workers: 1}); got != want {
			t.Errorf("%s: one that does not serve it has %+v, want %+v", tenant, got, want)
		}
	}
}

// TestNotRead: a worker that cannot read the sessions keeps its place, at first that of one
// that is alone.
func TestNotRead(t *testing.T) {
	names := tenants(1)
	all := newSessions(2, names)
	if first(t, all, names[0]) == all[0].ID {
		slices.Reverse(all)
	}
	failing := &sessions{err: errors.New("down")}
	f := workers.New(func() ledger.Session { return all[0] }, failing.Sessions, slog.New(slog.DiscardHandler))
	if err := f.Read(t.Context()); err == nil || f.Place(names[0]) != (workers.Place{Workers: 1}) {
		t.Errorf("%v, %+v", err, f.Place(names[0]))
	}
	*failing = sessions{all: all[1:]} // its own renewal may be late
	if err := f.Read(t.Context()); err != nil {
		t.Error(err)
	}
	*failing = sessions{err: errors.New("down")}
	if err := f.Read(t.Context()); err == nil || f.Place(names[0]) != (workers.Place{Rank: 1, Workers: 2}) {
		t.Errorf("%v, %+v", err, f.Place(names[0]))
	}
}
