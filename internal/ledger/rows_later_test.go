package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// redisNow returns Redis' time.
func (w *worker) redisNow() time.Time {
	w.t.Helper()
	now, err := w.Now(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return now
}

// submitDue submits n rows. A row for which later returns a duration is due that much after at.
func (w *worker) submitDue(n int, at time.Time, later func(i int) time.Duration) ledger.Run {
	w.t.Helper()
	dues := map[ledger.Row]time.Time{}
	for i := range n {
		if d := later(i); d != 0 {
			dues[ledger.Row(i)] = at.Add(d)
		}
	}
	run := w.create("a")
	sum, err := w.StageGrouped(w.t.Context(), run, 0, content(0, n), nil, nil, dues)
	if err == nil {
		run, err = w.Commit(w.t.Context(), run, []ledger.Sum{sum})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// every returns a function that is d for numbers divisible by n, else 0.
func every(n int, d time.Duration) func(int) time.Duration {
	return func(i int) time.Duration {
		if i%n == 0 {
			return d
		}
		return 0
	}
}

func TestRowsDueLater(t *testing.T) {
	for name, tt := range map[string]struct {
		later    func(i int) time.Duration
		at, hour string // released at once, and an hour later
	}{
		"all":         {every(1, time.Hour), "[]", "[0 1 2 3 4 5]"},
		"none":        {every(1, 0), "[0 1 2 3 4 5]", "[]"},
		"some":        {every(2, time.Hour), "[1 3 5]", "[0 2 4]"},
		"the first":   {every(9, time.Hour), "[1 2 3 4 5]", "[0]"},
		"the last":    {func(i int) time.Duration { return time.Duration(i/5) * time.Hour }, "[0 1 2 3 4]", "[5]"},
		"in the past": {every(2, -time.Hour), "[0 2 4 1 3 5]", "[]"},
		"one after another": {func(i int) time.Duration {
			return time.Hour - time.Duration(i)*time.Minute
		}, "[]", "[5 4 3 2 1 0]"},
		"beyond MaxDue": {every(2, ledger.MaxDue+2*time.Hour), "[0 2 4 1 3 5]", "[]"},
		"up to MaxDue":  {every(2, ledger.MaxDue), "[1 3 5]", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			now := w.redisNow()
			run := w.submitDue(6, now, tt.later)
			seg := segment(run, 0)
			var later int
			earliest := ledger.MaxDue
			for i := range 6 {
				later += flag(tt.later(i) > 0 && tt.later(i) <= ledger.MaxDue)
				earliest = min(earliest, tt.later(i))
			}
			s := w.segments("a")[0]
			if s.Open.Later != later || s.Open.Queued != 6-later {
				t.Errorf("open rows %+v, want %d later", s.Open, later)
			}
			if tt.at == "[]" && !s.Due.Equal(now.Add(earliest)) {
				t.Errorf("the segment is due at %v, want %v after %v", s.Due, earliest, now)
			}
			first := numbers(w.release(seg, all))
			if fmt.Sprint(first) != tt.at {
				t.Errorf("released %v, want %s", first, tt.at)
			}
			for _, row := range w.rows(seg) {
				want := ledger.PhaseWaiting
				if slices.Contains(first, row.Row) {
					want = ledger.PhaseReleased
				}
				if row.Phase != want || want == ledger.PhaseWaiting && !row.Due.Equal(now.Add(tt.later(int(row.Row)))) {
					t.Errorf("row %d is %+v", row.Row, row)
				}
			}
			w.pass(seg, time.Hour)
			second := slices.DeleteFunc(numbers(w.release(seg, all)),
				func(r ledger.Row) bool { return slices.Contains(first, r) })
			if fmt.Sprint(second) != tt.hour {
				t.Errorf("released %v an hour later, want %s", second, tt.hour)
			}
		})
	}
}
