package runs_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// wantCounts holds that the counts are these, and add up to what is settled.
func wantCounts(t *testing.T, l *runs.Ledger, id string, want map[string]int64) runs.Run {
	t.Helper()
	r := get(t, l, id)
	if diff := cmp.Diff(want, r.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	sum := int64(0)
	for _, n := range r.Counts {
		sum += n
	}
	if sum != r.Settled {
		t.Errorf("%d settled, counts come to %d", r.Settled, sum)
	}
	return r
}

func cancel(t *testing.T, l *runs.Ledger, id string) int64 {
	t.Helper()
	rows, err := l.Cancel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestCancelSettlesWhatIsOpen(t *testing.T) {
	for _, total := range []int64{1, 2, 7, 8, 9, 15, 16, 17, 1000} {
		t.Run(fmt.Sprint(total), func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", total)
			settle(t, l, "a", "refused", "why", total-1)
			if got := cancel(t, l, "a"); got != total-1 {
				t.Errorf("cancelled %d rows, want %d", got, total-1)
			}
			want := map[string]int64{"refused": 1, "cancelled": total - 1}
			if total == 1 {
				want = map[string]int64{"refused": 1}
			}
			if r := wantCounts(t, l, "a", want); !r.Ended() || r.Total != total || r.Settled != total {
				t.Errorf("run is %+v", r)
			}
			all := fates(t, l, "a")
			if int64(len(all)) != total {
				t.Fatalf("%d fates, want %d", len(all), total)
			}
			for i, f := range all[:total-1] {
				if f.Item != int64(i) || f.Outcome != "cancelled" {
					t.Errorf("fate %+v", f)
				}
			}
			if last := all[total-1]; last.Outcome != "refused" {
				t.Errorf("fate %+v", last)
			}
		})
	}
}

// TestCancelOfAMillion: it is one step, which does not grow with the rows.
func TestCancelOfAMillion(t *testing.T) {
	const total = 1_000_003
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", total)
	settle(t, l, "a", "done", "", 5, 500_000, total-1)
	settle(t, l, "a", "failed", "late", 6)
	begin(t, l, "a", 7, "under way")
	begin(t, l, "a", total-2, "under way")
	if got := cancel(t, l, "a"); got != total-6 {
		t.Errorf("cancelled %d rows, want %d", got, total-6)
	}
	wantCounts(t, l, "a", map[string]int64{"done": 3, "failed": 1, "cancelled": total - 6})
	settle(t, l, "a", "cancelled", "not made", 7, total-2)
	if r := wantCounts(t, l, "a", map[string]int64{"done": 3, "failed": 1, "cancelled": total - 4}); !r.Ended() {
		t.Errorf("run is %+v, want it ended", r)
	}
	settle(t, l, "a", "done", "", 0)
	wantCounts(t, l, "a", map[string]int64{"done": 4, "failed": 1, "cancelled": total - 5})
}

func TestDoneInFlightReplacesCancelled(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 4)
	cancel(t, l, "a")
	settle(t, l, "a", "done", "", 0)
	settle(t, l, "a", "done", "vct_1", 1)
	settle(t, l, "a", "failed", "late", 2)
	r := wantCounts(t, l, "a", map[string]int64{"done": 2, "cancelled": 2})
	if r.CancelledAt.IsZero() || r.CancelledAt.After(r.EndedAt) {
		t.Errorf("cancelled at %v, ended at %v", r.CancelledAt, r.EndedAt)
	}
	want := []runs.Fate{{Item: 1, Outcome: "done", Detail: "vct_1"}, {Item: 2, Outcome: "cancelled"}, {Item: 3, Outcome: "cancelled"}}
	if diff := cmp.Diff(want, fates(t, l, "a")); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func TestCancelTwiceAndOfWhatHasEnded(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	cancel(t, l, "a")
	before := get(t, l, "a")
	if got := cancel(t, l, "a"); got != 0 {
		t.Errorf("the second time %d rows", got)
	}
	if diff := cmp.Diff(before, get(t, l, "a")); diff != "" {
		t.Errorf("the second time changed it:\n%s", diff)
	}

	create(t, l, "b")
	seal(t, l, "b", 1)
	settle(t, l, "b", "done", "", 0)
	if got := cancel(t, l, "b"); got != 0 || !get(t, l, "b").CancelledAt.IsZero() {
		t.Errorf("a run that had ended: %d rows, %+v", got, get(t, l, "b"))
	}
	if _, err := l.Cancel(t.Context(), "none"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("no such run: %v", err)
	}
}

func TestCancelByTwoAtOnceWhileRowsSettle(t *testing.T) {
	const total = 500
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", total)
	var both sync.WaitGroup
	var rows [2]int64
	for i := range rows {
		both.Go(func() { rows[i], _ = l.Cancel(t.Context(), "a") })
	}
	both.Go(func() {
		for item := range int64(total) {
			if err := l.Settle(t.Context(), "a", kind, 0, []int64{item}, "refused", "no"); err != nil {
				t.Error(err)
			}
		}
	})
	both.Wait()
	r := get(t, l, "a")
	if !r.Ended() || r.Settled != total || r.Counts["cancelled"]+r.Counts["refused"] != total || rows[0]+rows[1] != r.Counts["cancelled"] {
		t.Errorf("cancelled %v, run %+v", rows, r)
	}
}

// TestCancelWhileHandedIn: what is stored is cancelled, and nothing follows.
func TestCancelWhileHandedIn(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	chunk := make([][]byte, runs.ChunkRows)
	for i := range chunk {
		chunk[i] = []byte("{}")
	}
	if err := l.StoreRows(t.Context(), "a", 0, chunk); err != nil {
		t.Fatal(err)
	}
	settle(t, l, "a", "done", "", 3)
	if err := l.Note(t.Context(), "a", 0, []int64{4}, "not yet", get(t, l, "a").CreatedAt); err != nil {
		t.Fatal(err)
	}
	if got := cancel(t, l, "a"); got != runs.ChunkRows-1 {
		t.Errorf("cancelled %d rows", got)
	}
	for name, err := range map[string]error{
		"the same rows again": l.StoreRows(t.Context(), "a", 0, chunk),
		"more rows":           l.StoreRows(t.Context(), "a", runs.ChunkRows, chunk),
		"seal":                l.Seal(t.Context(), "a", 2*runs.ChunkRows),
	} {
		if !errors.Is(err, runs.ErrCancelled) {
			t.Errorf("%s: %v, want ErrCancelled", name, err)
		}
	}
	if r := wantCounts(t, l, "a", map[string]int64{"done": 1, "cancelled": runs.ChunkRows - 1}); !r.Ended() || r.Total != runs.ChunkRows {
		t.Errorf("run is %+v", r)
	}
	if left, err := l.Unsettled(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("unsettled %v, %v", left, err)
	}
	for _, part := range []string{"notes", "kept", "scratch"} {
		if n, err := rdb.Exists(t.Context(), "orgops:v1:{run:a}:"+part).Result(); err != nil || n > 0 {
			t.Errorf("%s is left (%v)", part, err)
		}
	}

	create(t, l, "empty")
	if got := cancel(t, l, "empty"); got != 0 || !get(t, l, "empty").Ended() {
		t.Errorf("a run without rows: %d, %+v", got, get(t, l, "empty"))
	}
}

func TestDelete(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	if err := l.StoreRows(t.Context(), "a", 0, [][]byte{[]byte("{}"), []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(t.Context(), "a"); !errors.Is(err, runs.ErrOpen) {
		t.Errorf("while it is submitted: %v, want ErrOpen", err)
	}
	seal(t, l, "a", 2)
	settle(t, l, "a", "failed", "late", 0)
	if err := l.Delete(t.Context(), "a"); !errors.Is(err, runs.ErrOpen) {
		t.Errorf("while it is open: %v, want ErrOpen", err)
	}
	wantCounts(t, l, "a", map[string]int64{"failed": 1})
	cancel(t, l, "a")

	var both sync.WaitGroup
	var errs [2]error
	for i := range errs {
		both.Go(func() { errs[i] = l.Delete(t.Context(), "a") })
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), runs.ErrNotFound) {
		t.Errorf("two at once: %v; want one of them to find nothing", errs)
	}
	if left := redistest.Keys(t, "*{run:a}*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if n, err := rdb.ZCard(t.Context(), "orgops:v1:runs").Result(); err != nil || n != 0 {
		t.Errorf("%d runs in the index, %v", n, err)
	}
	if err := l.Settle(t.Context(), "a", kind, 0, []int64{0}, "done", ""); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("settle afterwards: %v", err)
	}
}

// standing is why a task of that generation is dropped.
func standing(t *testing.T, l *runs.Ledger, id string, n int) string {
	t.Helper()
	_, _, drop, err := l.Standing(t.Context(), id, kind, generation(t, l, id, n), []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	return drop
}

func TestPauseAndResume(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resume(t.Context(), "a"); !errors.Is(err, runs.ErrUnsealed) {
		t.Errorf("resume while it is submitted: %v, want ErrUnsealed", err)
	}
	seal(t, l, "a", 3)
	for range 2 {
		if err := l.Pause(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if got := standing(t, l, "a", 0); got != runs.DropPaused {
		t.Errorf("a task of the paused run: %q", got)
	}
	settle(t, l, "a", "done", "", 0) // it was under way
	for name, generation := range map[string]int{"first": 1, "after one that was killed": 1} {
		todo, err := l.Resume(t.Context(), "a")
		if r := get(t, l, "a"); err != nil || !todo || r.Generation-r.First != generation || r.Paused || !r.Resuming {
			t.Errorf("%s: todo %v, %v, run %+v", name, todo, err, r)
		}
	}
	if old, fresh := standing(t, l, "a", 0), standing(t, l, "a", 1); old != runs.DropSuperseded || fresh != "" {
		t.Errorf("resumed: the old task %q, the new one %q", old, fresh)
	}
	// Paused anew before that is through: what it says no longer counts.
	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if todo, err := l.Resume(t.Context(), "a"); err != nil || !todo || get(t, l, "a").Generation != generation(t, l, "a", 2) {
		t.Errorf("todo %v, %v, generation %d; want 2", todo, err, get(t, l, "a").Generation)
	}
	if err := l.Resumed(t.Context(), "a", generation(t, l, "a", 1)); err != nil || !get(t, l, "a").Resuming {
		t.Errorf("the older resume ended the younger one: %v", err)
	}
	if err := l.Resumed(t.Context(), "a", generation(t, l, "a", 2)); err != nil || get(t, l, "a").Resuming {
		t.Errorf("it is still being resumed: %v", err)
	}
	if todo, err := l.Resume(t.Context(), "a"); err != nil || todo {
		t.Errorf("a run that is not paused: todo %v, %v", todo, err)
	}
	wantCounts(t, l, "a", map[string]int64{"done": 1})

	if err := l.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	cancel(t, l, "a")
	if r := wantCounts(t, l, "a", map[string]int64{"done": 1, "cancelled": 2}); !r.Ended() || r.Paused {
		t.Errorf("cancelled while paused: %+v", r)
	}
	if _, err := l.Resume(t.Context(), "a"); !errors.Is(err, runs.ErrEnded) {
		t.Errorf("resume after the end: %v", err)
	}
	if err := l.Pause(t.Context(), "a"); !errors.Is(err, runs.ErrEnded) {
		t.Errorf("pause after the end: %v", err)
	}
}
