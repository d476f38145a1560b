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

// TestClockJumpDelaysNoRow: Redis' clock is five hours ahead for a moment, in which executions end
// and releases and executions lapse or are given up. No row waits longer than it was to wait.
func TestClockJumpDelaysNoRow(t *testing.T) {
	const jump = 5 * time.Hour
	// A row was released before the jump, and has begun unless it is said to be released only.
	type before struct {
		*worker

		seg     ledger.Segment
		now     time.Time
		release ledger.Release
		begun   execution
	}
	inspect := func(b before) { b.worker.release(b.seg, ledger.Quota{}) }
	tests := map[string]struct {
		releasedOnly bool
		during       func(before)
		after        time.Duration // the longest wait from then on
	}{
		"an execution ends": {false, func(b before) {
			wait := ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute}
			b.end(b.seg, b.begun, ledger.RowEnd{Row: 0, Ending: wait, Now: b.now.Add(time.Second)})
		}, time.Minute + time.Second},
		"an execution is given back": {false, func(b before) {
			b.end(b.seg, b.begun, ledger.RowEnd{Row: 0, Ending: ledger.GiveBack{Note: "stopping"}, Now: b.now})
		}, 0},
		"an execution lapses": {false, inspect, 0},
		"a worker is dead": {false, func(b before) {
			if _, _, err := b.Reclaim(b.t.Context(), b.seg, b.session); err != nil {
				b.t.Fatal(err)
			}
		}, 0},
		"a release lapses": {true, inspect, 0},
		"a release is given back": {true, func(b before) {
			if _, err := b.GiveBack(b.t.Context(), b.seg, b.release.Token, 0); err != nil {
				b.t.Fatal(err)
			}
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			clock := redistest.Mini(t)
			now := time.Now()
			clock.SetTime(now)
			seg := segment(w.submit("a", 1), 0)
			b := before{worker: w, seg: seg, now: now, release: w.release(seg, ledger.Quota{First: 1})}
			if !tt.releasedOnly {
				b.begun = w.begin(seg, b.release.Token, 0)
			}
			clock.SetTime(now.Add(jump))
			tt.during(b)
			clock.SetTime(now.Add(tt.after + time.Second))
			if r := w.release(seg, all); len(r.Rows) != 1 {
				t.Errorf("the row is not due, but at %s, which is in %s", r.Due, r.Due.Sub(r.Now))
			}
		})
	}
}
