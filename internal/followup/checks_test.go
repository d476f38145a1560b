package followup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"orgops/internal/engine/kinds"
	"orgops/internal/followup"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// check has a worker submit the checks of the present hour.
func (s *site) check(f *followup.FollowUp, want bool) {
	s.t.Helper()
	submitted, err := f.Check(s.t.Context(), s.now)
	if err != nil || submitted != want {
		s.t.Fatalf("submitted %t, %v: want %t", submitted, err, want)
	}
}

// TestCheck submits one run in an hour, each row at its domain's time. Restarted workers,
// and others, submit no second one.
func TestCheck(t *testing.T) {
	s := newSite(t)
	s.check(s.worker(), true)
	s.none(s.checks()) // nothing is watched
	for i := range 40 {
		s.due(fmt.Sprintf("ord_%02d", i))
	}
	s.put("ord_idle", sweep.DomainState{V: 1, OrganizationID: "org_1", Tick: 1, Absence: &sweep.Absence{}}) // has no host
	for range 3 {
		s.check(s.worker(), true)
	}
	rows := s.rows(s.checks())
	if len(rows) != 40 {
		t.Fatalf("%d rows, want 40", len(rows))
	}
	first, end, times := s.now.Truncate(time.Second), s.now.Truncate(time.Hour).Add(time.Hour), map[time.Time]bool{}
	for _, row := range rows {
		if row.Due.Before(first) || !row.Due.Before(end) {
			t.Errorf("row %d is due at %v, want %v to %v", row.Row, row.Due, first, end)
		}
		times[row.Due] = true
	}
	if end.Sub(first) > 10*time.Minute && len(times) < 20 {
		t.Errorf("%d times of 40 rows", len(times))
	}
	runs, err := s.Runs(t.Context(), tenant)
	if err != nil || len(runs) != 0 {
		t.Errorf("listed %v, %v", runs, err)
	}
}

// TestCheckAtOnce has two workers submit the checks at once.
func TestCheckAtOnce(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	var all sync.WaitGroup
	for range 2 {
		f := s.worker()
		all.Go(func() {
			if _, err := f.Check(t.Context(), s.now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantIDs(t, s.ids(s.checks()), "ord_1")
}

// TestCheckKilled kills a worker before and after each command, or some.
func TestCheckKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		stride := redistest.Stride(11)
		for at := rand.IntN(stride); ; at += stride {
			k := &killer{at: at, after: after}
			t.Run(fmt.Sprintf("command %d after %t", at, after), func(t *testing.T) {
				s := newSite(t)
				s.due("ord_1")
				if _, err := s.worker(k).Check(t.Context(), s.now); k.died() != (err != nil) {
					t.Fatalf("killed %t: %v", k.died(), err)
				}
				s.check(s.worker(), true)
				wantIDs(t, s.ids(s.checks()), "ord_1")
			})
			if !k.died() {
				break
			}
		}
	}
}

// TestCheckOtherHours: staged runs of earlier hours are deleted, those that cannot end are
// cancelled, and the checks wait for open ones.
func TestCheckOtherHours(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	run := func(id ledger.RunID) (ledger.Run, []ledger.Sum) {
		return s.stage(ledger.NewRun{ID: id, Tenant: tenant, Kind: kinds.HourlyCheck, Description: ledger.Description{Single: true}}, "{}")
	}
	run("relook-acme-1")
	growing := ledger.NewRun{ID: "relook-acme-2", Tenant: tenant, Kind: kinds.HourlyCheck, Scan: []byte("{}")}
	if _, _, err := s.Create(t.Context(), growing); err != nil {
		t.Fatal(err)
	}
	open, sums := run("relook-acme-3")
	if _, err := s.Commit(t.Context(), open, sums); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.check(s.worker(), false)
	}
	s.none("relook-acme-1")
	s.none(s.checks())
	if r, err := s.Get(t.Context(), "relook-acme-2"); err != nil || !r.Cancelled {
		t.Errorf("%+v, %v: want it cancelled", r, err)
	}
	if err := s.Cancel(t.Context(), "relook-acme-3"); err != nil {
		t.Fatal(err)
	}
	s.check(s.worker(), true)
	wantIDs(t, s.ids(s.checks()), "ord_1")
}

// TestCheckClockBack sets the clock of Redis back: the hour that was submitted stays, an open
// run of a later hour delays the checks, and is cancelled if it is hours ahead.
func TestCheckClockBack(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	s.check(s.worker(), true)
	later := s.now
	s.now = s.now.Add(-time.Hour)
	s.check(s.worker(), false)
	s.now = later
	s.check(s.worker(), true)
	s.now = later.Add(-5 * time.Hour)
	s.check(s.worker(), true)
	wantIDs(t, s.ids(s.checks()), "ord_1")
}

// TestCheckUnreadable leaves out a domain whose state cannot be read.
func TestCheckUnreadable(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"ord_1", "ord_2", "ord_3"} {
		s.due(id)
	}
	if err := s.rdb.Set(t.Context(), "orgops:v1:{watch:acme}:domain:ord_2", "{", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.check(s.worker(), true)
	wantIDs(t, s.ids(s.checks()), "ord_1", "ord_3")
}

// TestCheckRoundTrips counts the commands for many watched domains.
func TestCheckRoundTrips(t *testing.T) {
	const domains = 1000
	s := newSite(t)
	var ids []string
	for i := range domains {
		ids = append(ids, fmt.Sprintf("ord_%05d", i))
	}
	s.allDue(ids)
	k := &killer{at: -1}
	s.check(s.worker(k), true)
	if n := len(s.rows(s.checks())); n != domains || k.n > domains/20 {
		t.Errorf("%d rows by %d commands, want at most %d", n, k.n, domains/20)
	}
}

// TestRun submits the checks while the worker is the active one, and ends with its context.
func TestRun(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	s.worker().Run(ctx, func() bool { return false })
	s.none(s.checks())
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); s.worker().Run(ctx, func() bool { return true }) }()
	for { // until ctx of the test ends
		p, err := s.Sync(t.Context(), s.checks())
		if err == nil && !p.Run.Staged() && !p.Run.Growing {
			break
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-ended
	wantIDs(t, s.ids(s.checks()), "ord_1")
}
