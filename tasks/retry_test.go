package tasks_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/tasks"
)

// spreadOf holds that f gives values of d by a tenth either way, and not always
// the same one.
func wantSpread(t *testing.T, d time.Duration, f func() time.Duration) {
	t.Helper()
	seen := map[time.Duration]bool{}
	for range 200 {
		got := f()
		if got < d*9/10-1 || got > d*11/10+1 {
			t.Fatalf("got %v, want %v by a tenth", got, d)
		}
		seen[got] = true
	}
	if len(seen) < 100 {
		t.Errorf("200 times gave %d values: not spread", len(seen))
	}
}

func TestNextLook(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, test := range []struct{ age, want time.Duration }{
		{0, 15 * s},
		{15 * s, 15 * s},
		{30 * s, 30 * s},
		{m, m},
		{2 * m, 2 * m},
		{4 * m, 4 * m},
		{8 * m, 8 * m},
		{16 * m, 16 * m},
		{20 * m, 12 * m},
		{32 * m, h},
		{3 * h, h},
		{1000 * h, h},
		{-m, 15 * s}, // a clock that is behind
	} {
		t.Run(test.age.String(), func(t *testing.T) {
			wantSpread(t, test.want, func() time.Duration { return tasks.NextLook(test.age, 0) })
		})
	}
	t.Run("never below a second", func(t *testing.T) {
		for age := range 40 * m / s {
			if got := tasks.NextLook(age*s-time.Millisecond, 0); got < s {
				t.Fatalf("at the age of %v: %v", age*s, got)
			}
		}
	})
}

func TestNextLookOutlivesNegativeAnswers(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, test := range []struct {
		age, ttl, least, most time.Duration
	}{
		{0, 5 * m, 5*m + s, 5*m + s},
		{0, h, h + s, h + s},
		{0, 24 * h, h + s, h + s}, // the stranger's to choose
		{0, time.Duration(math.MaxInt64), h + s, h + s},
		{0, 16 * s, 17 * s, 17 * s},
		{3 * h, 5 * m, 54 * m, 66 * m},
		{0, -m, 13 * s, 17 * s},
	} {
		for range 100 {
			if got := tasks.NextLook(test.age, test.ttl); got < test.least || got > test.most {
				t.Fatalf("age %v, ttl %v: got %v, want %v to %v", test.age, test.ttl, got, test.least, test.most)
			}
		}
	}
}

func TestBackoff(t *testing.T) {
	want := time.Second
	for attempt := range 40 {
		wantSpread(t, min(want, tasks.LongestBackoff), func() time.Duration { return tasks.Backoff(attempt) })
		want *= 2
		if want > time.Hour {
			want = time.Hour
		}
	}
	wantSpread(t, time.Second, func() time.Duration { return tasks.Backoff(-1) })
	wantSpread(t, tasks.LongestBackoff, func() time.Duration { return tasks.Backoff(math.MaxInt) })

	var outage time.Duration
	for attempt := range tasks.MaxAttempts - 1 {
		outage += tasks.Backoff(attempt)
	}
	if outage < 165*time.Minute || outage > 205*time.Minute { // each wait is spread by a tenth
		t.Errorf("%d attempts outlast an outage of %v, want about three hours", tasks.MaxAttempts, outage)
	}
}

func TestRetryDelayAndIsFailure(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		delay   time.Duration
		backoff bool
		failure bool
	}{
		{"not yet", tasks.VerdictError(tasks.Judgement{Outcome: tasks.NotYet, After: 40 * time.Second}), 40 * time.Second, false, false},
		{"stopping goes back at once", tasks.VerdictError(tasks.Judgement{Outcome: tasks.Stopping}), 0, false, false},
		{"blocked", tasks.VerdictError(tasks.Judgement{Outcome: tasks.Blocked, After: time.Minute}), time.Minute, false, false},
		{"transient that says when", tasks.VerdictError(tasks.Judgement{Outcome: tasks.Transient, After: time.Minute, Counts: true}), time.Minute, false, true},
		{"transient", tasks.VerdictError(tasks.Judgement{Outcome: tasks.Transient, Counts: true}), 0, true, true},
		{"lease lost", asynq.ErrLeaseExpired, 0, true, true},
		{"of somebody else", errors.New("x"), 0, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.backoff {
				wantSpread(t, 8*time.Second, func() time.Duration { return tasks.RetryDelay(3, test.err, nil) })
			} else if got := tasks.RetryDelay(3, test.err, nil); got != test.delay {
				t.Errorf("delay %v, want %v", got, test.delay)
			}
			if got := tasks.IsFailure(test.err); got != test.failure {
				t.Errorf("failure %t, want %t", got, test.failure)
			}
		})
	}
}

// TestMaxRetry: asynq's Lua scripts and its messages hold 32 bits.
func TestMaxRetry(t *testing.T) {
	if tasks.MaxRetry >= math.MaxInt32 || tasks.MaxRetry < 1<<20 {
		t.Errorf("max retry is %d: want it out of reach and below 2^31", tasks.MaxRetry)
	}
}

// TestTheLedgerSaysWhenALookIsDue: it and the queue, which counts from a little later
// and in whole seconds, come to the same second, and not before the time is over.
func TestTheLedgerSaysWhenALookIsDue(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, fraction := range []time.Duration{0, 1, 500 * time.Millisecond, 995 * time.Millisecond, time.Second - 1} {
		for _, after := range []time.Duration{time.Second, 15 * time.Second, 13700 * time.Millisecond} {
			now := start.Add(fraction)
			next, due := tasks.InWholeSeconds(now, after)
			if next.Before(now.Add(after)) || next.After(now.Add(after+time.Second)) {
				t.Errorf("%v after %v: told is %v", after, now, next)
			}
			for _, later := range []time.Duration{0, 7 * time.Millisecond, 700 * time.Millisecond} {
				if queued := now.Add(later).Add(due).Unix(); queued != next.Unix() {
					t.Errorf("%v after %v: the queue, asked %v later, has it %d s off", after, now, later, queued-next.Unix())
				}
			}
		}
	}
}
