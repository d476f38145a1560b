package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

func (w *worker) takeDue() ([]ledger.Segment, time.Time) {
	w.t.Helper()
	due, next, err := w.TakeDue(w.t.Context(), w.tenant, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return due, next
}

// due is a hint of a segment in the index, as the scripts store it.
func (w *worker) due(seg ledger.Segment, at time.Time) {
	w.t.Helper()
	entry := redis.Z{Score: float64(at.UnixMilli()), Member: seg.String()}
	if err := w.rdb.ZAdd(w.t.Context(), ledger.ListKey(w.tenant, "due"), entry).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// TestCommittedSegmentsAreDue has the dispatcher that has taken the segments die: they are due
// again after ten seconds.
func TestCommittedSegmentsAreDue(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3, 4)
	both := []ledger.Segment{segment(run, 0), segment(run, 1)}
	for range 2 {
		if due, _ := w.takeDue(); !slices.Equal(due, both) {
			t.Errorf("due %v, want both segments", due)
		}
		if due, next := w.takeDue(); len(due) != 0 || next.Sub(w.redisNow()) > 10*time.Second {
			t.Errorf("due %v, next %v, want them in ten seconds", due, next)
		}
		w.ageIndex(11 * time.Second)
	}
}

// TestIndex compares the index with the segments after each write that changes when one is due.
func TestIndex(t *testing.T) {
	const hour = time.Hour
	waiting := func(after time.Duration) ledger.Waiting {
		return ledger.Waiting{Stage: ledger.StageCheck, After: after}
	}
	w := newWorker(t)
	seg := segment(w.submit("a", 4), 0)
	next := func(what string, want time.Duration) {
		t.Helper()
		scores, err := w.rdb.ZRangeWithScores(t.Context(), ledger.ListKey(tenant, "due"), 0, -1).Result()
		if err != nil || len(scores) > 1 || (len(scores) == 0) != (want < 0) {
			t.Fatalf("%s: index %v, %v", what, scores, err)
		}
		if want < 0 {
			return
		}
		got := time.Duration(max(int64(scores[0].Score)-w.redisNow().UnixMilli(), 0)) * time.Millisecond
		if (want - got).Abs() > 5*time.Second {
			t.Errorf("%s: due in %v, want %v", what, got, want)
		}
	}
	next("committed", 0)
	w.must(w.Pause, "a")
	w.release(seg, all)
	next("paused, and no row was released before", -1)
	w.must(w.Resume, "a")
	next("resumed", 0)
	r := w.release(seg, ledger.Quota{First: 3})
	next("released, and more are due", 10*time.Second)
	e := w.begin(seg, r.Token, 0, 1, 2)
	w.end(seg, e, ledger.RowEnd{Row: 0, Ending: waiting(hour)})
	w.end(seg, e, ledger.RowEnd{Row: 1, Ending: waiting(2 * hour)})
	next("rows wait", 10*time.Second) // the release is not inspected again before
	w.end(seg, e, ledger.RowEnd{Row: 2, Ending: ledger.GiveBack{}})
	next("a row was given back", 0)
	r = w.release(seg, all)
	w.settle(seg, w.begin(seg, r.Token, 2, 3), 2, 3)
	w.release(seg, all)
	next("others are settled", hour)
	w.must(w.Pause, "a")
	w.pass(seg, hour)
	w.release(seg, all)
	next("paused", -1)
	w.must(w.Resume, "a")
	next("resumed", 0)
	r = w.release(seg, all)
	w.begin(seg, r.Token, 0)
	if _, _, err := w.Reclaim(t.Context(), seg, w.session); err != nil {
		t.Fatal(err)
	}
	next("its worker died", 0)
	w.must(w.Cancel, "a")
	next("cancelled", -1)
}
