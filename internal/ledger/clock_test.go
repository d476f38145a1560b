package ledger_test

import (
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestTimesAreNeverInTheFuture sets Redis' clock a year ahead for a moment.
func TestTimesAreNeverInTheFuture(t *testing.T) {
	w := newWorker(t)
	clock := redistest.Mini(t)
	now := time.Now()
	seg := segment(w.submit("a", 1), 0)
	clock.SetTime(now.Add(365 * 24 * time.Hour))
	e, row := w.take(seg)
	w.intend(seg, e, "PATCH", row)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute}})
	clock.SetTime(now.Add(2 * time.Second))
	state := w.rows(seg)[row]
	again := w.begin(seg, w.release(seg, all).Token, row)
	for name, at := range map[string]time.Time{
		"first begin, begun": again.Rows[0].Checkpoint.FirstBegun, "intent, begun": again.Rows[0].Intent.At,
		"first begin, read": state.Checkpoint.FirstBegun, "intent, read": state.Intent.At,
	} {
		if at.IsZero() || at.After(again.Now) {
			t.Errorf("%s: %v, want at most %v", name, at, again.Now)
		}
	}
}

func TestLongestWaitAndAClockThatGoesBack(t *testing.T) {
	w := newWorker(t)
	seg := segment(w.submit("a", 1), 0)
	e, row := w.take(seg)
	w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.Waiting{Stage: ledger.StageCheck, After: ledger.MaxWait}})
	w.pass(seg, -time.Second)
	if r := w.release(seg, all); len(r.Rows) > 0 || r.Due.Sub(r.Now) < ledger.MaxWait {
		t.Errorf("released %v, due %v, want a day of waiting", numbers(r), r.Due)
	}
}

// TestLapsesByAJumpCountNoAttempt checks that an execution which lapses by a jump of Redis'
// clock counts no attempt, and that one which takes too long does.
func TestLapsesByAJumpCountNoAttempt(t *testing.T) {
	tests := []struct {
		name     string
		jump     func(set func(time.Duration), inspect func())
		attempts int
	}{
		{"back", func(set func(time.Duration), _ func()) { set(-time.Hour) }, 0},
		{"ahead", func(set func(time.Duration), _ func()) { set(time.Hour) }, 0},
		{"no jump", func(set func(time.Duration), inspect func()) {
			for at := time.Duration(0); at < ledger.ExecutionLimit; at += time.Minute {
				set(at)
				inspect()
			}
			set(ledger.ExecutionLimit + time.Second)
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			clock := redistest.Mini(t)
			now := time.Now()
			clock.SetTime(now)
			seg := segment(w.submit("a", 1), 0)
			e, row := w.take(seg)
			tt.jump(func(d time.Duration) { clock.SetTime(now.Add(d)) }, func() { w.release(seg, ledger.Quota{}) })
			again := w.begin(seg, w.release(seg, all).Token, row)
			if c := again.Rows[0].Checkpoint; c.Attempts != tt.attempts || c.FirstBegun.IsZero() ||
				c.FirstBegun.After(again.Now) {
				t.Errorf("checkpoint %+v, want %d attempts", c, tt.attempts)
			}
			want(t, w.settle(seg, e, row), ledger.RowSuperseded)
		})
	}
}

// TestJumpsPutNoRowOff: Redis' clock is five hours ahead for a moment, in which executions end and
// releases and executions lapse or are given up. No row waits longer than it was to wait.
func TestJumpsPutNoRowOff(t *testing.T) {
	const jump = 5 * time.Hour
	tests := map[string]struct {
		during func(w *worker, seg ledger.Segment, now time.Time)
		after  time.Duration // the longest wait from then on
	}{
		"an execution ends": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			e, row := w.take(seg)
			clock.SetTime(now.Add(jump))
			wait := ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute}
			w.end(seg, e, ledger.RowEnd{Row: row, Ending: wait, Now: now.Add(time.Second)})
		}, time.Minute + time.Second},
		"an execution is given back": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			e, row := w.take(seg)
			clock.SetTime(now.Add(jump))
			w.end(seg, e, ledger.RowEnd{Row: row, Ending: ledger.GiveBack{Note: "stopping"}, Now: now})
		}, 0},
		"a release lapses": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			w.release(seg, ledger.Quota{First: 1})
			clock.SetTime(now.Add(jump))
			w.release(seg, ledger.Quota{})
		}, 0},
		"a release is given back": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			r := w.release(seg, ledger.Quota{First: 1})
			clock.SetTime(now.Add(jump))
			if _, err := w.GiveBack(w.t.Context(), seg, r.Token, numbers(r)...); err != nil {
				w.t.Fatal(err)
			}
		}, 0},
		"an execution lapses": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			w.take(seg)
			clock.SetTime(now.Add(jump))
			w.release(seg, ledger.Quota{})
		}, 0},
		"a worker is dead": {func(w *worker, seg ledger.Segment, now time.Time) {
			clock := redistest.Mini(w.t)
			clock.SetTime(now)
			w.take(seg)
			clock.SetTime(now.Add(jump))
			if _, _, err := w.Reclaim(w.t.Context(), seg, w.session); err != nil {
				w.t.Fatal(err)
			}
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			clock := redistest.Mini(t)
			now := time.Now()
			seg := segment(w.submit("a", 1), 0)
			tt.during(w, seg, now)
			clock.SetTime(now.Add(tt.after + time.Second))
			if r := w.release(seg, all); len(r.Rows) != 1 {
				t.Errorf("the row is not due, but at %s, which is in %s", r.Due, r.Due.Sub(r.Now))
			}
		})
	}
}
