package runs_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

func TestBegin(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	keep(t, l, "a", 1, "record", "kept")
	const first, second = "at:once \x00\xff", "again"
	for _, mark := range []string{first, second} {
		if got := begin(t, l, "a", 1, mark); got != "" {
			t.Errorf("%q stands against it", got)
		}
		if diff := cmp.Diff(map[string]string{"post": mark, "record": "kept"}, marks(t, l, "a", 1)); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
	}
	begin(t, l, "a", 1, "")
	if diff := cmp.Diff(map[string]string{"record": "kept"}, marks(t, l, "a", 1)); diff != "" {
		t.Errorf("not begun after all, marks (-want +got):\n%s", diff)
	}
	begin(t, l, "a", 1, first)
	settle(t, l, "a", "done", "", 1)
	if got := begin(t, l, "a", 1, first); got != runs.AlreadySettled {
		t.Errorf("%q stands against a settled row", got)
	}
	if got := marks(t, l, "a", 1); len(got) > 0 {
		t.Errorf("a settled row has %v", got)
	}
	if n := rdb.BitCount(t.Context(), "orgops:v1:{run:a}:begun", nil).Val(); n != 0 {
		t.Errorf("%d rows have begun, want none", n)
	}
	for _, tt := range []struct {
		item int64
		name string
	}{{0, "two words"}, {3, "intent"}, {-1, "intent"}, {runs.MaxRows, "intent"}} {
		if _, err := l.Begin(t.Context(), "a", tt.item, 0, tt.name, []byte("x"), nil); err == nil {
			t.Errorf("row %d, %q: begun", tt.item, tt.name)
		}
	}
}

// TestBeginIsRefused: whatever stands against it, nothing is written then; but
// who has begun can write anew, and say that it was nothing.
func TestBeginIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		stop func(l *runs.Ledger) error
		want string
	}{
		"paused":     {func(l *runs.Ledger) error { return l.Pause(t.Context(), "a") }, runs.DropPaused},
		"superseded": {func(l *runs.Ledger) error { return errors.Join(l.Pause(t.Context(), "a"), resume(t, l)) }, runs.DropSuperseded},
		"cancelled":  {func(l *runs.Ledger) error { _, err := l.Cancel(t.Context(), "a"); return err }, runs.DropCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", 3)
			begin(t, l, "a", 0, "before")
			begin(t, l, "a", 2, "before")
			if err := tt.stop(l); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == runs.DropCancelled {
				want = runs.AlreadySettled
			}
			if got := begin(t, l, "a", 1, "late"); got != want || len(marks(t, l, "a", 1)) > 0 {
				t.Errorf("a row that had not begun: %q, marks %v; want %q and none", got, marks(t, l, "a", 1), want)
			}
			if tt.want == runs.DropSuperseded { // the mark is another task's by now
				if got := begin(t, l, "a", 0, ""); got != tt.want || marks(t, l, "a", 0)["post"] != "before" {
					t.Errorf("one that had: %q, marks %v; want %q and the mark as it was", got, marks(t, l, "a", 0), tt.want)
				}
				return
			}
			if got := begin(t, l, "a", 0, "anew"); got != tt.want || marks(t, l, "a", 0)["post"] != "anew" {
				t.Errorf("one that had: %q, marks %v; want %q and the new one", got, marks(t, l, "a", 0), tt.want)
			}
			if got := begin(t, l, "a", 0, ""); got != tt.want || len(marks(t, l, "a", 0)) > 0 {
				t.Errorf("not begun after all: %q, marks %v", got, marks(t, l, "a", 0))
			}
			if got := begin(t, l, "a", 0, "and again"); got != tt.want || len(marks(t, l, "a", 0)) > 0 {
				t.Errorf("begun again: %q, marks %v", got, marks(t, l, "a", 0))
			}
			if got := standing(t, l, "a", 0); got != tt.want {
				t.Errorf("a task: %q, want %q", got, tt.want)
			}
		})
	}
}

func resume(t *testing.T, l *runs.Ledger) error {
	t.Helper()
	_, err := l.Resume(t.Context(), "a")
	return err
}

// TestCancelLeavesWhatHasBegun: until it is known what became of it.
func TestCancelLeavesWhatHasBegun(t *testing.T) {
	for _, total := range []int64{8, 9, 17, 1000} {
		t.Run(fmt.Sprint(total), func(t *testing.T) {
			l, rdb := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", total)
			settle(t, l, "a", "done", "", 3)
			for _, item := range []int64{0, 5, total - 1} {
				begin(t, l, "a", item, fmt.Sprint("mark of ", item))
				keep(t, l, "a", item, "record", "x")
			}
			if got := cancel(t, l, "a"); got != total-4 {
				t.Errorf("cancelled %d rows, want %d", got, total-4)
			}
			r := wantCounts(t, l, "a", map[string]int64{"done": 1, "cancelled": total - 4})
			if r.Ended() || r.CancelledAt.IsZero() || !r.Sealed || r.Total != total {
				t.Errorf("run is %+v, want it cancelled and open", r)
			}
			if open, err := l.Unsettled(t.Context()); err != nil || len(open) != 1 {
				t.Errorf("unsettled %v, %v", open, err)
			}
			if got := marks(t, l, "a", 5); got["post"] != "mark of 5" {
				t.Errorf("marks %v", got)
			}
			if n := rdb.Exists(t.Context(), "orgops:v1:{run:a}:kept", "orgops:v1:{run:a}:scratch").Val(); n != 0 {
				t.Error("marks of rows that are settled are left")
			}
			if err := l.Pause(t.Context(), "a"); !errors.Is(err, runs.ErrEnded) {
				t.Errorf("pause: %v", err)
			}

			settle(t, l, "a", "done", "", 0)
			begin(t, l, "a", 5, "") // it was never sent; its task is not back yet
			if got := cancel(t, l, "a"); got != 1 {
				t.Errorf("cancelled again: %d rows, want that one", got)
			}
			if again := get(t, l, "a"); !again.CancelledAt.Equal(r.CancelledAt) || again.Ended() {
				t.Errorf("cancelled again: %+v", again)
			}
			settle(t, l, "a", "refused", "taken back", total-1)
			r = wantCounts(t, l, "a", map[string]int64{"done": 2, "refused": 1, "cancelled": total - 3})
			if !r.Ended() || r.Settled != total {
				t.Errorf("run is %+v, want it ended", r)
			}
			if open, err := l.Unsettled(t.Context()); err != nil || len(open) != 0 {
				t.Errorf("unsettled %v, %v", open, err)
			}
			for item := range total {
				if got := marks(t, l, "a", item); len(got) > 0 {
					t.Fatalf("row %d has %v", item, got)
				}
			}
		})
	}
}

