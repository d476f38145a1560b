package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

// TestFailingEndsDelayNoOtherRun: a hundred runs whose end fails again and again do not keep a
// later one from being finished.
func TestFailingEndsDelayNoOtherRun(t *testing.T) {
	w := newWorker(t)
	for i := range 101 {
		id := ledger.RunID(fmt.Sprintf("run-%03d", i))
		w.settleAll(segment(w.submit(id, 1), 0))
	}
	due, err := w.Ledger.TakeDue(t.Context(), tenant, 10)
	if err != nil || len(due.Ended) != 100 {
		t.Fatalf("%d runs to finish, %v, want 100", len(due.Ended), err)
	}
	for _, id := range due.Ended {
		if err := w.NoteStuck(t.Context(), w.get(id), "the receiver is away"); err != nil {
			t.Fatal(err)
		}
	}
	later, err := w.Ledger.TakeDue(t.Context(), tenant, 10)
	if err != nil || len(later.Ended) != 1 || slices.Contains(due.Ended, later.Ended[0]) {
		t.Errorf("runs to finish %v, %v, want the one that is left", later.Ended, err)
	}
}

// TestStuckRuns: a run that makes no progress is listed with the reason until it goes on, is
// finished or deleted.
func TestStuckRuns(t *testing.T) {
	w := newWorker(t)
	stuck := func() (why []string) {
		t.Helper()
		runs, err := w.StuckRuns(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			why = append(why, string(r.ID)+": "+r.Stuck.Why)
		}
		slices.Sort(why)
		return why
	}
	note := func(id ledger.RunID, why string) error { return w.NoteStuck(t.Context(), w.get(id), why) }
	for _, id := range []ledger.RunID{"a", "b", "c"} {
		run := w.submit(id, 1)
		if err := note(id, "a first reason"); err != nil {
			t.Fatal(err)
		}
		if id != "c" {
			w.settleAll(segment(run, 0))
		}
	}
	since := w.get("c").Stuck.Since
	if err := note("c", "another reason"); err != nil {
		t.Fatal(err)
	}
	if got := w.get("c").Stuck; !got.Since.Equal(since) || got.At.Before(since) {
		t.Errorf("stuck since %s, last seen %s, want since %s", got.Since, got.At, since)
	}
	if got := stuck(); fmt.Sprint(got) != "[a: a first reason b: a first reason c: another reason]" {
		t.Errorf("stuck: %q", got)
	}

	// Runs that are finished, deleted or going on are not listed.
	w.must(w.Finish, "a")
	if got := w.get("a").Stuck; got != nil {
		t.Errorf("a finished run is stuck: %+v", got)
	}
	removed := w.get("b")
	w.remove(removed)
	key := "orgops:v3:{tenant:" + string(tenant) + "}:stuck"
	if got := stuck(); fmt.Sprint(got) != "[c: another reason]" {
		t.Errorf("stuck: %q", got)
	}
	if n := w.rdb.ZCard(t.Context(), key).Val(); n != 1 {
		t.Errorf("%d runs in the list, want 1", n)
	}
	old := float64(w.redisNow().Add(-ledger.StuckFor).UnixMilli())
	aged := redis.Z{Score: old, Member: "c/" + string(w.get("c").Incarnation)}
	if err := w.rdb.ZAdd(t.Context(), key, aged).Err(); err != nil {
		t.Fatal(err)
	}
	if got := stuck(); got != nil {
		t.Errorf("stuck five minutes ago, listed: %q", got)
	}

	// Of a run that is gone or finished nothing is stored, nor of another that has got its id.
	w.submit("b", 1)
	if err := w.NoteStuck(t.Context(), removed, "x"); !errors.Is(err, ledger.ErrNotFound) || w.get("b").Stuck != nil {
		t.Errorf("of a deleted run: %v, want %v", err, ledger.ErrNotFound)
	}
	if err := note("a", "x"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("of a finished run: %v, want %v", err, ledger.ErrEnded)
	}
}

// TestRunWithoutASegment: a run of which Redis has lost a segment, or a part of one, can be
// cancelled, once its other rows are settled; and the results of these can be read.
func TestRunWithoutASegment(t *testing.T) {
	for _, lose := range []string{"missing", "damaged"} {
		t.Run(lose, func(t *testing.T) {
			w := newWorker(t)
			run := w.submit("a", 3, 4, 2)
			head := "orgops:v3:{tenant:" + string(tenant) + "}:" + string(run.Incarnation) + ".1:head"
			if lose == "missing" {
				for _, key := range keysOf(t, run) {
					if strings.Contains(key, ".1:") {
						w.rdb.Del(t.Context(), key)
					}
				}
			} else if n := w.rdb.HDel(t.Context(), head, "rows").Val(); n != 1 {
				t.Fatal("the head of a segment has no field rows")
			}
			w.settleAll(segment(run, 0))
			want := map[string]error{"missing": ledger.ErrNotFound, "damaged": ledger.ErrDamaged}[lose]
			_, err := w.Release(t.Context(), segment(run, 1), all)
			if !errors.Is(err, want) {
				t.Errorf("release of the lost segment: %v, want %v", err, want)
			}

			// A row in progress keeps the run open.
			e, row := w.take(segment(run, 2))
			err = w.Cancel(t.Context(), tenant, "a")
			if err == nil || !strings.Contains(err.Error(), "rows of others are in progress") {
				t.Errorf("cancel with a row in progress: %v, want an error that says so", err)
			}
			if w.get("a").Ended() {
				t.Fatal("the run has ended with a row in progress")
			}
			w.settle(segment(run, 2), e, row)
			w.must(w.Cancel, "a")
			if got := w.get("a"); !got.Ended() {
				t.Fatalf("the run has not ended: %+v", got)
			}

			if lose == "missing" {
				var got []string
				for r, err := range w.Each(t.Context(), run, ledger.Every, 2) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprintf("%d %s %t", r.Item, r.Result.Outcome, r.Err != nil))
				}
				const want = "[2 done false 3 failed true 4 failed true 5 failed true 6 failed true " +
					"7 done false 8 cancelled false]"
				if fmt.Sprint(got) != want {
					t.Errorf("rows %v, want %s", got, want)
				}
			}
			w.must(w.Finish, "a")
			w.remove(run)
		})
	}
}
