package schedule_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/scan/progress"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/tasks"
)

// swept has a tenant's sweeps, none of which is executed.
type swept struct {
	t      *testing.T
	ledger *ledger.Ledger
	taker  intake.Intake
	store  *sweep.Store
}

func newSwept(t *testing.T) *swept {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	return &swept{t, l, intake.New(rdb, l), sweep.NewStore(rdb, "default")}
}

func (s *swept) now(id string, o progress.Scan) (ledger.Run, bool, error) {
	s.t.Helper()
	return schedule.Now(s.t.Context(), s.taker, s.store, ledger.NewRun{ID: ledger.RunID(id), Tenant: "default"}, o)
}

func (s *swept) mustNow(id string, o progress.Scan) ledger.Run {
	s.t.Helper()
	run, _, err := s.now(id, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *swept) clock() time.Time {
	s.t.Helper()
	now, err := s.store.Clock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

// claim stores that a sweep by hand is about to start.
func (s *swept) claim(sweep sweep.TenantSweep) {
	s.t.Helper()
	ticks, err := s.store.Ticks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	ticks.ByHand = sweep
	if ok, err := s.store.SetTicks(s.t.Context(), &ticks); err != nil || !ok {
		s.t.Fatal(ok, err)
	}
}

// end ends a sweep without rows.
func (s *swept) end(id string) {
	s.t.Helper()
	core := s.ledger
	run, err := core.Get(s.t.Context(), "", ledger.RunID(id))
	if err == nil {
		_, err = core.Dismiss(s.t.Context(), ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation,
			Number: ledger.ScanSegment}, ledger.Result{Outcome: ledger.Done}, 0)
	}
	if err == nil {
		run, err = core.Get(s.t.Context(), "", run.ID)
	}
	if err != nil || !run.Ended() {
		s.t.Fatalf("run %s, ended %v: %v", id, run.Ended(), err)
	}
}

func TestBeginSweepAgain(t *testing.T) {
	s := newSwept(t)
	begin := func(o progress.Scan) (ledger.Run, bool, error) {
		return s.taker.BeginSweep(t.Context(), ledger.NewRun{ID: "a", Tenant: "default"}, o)
	}
	run, created, err := begin(progress.Scan{Tick: 60, SpreadUntil: 100})
	if err != nil || !created || run.Kind != tasks.TypeRecheck || !run.Scanning() {
		t.Fatalf("created %v: %+v, %v", created, run, err)
	}
	if again, created, err := begin(progress.Scan{Tick: 120}); err != nil || created ||
		string(again.Scan.Progress) != string(run.Scan.Progress) {
		t.Errorf("again: created %v: %+v, %v", created, again, err)
	}
	for _, o := range []progress.Scan{{Tick: 60, Pending: true}, {Tick: 60, Organization: "org_1"}} {
		_, _, err := begin(o)
		if mismatch, ok := errors.AsType[*ledger.MismatchError](err); !ok || mismatch.Member != "content" {
			t.Errorf("%+v: %v, want the content refused", o, err)
		}
	}
	for _, o := range []progress.Scan{{Tick: 60, Organization: "a/b"}} {
		if _, _, err := begin(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestNow checks that a tenant is swept by hand once at a time, and an organization at any
// time.
func TestNow(t *testing.T) {
	s := newSwept(t)
	whole := progress.Scan{}
	refused := func(id, words string) {
		t.Helper()
		_, _, err := s.now(id, whole)
		if under, ok := errors.AsType[*schedule.InProgressError](err); !ok || under.Run != "first" ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%v, want sweep first named, and %q", err, words)
		}
	}
	s.mustNow("first", whole)
	refused("second", "still runs")
	s.mustNow("narrow", progress.Scan{Organization: "org_1"})
	s.mustNow("first", whole) // the same again
	refused("second", "still runs")
	if err := ledgertest.Control(t.Context(), s.ledger, (*ledger.Ledger).Pause, "first"); err != nil {
		t.Fatal(err)
	}
	refused("second", "is paused (enqueue runs resume first, or cancel)")
	if err := ledgertest.Control(t.Context(), s.ledger, (*ledger.Ledger).Resume, "first"); err != nil {
		t.Fatal(err)
	}
	s.end("first")
	s.mustNow("second", whole)
	if err := s.ledger.Cancel(t.Context(), "default", "second"); err != nil {
		t.Fatal(err)
	}
	s.mustNow("third", whole)
	s.end("third")
	s.mustNow("first", whole) // it has ended, and does not block others
	if ticks, err := s.store.Ticks(t.Context()); err != nil || ticks.ByHand.Run != "third" || ticks.ByHand.Tick == 0 {
		t.Errorf("remembered: %+v, %v", ticks, err)
	}
}

// TestNowWhileAnotherIsAboutToStart checks that a claim of the tenant without a run blocks
// other sweeps for a minute. After that its owner counts as killed.
func TestNowWhileAnotherIsAboutToStart(t *testing.T) {
	s := newSwept(t)
	now := s.clock()
	claim := func(at time.Time) { s.claim(sweep.TenantSweep{Run: "claimed", Tick: at.Unix(), At: at}) }
	claim(now)
	if _, _, err := s.now("other", progress.Scan{}); err == nil ||
		!strings.Contains(err.Error(), "sweep claimed is about to start") {
		t.Errorf("%v", err)
	}
	claim(now.Add(-time.Hour))
	s.mustNow("other", progress.Scan{})
}

// TestNowAfterAnOldClaim checks that a command which was killed after its claim of the tenant
// can continue under the same ID. A minute later another sweep may have started instead.
func TestNowAfterAnOldClaim(t *testing.T) {
	s := newSwept(t)
	now := s.clock()
	s.claim(sweep.TenantSweep{Run: "fresh", Tick: now.Unix(), At: now})
	s.mustNow("fresh", progress.Scan{})
	s.end("fresh")
	if _, _, err := s.taker.BeginSweep(t.Context(), ledger.NewRun{ID: "scheduled", Tenant: "default"},
		progress.Scan{Tick: now.Unix()}); err != nil {
		t.Fatal(err)
	}
	ticks, err := s.store.Ticks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticks.Sweep = sweep.TenantSweep{Run: "scheduled", Tick: now.Unix(), At: now, Started: true}
	ticks.ByHand = sweep.TenantSweep{Run: "old", Tick: now.Unix(), At: now.Add(-2 * time.Minute)}
	if ok, err := s.store.SetTicks(t.Context(), &ticks); err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, _, err = s.now("old", progress.Scan{})
	if under, ok := errors.AsType[*schedule.InProgressError](err); !ok || under.Run != "scheduled" {
		t.Errorf("%v, want the schedule's sweep in its way", err)
	}
	if err := s.ledger.Cancel(t.Context(), "default", "scheduled"); err != nil {
		t.Fatal(err)
	}
	s.mustNow("old", progress.Scan{})
}

// TestNowClaimsOnce starts a sweep by hand while another one has read the ticks and not
// written them yet. Only one of the two starts.
func TestNowClaimsOnce(t *testing.T) {
	s := newSwept(t)
	rival := newSwept(t)
	rdb := redistest.New(t)
	var once sync.Once
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if strings.HasPrefix(cmds[0].Name(), "eval") {
			once.Do(func() { rival.mustNow("rival", progress.Scan{}) })
		}
		return run()
	}))
	_, _, err := schedule.Now(t.Context(), s.taker, sweep.NewStore(rdb, "default"),
		ledger.NewRun{ID: "slow", Tenant: "default"}, progress.Scan{})
	if under, ok := errors.AsType[*schedule.InProgressError](err); !ok || under.Run != "rival" {
		t.Errorf("%v, want the rival's named", err)
	}
	if _, err := s.ledger.Get(t.Context(), "", "slow"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("slow: %v, want no run", err)
	}
}