// TestCancelWhileRowsBegin: a row has begun, or is cancelled, never both.
func TestCancelWhileRowsBegin(t *testing.T) {
	const total = 300
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", total)
	var both sync.WaitGroup
	var cancelled, open int64
	both.Go(func() {
		var err error
		if cancelled, err = l.Cancel(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() {
		for item := range int64(total) {
			against, err := l.Begin(t.Context(), "a", item, 0, "post", []byte("x"), nil)
			if err != nil {
				t.Error(err)
			}
			if against == "" {
				open++
			}
		}
	})
	both.Wait()
	if r := get(t, l, "a"); cancelled+open != total || r.Settled != cancelled {
		t.Errorf("%d cancelled, %d begun, run %+v; want each row one of the two", cancelled, open, r)
	}
}

// TestBeginByTwo: who has not read the mark that is there leaves it, and is told.
func TestBeginByTwo(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	for _, step := range []struct{ value, former, against, mark string }{
		{"mine", "", "", "mine"},
		{"mine", "", "", "mine"}, // sent twice
		{"another's", "", runs.BegunMeanwhile, "mine"},
		{"", "", runs.BegunMeanwhile, "mine"},
		{"", "older", runs.BegunMeanwhile, "mine"},
		{"mine, later", "mine", "", "mine, later"},
		{"", "mine, later", "", ""},
		{"", "mine, later", "", ""}, // sent twice
		{"anew", "mine, later", "", "anew"},
	} {
		against, err := l.Begin(t.Context(), "a", 1, 0, "post", []byte(step.value), []byte(step.former))
		if err != nil {
			t.Fatal(err)
		}
		if got := marks(t, l, "a", 1)["post"]; against != step.against || got != step.mark {
			t.Errorf("%q after %q: %q stands against it, the mark is %q; want %q and %q", step.value, step.former, against, got, step.against, step.mark)
		}
	}
}

// TestAmend: a mark is replaced only where it is there as it was read.
func TestAmend(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 3)
	if _, err := l.Begin(t.Context(), "a", 1, 0, "post", []byte("mine"), nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ value, former, against, mark string }{
		{"mine, later", "older", runs.BegunMeanwhile, "mine"},
		{"mine, later", "mine", "", "mine, later"},
		{"mine, later", "mine", "", "mine, later"}, // sent twice
		{"", "mine", runs.BegunMeanwhile, "mine, later"},
		{"", "mine, later", "", ""},
		{"", "mine, later", "", ""}, // sent twice
		{"anew", "mine, later", runs.BegunMeanwhile, ""},
	} {
		against, err := l.Amend(t.Context(), "a", 1, 0, "post", []byte(step.value), []byte(step.former))
		if err != nil {
			t.Fatal(err)
		}
		if got := marks(t, l, "a", 1)["post"]; against != step.against || got != step.mark {
			t.Errorf("%q after %q: %q stands against it, the mark is %q; want %q and %q", step.value, step.former, against, got, step.against, step.mark)
		}
	}
}

// TestSettleRow: a row that another execution has begun meanwhile is left to that. A
// mark that Redis has lost is in nobody's way.
func TestSettleRow(t *testing.T) {
	for _, tt := range []struct{ name, stands, known, against string }{
		{"no mark", "", "", ""},
		{"its own mark", "mine", "mine", ""},
		{"another's mark", "another's", "", runs.BegunMeanwhile},
		{"another's instead of its own", "another's", "mine", runs.BegunMeanwhile},
		{"its own is lost", "", "mine", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLedger(t)
			create(t, l, "a")
			seal(t, l, "a", 2)
			if tt.stands != "" {
				if _, err := l.Begin(t.Context(), "a", 1, 0, "post", []byte(tt.stands), nil); err != nil {
					t.Fatal(err)
				}
			}
			against, err := l.SettleRow(t.Context(), "a", kind, 0, 1, "post", []byte(tt.known), "refused", "no", nil)
			if err != nil || against != tt.against {
				t.Fatalf("%q stands against it (%v), want %q", against, err, tt.against)
			}
			if settled := get(t, l, "a").Settled == 1; settled != (tt.against == "") {
				t.Errorf("settled: %t", settled)
			}
		})
	}
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 1)
	for range 2 { // a row that is settled stays so, whatever is known of it
		if against, err := l.SettleRow(t.Context(), "a", kind, 0, 0, "post", []byte("x"), "refused", "no", nil); err != nil || against != "" {
			t.Fatalf("%q stands against it (%v)", against, err)
		}
	}
}
