package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
)

// TestOneCountATick checks that an observation which is stored twice, by a killed execution
// and its successor or concurrently, is counted once.
func TestOneCountATick(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.check("ord_1", dnscheck.Absent)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			o := observed(w.now, dnscheck.Absent)
			o.ID, o.At = "ord_2", o.At.Add(time.Duration(i)*time.Minute)
			if _, err := w.states(nil).Observe(t.Context(), o, sweep.Rules{}, proven(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range []string{"ord_1", "ord_2"} {
		if s, _ := w.get(id); s.Absence.Checks != 1 || s.Sweeps != 1 || len(s.Pending) > 0 {
			t.Errorf("%s: state %+v", id, s)
		}
	}
	if tally, err := w.store.Counts(t.Context(), w.now.Unix()); err != nil || tally["absent"] != 2 {
		t.Errorf("tally %v, %v", tally, err)
	}
	w.wantNotified(events.DomainAtRisk, events.DomainAtRisk)
}

// TestChangedMeanwhile checks that of two concurrent writes of a state one fails, and that
// Change repeats it with the newer state.
func TestChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.check("ord_1", dnscheck.Absent)
	s, raw, err := w.states(nil).Read(t.Context(), "ord_1")
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(day)
	w.check("ord_1", dnscheck.Absent)
	s.Note(w.now, "late", "")
	if _, err := w.states(nil).Write(t.Context(), "ord_1", raw, &s, "absent"); !errors.Is(err, sweep.ErrChanged) {
		t.Errorf("error %v, want %v", err, sweep.ErrChanged)
	}
	calls := 0
	sab := &saboteur{call: 1, act: func() error {
		w.now = w.now.Add(day)
		w.check("ord_1", dnscheck.Absent)
		return nil
	}}
	after, err := w.states(sab).Change(t.Context(), "ord_1", func(s *sweep.DomainState) {
		calls++
		s.Note(w.now, "changed", "")
	})
	if err != nil || calls != 2 || after.Absence.Checks != 3 || past(after) != "gone, changed" {
		t.Errorf("%d calls, %v, state %+v", calls, err, after)
	}
	always := func(s *sweep.DomainState) {
		w.now = w.now.Add(day)
		w.check("ord_1", dnscheck.Absent)
		s.Note(w.now, "never", "")
	}
	if _, err := w.states(nil).Change(t.Context(), "ord_1", always); !errors.Is(err, sweep.ErrChanged) {
		t.Errorf("error %v, want %v", err, sweep.ErrChanged)
	}
}

// TestNothingToStore checks that a change without effect on a domain without a state stores
// nothing.
func TestNothingToStore(t *testing.T) {
	w := newWorld(t)
	if _, err := w.states(nil).Change(t.Context(), "ord_1", func(*sweep.DomainState) {}); err != nil {
		t.Fatal(err)
	}
	if err := w.states(nil).DeleteState(t.Context(), "ord_1"); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.get("ord_1"); ok {
		t.Error("a state is stored")
	}
}

// eachCall kills a process before and after each call of do, and calls end after the
// next process has done the same undisturbed.
func eachCall(t *testing.T, begin func(*testing.T) *world,
	do func(context.Context, *world, *saboteur) error, end func(*world)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		calls := 0
		for more := true; more; calls++ {
			more = false // also if the subtest is skipped
			t.Run(fmt.Sprintf("call %d, after %t", calls, after), func(t *testing.T) {
				w, sab := begin(t), kill(calls, after)
				err := do(t.Context(), w, sab)
				if more = sab.acted != ""; more {
					t.Logf("killed at %s", sab.acted)
					if !errors.Is(err, errKilled) {
						t.Fatalf("error %v of a process that was killed", err)
					}
					w.now = w.now.Add(10 * time.Second)
					err = do(t.Context(), w, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				end(w)
			})
		}
		if calls < 4 {
			t.Fatalf("only %d calls", calls-1)
		}
	}
}

// TestObserveKilledAnywhere checks that an observation counts once, and that its event is
// notified under one ID, although the next execution checks at another time.
func TestObserveKilledAnywhere(t *testing.T) {
	tick := day0
	eachCall(t, func(t *testing.T) *world { return newWorld(t) },
		func(ctx context.Context, w *world, sab *saboteur) error {
			o := observed(tick, dnscheck.Absent)
			o.At = w.now
			_, err := w.states(sab).Observe(ctx, o, sweep.Rules{}, proven(), nil)
			return err
		}, func(w *world) {
			s, _ := w.get("ord_1")
			if s.Absence == nil || s.Absence.Checks != 1 || s.Pending != nil || s.Sweeps != 1 {
				w.t.Errorf("state %+v", s)
			}
			if tally, err := w.store.Counts(w.t.Context(), tick.Unix()); err != nil || tally["absent"] != 1 {
				w.t.Errorf("tally %v, %v", tally, err)
			}
			w.wantNotified(events.DomainAtRisk)
		})
}

// TestDeleteStateKilledAnywhere checks that a state is deleted after its pending events.
func TestDeleteStateKilledAnywhere(t *testing.T) {
	eachCall(t, func(t *testing.T) *world {
		w := newWorld(t)
		s, _ := proven().Observe(observed(w.now, dnscheck.Absent), sweep.Rules{})
		if _, err := w.states(kill(2, false)).Change(t.Context(), "ord_1",
			func(to *sweep.DomainState) { *to = s }); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if s, _ := w.get("ord_1"); len(s.Pending) != 1 {
			t.Fatalf("state %+v", s)
		}
		return w
	}, func(ctx context.Context, w *world, sab *saboteur) error {
		return w.states(sab).DeleteState(ctx, "ord_1")
	}, func(w *world) {
		if s, ok := w.get("ord_1"); ok || len(w.watched()) > 0 {
			w.t.Errorf("state %+v, watched %q", s, w.watched())
		}
		w.wantNotified(events.DomainAtRisk)
	})
}

// TestDeleteStateChangedMeanwhile checks that a state which another process has changed is not
// deleted.
func TestDeleteStateChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.check("ord_1", dnscheck.Present)
	sab := &saboteur{call: 1, act: func() error {
		w.now = w.now.Add(day)
		w.check("ord_1", dnscheck.Absent)
		return nil
	}}
	if err := w.states(sab).DeleteState(t.Context(), "ord_1"); !errors.Is(err, sweep.ErrChanged) {
		t.Errorf("error %v, want %v", err, sweep.ErrChanged)
	}
	if s, ok := w.get("ord_1"); !ok || s.Absence == nil {
		t.Errorf("state %+v", s)
	}
}

// TestWithoutNotifier checks that no event stays pending without a notifier.
func TestWithoutNotifier(t *testing.T) {
	w := newWorld(t)
	states := w.states(nil)
	states.Notifier = nil
	o := observed(w.now, dnscheck.Absent)
	s, err := states.Observe(t.Context(), o, sweep.Rules{}, proven(), nil)
	if stored, _ := w.get("ord_1"); err != nil || stored.Pending != nil || s.Absence == nil {
		t.Errorf("%v, state %+v", err, stored)
	}
	if _, err := states.Verified(t.Context(), events.Event{Type: events.DomainVerified,
		Data: events.Data{DiscoveryDomainID: "ord_2"}}, "", nil); err != nil {
		t.Error(err)
	}
}

// revoked returns the state of a revoked domain.
func revoked(set sweep.Setting) sweep.DomainState {
	s := observe(sweep.DomainState{}, 0, dnscheck.Absent)
	s.Revoked = &sweep.Revocation{Set: set, Run: "run1", At: s.At, Since: s.Absence.Since, Flag: true}
	s.RevokedAt(s.At)
	s.Pending = nil
	return s
}

// TestVerified checks that a domain which a revocation had set to pending is restored and any other
// verified, also if the process is killed, and that the first proof of the state's token is stored.
func TestVerified(t *testing.T) {
	e := events.Event{ID: "domain.verified-1", Type: events.DomainVerified, At: day0.Add(2 * day), Data: events.Data{
		Tenant: "acme", OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "org_1.example",
	}}
	other := revoked(sweep.SetPending)
	other.OrganizationID = "org_2"
	token, seen := sweep.HashToken(host, txt), observe(sweep.DomainState{}, 0, dnscheck.Present)
	for _, test := range []struct {
		name     string
		state    sweep.DomainState
		token    string // that was proven
		keep     bool
		notified string
		past     string
		proven   string // the proof; "": none
	}{
		{"no state", sweep.DomainState{}, token, false, events.DomainVerified, "", ""},
		{"no state, to be swept", sweep.DomainState{}, token, true, events.DomainVerified, "", "a proof"},
		{"no state, token not known", sweep.DomainState{}, "", true, events.DomainVerified, "", ""},
		{"present", seen, token, true, events.DomainVerified, "", "a proof"},
		{"another token", seen, "other", true, events.DomainVerified, "", ""},
		{"token not known", seen, "", true, events.DomainVerified, "", ""},
		{"proven before", proven(), token, true, events.DomainVerified, "", "proof"},
		{"set to pending", revoked(sweep.SetPending), token, false, events.DomainFound, "gone, revoked: pending, restored",
			"a proof"},
		{"unrouted", revoked(sweep.Unroute), token, false, events.DomainVerified, "gone, revoked: unroute", "a proof"},
		{"set to pending in another organization", other, token, true, events.DomainVerified, "gone, revoked: pending", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			begin := func(t *testing.T) *world {
				w := newWorld(t)
				if test.state.V > 0 {
					w.put("ord_1", test.state)
				}
				return w
			}
			do := func(ctx context.Context, w *world, sab *saboteur) error {
				states := w.states(sab)
				states.Keep = test.keep
				_, err := states.Verified(ctx, e, test.token, []byte("a proof"))
				return err
			}
			end := func(w *world) {
				w.wantNotified(test.notified)
				s, stored := w.get("ord_1")
				if stored != (test.state.V > 0 || test.proven != "") || (s.Proven != nil) != (test.proven != "") ||
					s.Proven != nil && string(s.Proven.Evidence) != test.proven {
					w.t.Errorf("stored %t, proven %+v, want %q", stored, s.Proven, test.proven)
				}
				if past(s) != test.past ||
					(s.Revoked != nil) != (test.state.Revoked != nil && test.notified == events.DomainVerified) {
					w.t.Errorf("history %q, state %+v", past(s), s)
				}
				if test.notified == events.DomainFound && string(s.History[2].Verdict) != "a proof" {
					w.t.Errorf("history %+v", s.History)
				}
			}
			t.Run("twice", func(t *testing.T) {
				w := begin(t)
				for range 2 {
					if err := do(t.Context(), w, nil); err != nil {
						t.Fatal(err)
					}
					end(w)
				}
			})
			if test.notified == events.DomainFound {
				eachCall(t, begin, do, end)
			}
		})
	}
}

