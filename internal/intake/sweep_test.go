package intake_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/watch"
	"orgops/tasks"
)

// swept is a tenant's sweeps, of which none is carried out.
type swept struct {
	*counter
	store *watch.Store
}

func newSwept(t *testing.T) *swept {
	return &swept{newCounter(t, intake.Input{}), watch.New(redistest.New(t), "default")}
}

func (s *swept) now(id string, o tasks.SweepOrder) (runs.Run, bool, error) {
	s.t.Helper()
	return s.taker.SweepNow(s.t.Context(), s.store, intake.Run{ID: id, Tenant: "default"}, o)
}

func (s *swept) mustNow(id string, o tasks.SweepOrder) runs.Run {
	s.t.Helper()
	run, _, err := s.now(id, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// end ends a sweep that has found nothing.
func (s *swept) end(id string) {
	s.t.Helper()
	if err := s.ledger.Seal(s.t.Context(), id, 0); err != nil {
		s.t.Fatal(err)
	}
}

// judge writes down that one was judged which is of the whole tenant.
func (s *swept) judge(id string) {
	s.t.Helper()
	ticks, err := s.store.Ticks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	judged := tasks.Judged{Run: id, Tick: ticks.Sweep.Tick}
	if ticks.ByHand.Run == id {
		judged.Tick = ticks.ByHand.Tick
	}
	value, err := json.Marshal(judged)
	if err != nil {
		s.t.Fatal(err)
	}
	former, err := s.store.State(s.t.Context(), tasks.StateJudged)
	if err != nil {
		s.t.Fatal(err)
	}
	if ok, err := s.store.SetState(s.t.Context(), tasks.StateJudged, former, value); err != nil || !ok {
		s.t.Fatal(ok, err)
	}
}

func TestBeginSweepAgain(t *testing.T) {
	s := newSwept(t)
	begin := func(o tasks.SweepOrder) (runs.Run, bool, error) {
		return s.taker.BeginSweep(t.Context(), intake.Run{ID: "a", Tenant: "default"}, o)
	}
	run, created, err := begin(tasks.SweepOrder{Tick: 60, SpreadUntil: 100})
	if err != nil || !created || run.Kind != tasks.TypeRecheck || !run.Walking() {
		t.Fatalf("created %v: %+v, %v", created, run, err)
	}
	s.wantPending(sweepQueue, "a-walk-0-0")
	if again, created, err := begin(tasks.SweepOrder{Tick: 120}); err != nil || created || string(again.Walk.Told) != string(run.Walk.Told) {
		t.Errorf("again: created %v: %+v, %v", created, again, err)
	}
	s.wantPending(sweepQueue, "a-walk-0-0")
	s.delete(sweepQueue, "a-walk-0-0")
	if _, _, err := begin(tasks.SweepOrder{Tick: 60, SpreadUntil: 100}); err != nil {
		t.Fatal(err)
	}
	s.wantPending(sweepQueue, "a-walk-0-1") // its walk was lost
	for _, o := range []tasks.SweepOrder{{Tick: 60, Pending: true}, {Tick: 60, Organization: "org_1"}} {
		_, _, err := begin(o)
		if mismatch, ok := errors.AsType[*runs.MismatchError](err); !ok || mismatch.Member != "content" {
			t.Errorf("%+v: %v, want the content refused", o, err)
		}
	}
	for _, o := range []tasks.SweepOrder{{}, {Tick: 60, Organization: "a/b"}} {
		if _, _, err := begin(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestSweepNow: by hand a tenant is swept once at a time, an organization always.
func TestSweepNow(t *testing.T) {
	s := newSwept(t)
	whole := tasks.SweepOrder{}
	refused := func(id, words string) {
		t.Helper()
		_, _, err := s.now(id, whole)
		if under, ok := errors.AsType[*intake.SweepingError](err); !ok || under.Run != "first" || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want sweep first named, and %q", err, words)
		}
	}
	s.mustNow("first", whole)
	refused("second", "still runs")
	s.mustNow("narrow", tasks.SweepOrder{Organization: "org_1"})
	s.mustNow("first", whole) // the same again
	refused("second", "still runs")
	if err := s.ledger.Pause(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	refused("second", "is paused (enqueue runs resume first, or cancel)")
	if _, _, err := s.taker.Resume(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	s.end("first")
	refused("second", "not judged yet")
	s.judge("first")
	s.mustNow("second", whole)
	if _, err := s.ledger.Cancel(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	s.mustNow("third", whole)
	s.end("third")
	s.mustNow("first", whole) // it has ended, and holds up nobody
	if ticks, err := s.store.Ticks(t.Context()); err != nil || ticks.ByHand.Run != "third" || ticks.ByHand.Tick == 0 {
		t.Errorf("remembered: %+v, %v", ticks, err)
	}
}

// TestSweepNowOfOneThatIsAboutToBegin: who has claimed the tenant and not begun yet
// holds up others for a minute; then it was killed.
func TestSweepNowOfOneThatIsAboutToBegin(t *testing.T) {
	s := newSwept(t)
	now, err := s.store.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim := func(at time.Time) {
		t.Helper()
		ticks, err := s.store.Ticks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ticks.ByHand = watch.Sweep{Run: "claimed", Tick: at.Unix(), At: at}
		if ok, err := s.store.SetTicks(t.Context(), &ticks); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	claim(now)
	if _, _, err := s.now("other", tasks.SweepOrder{}); err == nil || !strings.Contains(err.Error(), "sweep claimed is about to be begun") {
		t.Errorf("%v", err)
	}
	claim(now.Add(-time.Hour))
	s.mustNow("other", tasks.SweepOrder{})
}

// TestSweepNowClaimsOnce: of two sweeps by hand at a time one is begun. The second is
// begun while the first has read what is known and not written yet.
func TestSweepNowClaimsOnce(t *testing.T) {
	s := newSwept(t)
	rival := newSwept(t)
	rdb := redistest.New(t)
	rdb.AddHook(&beforeScript{do: func() { rival.mustNow("rival", tasks.SweepOrder{}) }})
	_, _, err := s.taker.SweepNow(t.Context(), watch.New(rdb, "default"), intake.Run{ID: "slow", Tenant: "default"}, tasks.SweepOrder{})
	if under, ok := errors.AsType[*intake.SweepingError](err); !ok || under.Run != "rival" {
		t.Errorf("%v, want the rival's named", err)
	}
	if _, err := s.ledger.Get(t.Context(), "slow"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("slow: %v, want no run", err)
	}
	s.wantPending(sweepQueue, "rival-walk-0-0")
}
