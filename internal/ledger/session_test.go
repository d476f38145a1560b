package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
)

func (w *worker) renew() {
	w.t.Helper()
	if _, err := w.Renew(w.t.Context(), ledger.Session{ID: w.session}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) dead(ids ...ledger.SessionID) []ledger.SessionID {
	w.t.Helper()
	dead, err := w.Dead(w.t.Context(), ids...)
	if err != nil {
		w.t.Fatal(err)
	}
	return dead
}

// passSessions lets time pass, in steps in which the workers given renew their sessions.
func (w *worker) passSessions(d time.Duration, alive ...*worker) {
	w.t.Helper()
	for ; d > 0; d -= ledger.RenewEvery {
		if err := ledger.AgeSessions(w.t.Context(), w.rdb, min(d, ledger.RenewEvery)); err != nil {
			w.t.Fatal(err)
		}
		for _, w := range alive {
			w.renew()
		}
	}
}

func TestSessionDiesWithoutRenewal(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	w.renew()
	other.renew()
	w.passSessions(ledger.DeadAfter-ledger.RenewEvery, other)
	if dead := w.dead(w.session, other.session); len(dead) > 0 {
		t.Errorf("dead: %v, want none yet", dead)
	}
	w.passSessions(2*ledger.RenewEvery, other)
	if dead := w.dead(w.session, other.session); !slices.Equal(dead, []ledger.SessionID{w.session}) {
		t.Errorf("dead: %v, want %s", dead, w.session)
	}
	if died, err := w.Died(t.Context()); err != nil || len(died) != 1 || died[0].ID != w.session {
		t.Errorf("died: %+v, %v, want %s", died, err, w.session)
	}
	if living, err := w.Sessions(t.Context()); err != nil || len(living) != 1 || living[0].ID != other.session {
		t.Errorf("living: %+v, %v, want %s", living, err, other.session)
	}
	w.renew()
	if dead := w.dead(w.session, other.session); len(dead) > 0 {
		t.Errorf("dead: %v, want none after the renewal", dead)
	}
	if died, err := w.Died(t.Context()); err != nil || len(died) > 0 {
		t.Errorf("died: %+v, %v, want none after the renewal", died, err)
	}
}

// TestNoSessionDiesWithoutRenewals checks that no session is dead while none is renewed, as while
// Redis is away. That of a killed worker counts as dead once the next renewals have given it the
// time to renew.
func TestNoSessionDiesWithoutRenewals(t *testing.T) {
	w := newWorker(t)
	w.renew()
	w.passSessions(time.Hour)
	next := on(t, w.rdb)
	if dead := next.dead(w.session, next.session); len(dead) > 0 {
		t.Errorf("dead: %v, want none", dead)
	}
	next.renew()
	if dead := next.dead(w.session); len(dead) > 0 {
		t.Errorf("dead: %v: want it to have the time to renew its session", dead)
	}
	w.passSessions(ledger.DeadAfter+ledger.RenewEvery, next)
	if dead := next.dead(w.session); len(dead) != 1 {
		t.Errorf("dead: %v, want the former session", dead)
	}
}

func TestClockThatGoesBackKeepsNoSessionAlive(t *testing.T) {
	w := newWorker(t)
	other := on(t, w.rdb)
	w.renew()
	other.renew()
	if err := ledger.AgeSessions(t.Context(), w.rdb, -time.Hour); err != nil {
		t.Fatal(err)
	}
	other.renew()
	w.passSessions(ledger.DeadAfter+ledger.RenewEvery, other)
	if dead := w.dead(w.session, other.session); !slices.Equal(dead, []ledger.SessionID{w.session}) {
		t.Errorf("dead: %v, want %s", dead, w.session)
	}
}

// TestSessionAfterALoss: a worker learns from its own session that Redis has lost data.
func TestSessionAfterALoss(t *testing.T) {
	w := newWorker(t)
	for i, want := range []bool{true, false, false, true, false} {
		if i == 3 {
			if err := ledger.LoseSessions(t.Context(), w.rdb); err != nil {
				t.Fatal(err)
			}
		}
		r, err := w.Renew(t.Context(), ledger.Session{ID: w.session, Version: fmt.Sprint(i)})
		if now, _ := w.Now(t.Context()); err != nil || r.New != want || now.Sub(r.Now) < 0 || now.Sub(r.Now) > time.Minute {
			t.Errorf("renewal %d: %+v, %v; want new %v, now %v", i, r, err, want, now)
		}
	}
}

func TestSessions(t *testing.T) {
	w := newWorker(t)
	s := ledger.Session{
		ID: w.session, Version: "1.2.3", Protocol: 2, Tenants: []ledger.Tenant{"acme"}, Kinds: []ledger.Kind{kind},
		Started: time.Unix(1_900_000_000, 0).UTC(), Busy: 3, Places: 400, Refused: true,
	}
	if _, err := w.Renew(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	all, err := w.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 1 && !all[0].SeenAt.IsZero() {
		s.SeenAt = all[0].SeenAt
	}
	if s.SeenAt.IsZero() {
		t.Error("it is not known when the session was renewed")
	}
	if diff := cmp.Diff([]ledger.Session{s}, all); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if err := w.EndSession(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	if all, err = w.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("sessions %+v, %v, want none", all, err)
	}
}

// inProgress returns the number of rows in progress by session and segment, as Redis has them.
func (w *worker) inProgress() map[string]string {
	w.t.Helper()
	all, err := w.rdb.HGetAll(w.t.Context(), ledger.ListKey(w.tenant, "sessions")).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}
