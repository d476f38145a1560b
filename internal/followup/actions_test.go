package followup_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// TestEnded submits the actions of a sweep once, also when it is repeated.
func TestEnded(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	s.due("ord_2")
	for range 2 {
		if err := s.worker().Ended(t.Context(), s.ended("sweep")); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, s.ids(s.actions("sweep")), "ord_1", "ord_2")
		s.due("ord_3")
	}
	long := ledger.RunID(strings.Repeat("a", 64))
	seen := map[ledger.RunID]bool{}
	for range 2 { // the same id, and another tick
		s.now = s.now.Add(day)
		s.due("ord_1")
		if err := s.worker().Ended(t.Context(), s.ended(long)); err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenRuns(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range open {
			seen[run.ID] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("runs %v, want three", seen)
	}
}

// TestEndedAtOnce has two workers submit the actions at once.
func TestEndedAtOnce(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	var all sync.WaitGroup
	for range 2 {
		f := s.worker()
		all.Go(func() {
			if err := f.Ended(t.Context(), s.ended("sweep")); err != nil && !errors.Is(err, sweep.ErrChanged) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.worker().Ended(t.Context(), s.ended("sweep")); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s.ids(s.actions("sweep")), "ord_1")
}

// TestEndedKilled kills a worker before and after each command, or some. The next one submits the
// same actions, or those of the states by then: none is submitted twice or lost.
func TestEndedKilled(t *testing.T) {
	for _, change := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			stride := redistest.Stride(11)
			for at := rand.IntN(stride); ; at += stride {
				k := &killer{at: at, after: after}
				t.Run(fmt.Sprintf("command %d after %t change %t", at, after, change), func(t *testing.T) {
					s := newSite(t)
					s.due("ord_1")
					err := s.worker(k).Ended(t.Context(), s.ended("sweep"))
					if k.died() != (err != nil) {
						t.Fatalf("killed %t: %v", k.died(), err)
					}
					run, getErr := s.Get(t.Context(), s.actions("sweep"))
					committed := getErr == nil && !run.Staged()
					if change {
						s.present("ord_1")
					}
					if err := s.worker().Ended(t.Context(), s.ended("sweep")); err != nil {
						t.Fatal(err)
					}
					if change && !committed {
						s.none(s.actions("sweep"))
						return
					}
					wantIDs(t, s.ids(s.actions("sweep")), "ord_1")
				})
				if !k.died() {
					break
				}
			}
		}
	}
}

// TestEndedTaken has another run under the id of the actions.
func TestEndedTaken(t *testing.T) {
	for name, n := range map[string]ledger.NewRun{
		"kind": {Tenant: tenant, Kind: kinds.Verify}, "tenant": {Tenant: "other", Kind: kinds.Act}, "content": {Tenant: tenant, Kind: kinds.Act},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.due("ord_1")
			n.ID = s.actions("sweep")
			run, sums := s.stage(n, "{}")
			for range 2 {
				err := s.worker().Ended(t.Context(), s.ended("sweep"))
				if e, ok := errors.AsType[*ledger.MismatchError](err); !ok || string(e.Member) != name || !strings.Contains(err.Error(), string(n.ID)) {
					t.Fatalf("error %v", err)
				}
				if _, err := s.Commit(t.Context(), run, sums); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestEndedWithoutActions submits none.
func TestEndedWithoutActions(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	cancelled, retry, other := s.ended("sweep"), s.ended("sweep"), s.ended("sweep")
	cancelled.Cancelled, retry.Scan, other.Kind = true, nil, kinds.Verify
	for _, run := range []ledger.Run{cancelled, retry, other} {
		if err := s.worker().Ended(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	s.none(s.actions("sweep"))
}

// TestEndedOfOneOrganization evaluates a sweep of one organization.
func TestEndedOfOneOrganization(t *testing.T) {
	s := newSite(t)
	s.due("ord_1")
	run := s.endedOf("sweep", sweep.Progress{Organization: "org_1", Tick: s.now.Unix(), Read: 1, Ended: true})
	if err := s.worker().Ended(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if keys, err := s.rdb.Exists(t.Context(), "orgops:v1:{watch:acme}:state:judged").Result(); err != nil || keys != 0 {
		t.Errorf("a summary is stored: %d, %v", keys, err)
	}
}

// TestEndedLost has Redis lose the run of the actions after its commit: the error is not that
// of a deleted sweep, and the repetition submits the actions.
func TestEndedLost(t *testing.T) {
	lost := 0
	for at := 0; ; at += redistest.Stride(5) {
		k := &killer{at: at}
		t.Run(fmt.Sprintf("command %d", at), func(t *testing.T) {
			s := newSite(t)
			s.due("ord_1")
			k.do = func() {
				if run, err := s.Get(t.Context(), s.actions("sweep")); err == nil && !run.Staged() {
					lost++
					for _, key := range []string{"header", "sums", "closed"} {
						s.rdb.Del(t.Context(), "orgops:v2:{run:"+string(run.ID)+"}:"+key)
					}
				}
			}
			err := s.worker(k).Ended(t.Context(), s.ended("sweep"))
			if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrOpen) {
				t.Errorf("error %v", err)
			}
			if err := s.worker().Ended(t.Context(), s.ended("sweep")); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s.ids(s.actions("sweep")), "ord_1")
		})
		if k.n <= at {
			break
		}
	}
	if lost == 0 {
		t.Error("no commit was lost")
	}
}
