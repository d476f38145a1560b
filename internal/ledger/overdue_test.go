package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

// overdue returns for how long a segment of the tenant has been due, to the minute.
func (w *worker) overdue() time.Duration {
	w.t.Helper()
	longest, err := w.Overdue(w.t.Context(), w.tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return longest.Truncate(time.Minute)
}

// ageIndex has the time pass for the tenant's index.
func (w *worker) ageIndex(d time.Duration) { w.age("due", d) }

func TestOverdue(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name string
		do   func(w *worker, seg ledger.Segment)
		want time.Duration
	}{
		{"just committed", func(*worker, ledger.Segment) {}, 0},
		{"no dispatcher", func(w *worker, _ ledger.Segment) { w.ageIndex(hour) }, hour},
		{"taken by a dispatcher", func(w *worker, _ ledger.Segment) { w.ageIndex(hour); w.takeDue() }, 0},
		{"due again later", func(w *worker, seg ledger.Segment) {
			w.takeDue()
			w.due(seg, time.Now().Add(2*hour))
			w.ageIndex(hour)
		}, 0},
		{"due since then", func(w *worker, seg ledger.Segment) {
			w.takeDue()
			w.due(seg, time.Now().Add(hour))
			w.ageIndex(3*hour + time.Second)
		}, 2 * hour},
		{"paused", func(w *worker, _ ledger.Segment) { w.must(w.Pause, "a"); w.ageIndex(hour) }, 0},
		{"postponed", func(w *worker, _ ledger.Segment) { w.notBefore("a", hour); w.ageIndex(hour) }, 0},
		{"resumed", func(w *worker, _ ledger.Segment) {
			w.must(w.Pause, "a")
			w.must(w.Resume, "a")
			w.ageIndex(hour)
		}, hour},
		{"cancelled", func(w *worker, _ ledger.Segment) { w.ageIndex(hour); w.must(w.Cancel, "a") }, 0},
		{"deleted", func(w *worker, _ ledger.Segment) {
			w.ageIndex(hour)
			w.must(w.Cancel, "a")
			w.must(w.Delete, "a")
		}, 0},
		{"an entry that is no segment", func(w *worker, _ ledger.Segment) {
			w.takeDue()
			w.rdb.ZAdd(w.t.Context(), ledger.ListKey(tenant, "due"), redis.Z{Score: 1, Member: "no segment"})
		}, 0},
		{"another run is paused", func(w *worker, _ ledger.Segment) {
			w.ageIndex(2 * hour)
			w.must(w.Pause, "a")
			w.submit("b", 1)
			w.ageIndex(hour)
		}, hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			tt.do(w, segment(w.submit("a", 2), 0))
			if got := w.overdue(); got != tt.want {
				t.Errorf("overdue for %v, want %v", got, tt.want)
			}
		})
	}
}

// TestOverdueBehindManyPausedSegments has more paused segments before the one that is
// overdue than one script reads.
func TestOverdueBehindManyPausedSegments(t *testing.T) {
	w := newWorker(t)
	paused := w.submit("a", 1)
	w.must(w.Pause, "a")
	seg := segment(w.submit("b", 1), 0)
	w.takeDue()
	w.due(seg, time.Now().Add(time.Minute))
	w.ageIndex(time.Hour + time.Minute + time.Second)
	for n := range 2500 {
		w.rdb.ZAdd(t.Context(), ledger.ListKey(tenant, "due"),
			redis.Z{Score: 1, Member: fmt.Sprintf("a/%s/%d", paused.Incarnation, n)})
	}
	if got := w.overdue(); got != time.Hour {
		t.Errorf("overdue for %v, want an hour", got)
	}
}