// TestWatched iterates over the watched domains that have a state. A state that cannot be read
// yields an error, and does not end the iteration.
func TestWatched(t *testing.T) {
	w := newWorld(t)
	w.check("ord_1", dnscheck.Absent)
	w.check("ord_2", dnscheck.Present)
	w.put("ord_3", revoked(sweep.Unroute))
	if ok, err := w.store.SetDomain(t.Context(), sweep.DomainWrite{ID: "ord_4", Value: []byte(`{"v":2}`), Watched: true,
		Tick: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	var read, unread []string
	for d, err := range w.states(nil).Watched(t.Context()) {
		if err != nil {
			unread = append(unread, d.ID)
			continue
		}
		read = append(read, d.ID)
	}
	slices.Sort(read)
	if diff := cmp.Diff([][]string{{"ord_1", "ord_3"}, {"ord_4"}}, [][]string{read, unread}); diff != "" {
		t.Errorf("read and unreadable (-want +got):\n%s", diff)
	}
	if ok, err := w.store.SetDomain(t.Context(), sweep.DomainWrite{ID: "ord_4", Former: []byte(`{"v":2}`),
		Tick: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff([]string{"ord_1", "ord_3"}, w.watched()); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	expire(t, "ord_1")
	if diff := cmp.Diff([]string{"ord_3"}, w.watched()); diff != "" {
		t.Errorf("watched after one expired (-want +got):\n%s", diff)
	}
	failed := errors.New("the store is away")
	sab := &saboteur{call: 1, act: func() error { return failed }}
	for d, err := range w.states(sab).Watched(t.Context()) {
		if !errors.Is(err, failed) || d.ID != "" {
			t.Errorf("%+v, %v; want the error of the store, and nothing else", d, err)
		}
	}
}

// TestConclude checks that only complete sweeps have a summary, the last one, also if a process is
// killed while it stores it.
func TestConclude(t *testing.T) {
	swept := func(w *world, ids ...string) {
		for i, id := range ids {
			w.check(id, []dnscheck.State{dnscheck.Present, dnscheck.Absent, dnscheck.Unknown}[i])
		}
	}
	conclude := func(ctx context.Context, w *world, sab *saboteur) error {
		return w.states(sab).Conclude(ctx, "run1", progress.Scan{Tick: day0.Unix(), Read: 7, Gone: 1, Ended: true})
	}
	eachCall(t, func(t *testing.T) *world {
		w := newWorld(t)
		swept(w, "ord_1", "ord_2", "ord_3")
		return w
	}, conclude, func(w *world) {
		got := w.summary()
		got.At = time.Time{}
		if want := (sweep.Summary{Tick: day0.Unix(), Run: "run1", Organizations: 7, Present: 1, Absent: 1,
			Unknown: 1}); got != want || got.Domains() != 3 {
			w.t.Errorf("summary %+v, want %+v", got, want)
		}
	})
	w := newWorld(t)
	if err := conclude(t.Context(), w, nil); err != nil {
		t.Fatal(err)
	}
	want := w.summary()
	w.now = day0.Add(day)
	for name, p := range map[string]progress.Scan{
		"of an organization":      {Organization: "org_1", Tick: w.now.Unix()},
		"without an organization": {Tick: w.now.Unix(), Missed: 1},
		"ended early":             {Tick: w.now.Unix(), Early: "cancelled"}, "no tick": {},
		"a former one": {Tick: day0.Unix() - 60},
		"the same":     {Tick: day0.Unix(), Read: 9},
		"not ended":    {Tick: w.now.Unix()},
	} {
		p.Ended = name != "not ended"
		if err := w.states(nil).Conclude(t.Context(), "run2", p); err != nil || w.summary() != want {
			t.Errorf("%s: %v, summary %+v", name, err, w.summary())
		}
	}
	sab := &saboteur{call: 2, act: func() error {
		return w.states(nil).Conclude(t.Context(), "other", progress.Scan{Tick: w.now.Unix(), Ended: true})
	}}
	if err := w.states(sab).Conclude(t.Context(), "run2",
		progress.Scan{Tick: w.now.Unix(), Ended: true}); !errors.Is(err, sweep.ErrChanged) || w.summary().Run != "other" {
		t.Errorf("%v, summary %+v", err, w.summary())
	}
	w.now = day0.Add(-300 * day) // the clock was ahead when the last one was stored
	if err := w.states(nil).Conclude(t.Context(), "right", progress.Scan{Tick: w.now.Unix(), Ended: true}); err != nil ||
		w.summary().Run != "right" {
		t.Errorf("%v, summary %+v", err, w.summary())
	}
}

// TestRevokedOf checks that of the domains that a sweep has found lost those are counted that were
// revoked since, or set to pending by a row, and no others: also by the last complete sweep, if a
// sweep of an organization has found the domain lost again.
func TestRevokedOf(t *testing.T) {
	w := newWorld(t)
	complete := day0.Unix()
	later := day0.Add(day).Unix()
	states := w.states(nil)
	w.now = day0.Add(time.Hour)
	if err := states.Conclude(t.Context(), "nightly", progress.Scan{Tick: complete, Ended: true}); err != nil {
		t.Fatal(err)
	}
	put := func(id string, tick int64, lost time.Time) {
		t.Helper()
		value, err := json.Marshal(sweep.DomainState{V: 1, OrganizationID: "org_1", Domain: id, Tick: tick, State: "absent",
			Proven: &sweep.Proof{At: day0.Add(-30 * day)}, Absence: &sweep.Absence{Checks: 3, Lost: lost}})
		if err != nil {
			t.Fatal(err)
		}
		ok, err := w.store.SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: value, Watched: true})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	revoke := func(id string) {
		t.Helper()
		for range 2 { // the second one changes nothing
			_, err := states.Change(t.Context(), id, func(s *sweep.DomainState) {
				if s.Revoked == nil {
					s.Revoked = &sweep.Revocation{Set: sweep.Unroute, Run: "job"}
					s.RevokedAt(w.now)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(tick, n int64) {
		t.Helper()
		if got, err := w.store.RevokedOf(t.Context(), tick); err != nil || got != n {
			t.Errorf("of tick %d %d, %v; want %d", tick, got, err, n)
		}
	}

	put("ord_lost", complete, day0)
	revoke("ord_lost")
	want(complete, 1)
	put("ord_again", later, day0)
	revoke("ord_again")
	want(complete, 2)
	want(later, 1)
	put("ord_new", later, w.now.Add(day)) // only the later one has found it lost
	revoke("ord_new")
	want(complete, 2)
	want(later, 2)
	put("ord_risk", complete, time.Time{})
	revoke("ord_risk")
	want(complete, 2)
	put("ord_pending", complete, day0)
	for range 2 {
		if err := states.SetToPending(t.Context(), "ord_pending", "job", w.now); err != nil {
			t.Fatal(err)
		}
	}
	want(complete, 3)
}
