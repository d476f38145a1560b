package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// saboteur calls act before or after the call of that number, from 0. The call that act
// fails does not happen, or has happened and its answer is lost.
type saboteur struct {
	call  int
	after bool
	act   func() error
	n     int
	acted string // the call; "": there was no call of that number
}

func (s *saboteur) step(name string, call func() error) error {
	n := s.n
	s.n++
	for _, after := range []bool{false, true} {
		if n == s.call && after == s.after && s.act != nil {
			s.acted = fmt.Sprintf("%s, after %t", name, after)
			if err := s.act(); err != nil {
				return err
			}
		}
		if !after {
			if err := call(); err != nil {
				return err
			}
		}
	}
	return nil
}

var errKilled = errors.New("killed")

// kill ends a process at a call.
func kill(call int, after bool) *saboteur {
	return &saboteur{call: call, after: after, act: func() error { return errKilled }}
}

// store is a store with the test's time whose calls the saboteur counts.
type store struct {
	*sweep.Store
	w   *world
	sab *saboteur
}

func (s store) Clock(context.Context) (now time.Time, err error) {
	return now, s.sab.step("clock", func() error { now = s.w.now; return nil })
}

func (s store) Domain(ctx context.Context, id string) (value []byte, err error) {
	return value, s.sab.step("read domain", func() (err error) { value, err = s.Store.Domain(ctx, id); return err })
}

func (s store) Domains(ctx context.Context, ids []string) (values [][]byte, err error) {
	return values, s.sab.step("read domains", func() (err error) { values, err = s.Store.Domains(ctx, ids); return err })
}

func (s store) SetDomain(ctx context.Context, w sweep.DomainWrite) (ok bool, err error) {
	return ok, s.sab.step("write domain", func() (err error) { ok, err = s.Store.SetDomain(ctx, w); return err })
}

func (s store) WatchedDomains(ctx context.Context) (ids []string, err error) {
	return ids, s.sab.step("watched", func() (err error) { ids, err = s.Store.WatchedDomains(ctx); return err })
}

func (s store) Counts(ctx context.Context, tick int64) (counts map[string]int64, err error) {
	return counts, s.sab.step("counts", func() (err error) { counts, err = s.Store.Counts(ctx, tick); return err })
}

func (s store) State(ctx context.Context, name string) (value []byte, err error) {
	return value, s.sab.step("read "+name, func() (err error) { value, err = s.Store.State(ctx, name); return err })
}

func (s store) SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error) {
	return ok, s.sab.step("write "+name, func() (err error) {
		ok, err = s.Store.SetState(ctx, name, former, value)
		return err
	})
}

// world is a tenant that is swept.
type world struct {
	t     *testing.T
	store *sweep.Store
	now   time.Time

	mu       sync.Mutex
	notified []events.Event // each id once
	calls    int            // of Notify
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: sweep.NewStore(redistest.New(t), "acme"), now: day0}
}

// states returns the states of a process whose calls the saboteur counts, or undisturbed ones
// for nil.
func (w *world) states(sab *saboteur) *sweep.States {
	if sab == nil {
		sab = kill(-1, false)
	}
	return &sweep.States{Tenant: "acme", Store: store{w.store, w, sab}, Notifier: notifier{w, sab}}
}

type notifier struct {
	w   *world
	sab *saboteur
}

func (n notifier) Notify(_ context.Context, e events.Event) error {
	return n.sab.step("notify", func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		n.w.calls++
		if !slices.ContainsFunc(n.w.notified, func(o events.Event) bool { return o.ID == e.ID }) {
			n.w.notified = append(n.w.notified, e)
		}
		return nil
	})
}

// put stores a state unchanged.
func (w *world) put(id string, s sweep.DomainState) {
	w.t.Helper()
	if _, err := w.states(nil).Change(w.t.Context(), id, func(to *sweep.DomainState) { *to = s }); err != nil {
		w.t.Fatal(err)
	}
}

// get returns a state, and whether one is stored.
func (w *world) get(id string) (sweep.DomainState, bool) {
	w.t.Helper()
	s, raw, err := w.states(nil).Read(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, raw != nil
}

// check stores an observation of the domain by the sweep of now.
func (w *world) check(id string, state dnscheck.State) {
	w.t.Helper()
	o := observed(w.now, state)
	o.ID = id
	if _, err := w.states(nil).Observe(w.t.Context(), o, sweep.Rules{}, proven(), nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) summary() sweep.Summary {
	w.t.Helper()
	s, _, err := w.states(nil).Summary(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) wantNotified(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := types(w.notified); got != strings.Join(want, " ") {
		w.t.Errorf("notified %q, want %q", got, strings.Join(want, " "))
	}
	for _, e := range w.notified {
		if e.Data.Tenant != "acme" {
			w.t.Errorf("event of tenant %q: %+v", e.Data.Tenant, e)
		}
	}
}

// watched returns the ids of the watched domains.
func (w *world) watched() (ids []string) {
	w.t.Helper()
	for d, err := range w.states(nil).Watched(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		if !d.Watched() {
			w.t.Errorf("%s is among the watched domains: %+v", d.ID, d.DomainState)
		}
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids
}

// expire removes the state of a domain as Redis does at the end of its time.
func expire(t *testing.T, id string) {
	t.Helper()
	rdb := redistest.New(t)
	keys := redistest.Keys(t, "*domain:"+id)
	if len(keys) != 1 {
		t.Fatalf("keys %q", keys)
	}
	if err := rdb.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
}
