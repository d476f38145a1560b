package dispatch_test

import (
	"math"
	"testing"
	"time"

	"orgops/internal/dispatch"
)

func TestWindow(t *testing.T) {
	var w dispatch.Window
	now := time.Unix(1000, 0)
	w.Observe(now, 0)
	if n := w.Free(16, 0, 0); n != 16 {
		t.Errorf("%d free at first, want the places", n)
	}
	w.Enqueued(16)
	if n := w.Free(16, 16, 0); n != 0 {
		t.Errorf("%d free while as many tasks are pending", n)
	}
	// The workers start all of it in 100 ms: 160 a second, a tenth of which counts.
	w.Observe(now.Add(100*time.Millisecond), 0)
	if n := w.Free(16, 0, 0); n != 32 {
		t.Errorf("%d free, want 32", n)
	}
	// Nothing starts for a second: back to the places.
	w.Observe(now.Add(1100*time.Millisecond), 0)
	if n := w.Free(16, 1, 16); n != 0 {
		t.Errorf("%d free while all places work, and a task is pending", n)
	}
	w.Enqueued(1_000_000)
	for range 10 {
		w.Took(time.Millisecond, 0)
	}
	w.Observe(now.Add(2100*time.Millisecond), 0)
	if n := w.Free(16, 0, 0); n != 5000 {
		t.Errorf("%d free, want the bound", n)
	}
}

// TestWindowOfASlowRedis starts with less than all places, halves the window while Redis is
// slow, and opens it again.
func TestWindowOfASlowRedis(t *testing.T) {
	const places = 1000
	var w dispatch.Window
	now := time.Unix(1000, 0)
	outstanding := 0
	// round releases tasks after a round that took that long, of which none starts, and
	// returns the tasks outstanding.
	round := func(took time.Duration) int {
		now = now.Add(20 * time.Millisecond)
		w.Took(took, outstanding)
		w.Observe(now, outstanding)
		n := w.Free(places, outstanding, 0)
		w.Enqueued(n)
		outstanding += n
		return outstanding
	}
	for _, want := range []int{64, 128, 192} {
		if n := round(time.Millisecond); n != want {
			t.Errorf("%d tasks outstanding, want %d", n, want)
		}
	}
	for _, left := range []int{192, 100, 40, 10, 6, 3} {
		outstanding = left
		if n := round(time.Second); n > max(left, 4) {
			t.Errorf("%d tasks outstanding while Redis is slow, of %d", n, left)
		}
	}
	for range 60 {
		outstanding -= outstanding / 4 // so many end
		round(time.Millisecond)
	}
	if outstanding < places {
		t.Errorf("%d tasks outstanding once Redis is quick again, want at least %d", outstanding, places)
	}
	outstanding = 0
	w.Observe(now, 0)
	if n := round(time.Millisecond); n != 64 {
		t.Errorf("%d tasks outstanding after a time without any, want 64", n)
	}
}

// TestWindowOpensBehindTasksOfAKilledWorker: tasks of a killed worker count as active in all
// places, and each task that is enqueued starts at once and ends within 100 ms. The window opens
// within seconds.
func TestWindowOpensBehindTasksOfAKilledWorker(t *testing.T) {
	const places, every = 16, 20 * time.Millisecond
	var w dispatch.Window
	now := time.Unix(1000, 0)
	var running [5]int // by rounds ago
	for range 150 {
		w.Observe(now, 0)
		active := places
		for _, n := range running {
			active += n
		}
		n := min(w.Free(places, 0, active), places-(active-places))
		w.Enqueued(n)
		copy(running[1:], running[:])
		running[0] = n
		now = now.Add(every)
	}
	ended := 0
	for _, n := range running {
		ended += n
	}
	if ended < places*3/4 {
		t.Errorf("%d tasks in 100 ms after 3 s, want most of the %d places used", ended, places)
	}
}

// TestBurst: the permits of the bucket are released at once, and once.
func TestBurst(t *testing.T) {
	now := time.Unix(1000, 0)
	var p dispatch.Permits
	p.Burst(50)
	p.Refill(now, 16)
	if n := p.Tasks(100, 1); n != 50 {
		t.Errorf("%d tasks, want the burst of 50", n)
	}
	p.Spend(20, 1)
	p.Refill(now.Add(time.Second), 16)
	if n := p.Tasks(100, 1); n != 30 {
		t.Errorf("%d tasks, want the 30 that are left of the burst", n)
	}
	p.Spend(30, 1)
	p.Refill(now.Add(2*time.Second), 16)
	if n := p.Tasks(100, 1); n != 16 {
		t.Errorf("%d tasks after the burst, want one second of 16", n)
	}
	p.Spend(16, 1)
	p.Burst(-34) // outstanding work takes more than the bucket holds
	if n := p.Tasks(100, 1); n != 0 {
		t.Errorf("%d tasks after all were spent", n)
	}
	p.Refill(now.Add(3*time.Second), math.Inf(1))
	p.Burst(50)
	if n := p.Tasks(1000, 1); n != 1000 {
		t.Errorf("%d tasks without a limit", n)
	}
}

func TestPermits(t *testing.T) {
	now := time.Unix(1000, 0)
	var p dispatch.Permits
	if n := p.Tasks(5, 1); n != 0 {
		t.Errorf("%d tasks without permits", n)
	}
	p.Refill(now, 16)
	if n := p.Tasks(100, 2); n != 8 {
		t.Errorf("%d tasks of two requests, want one second of 16", n)
	}
	p.Spend(8, 2)
	if n := p.Tasks(100, 2); n != 0 {
		t.Errorf("%d tasks after all were spent", n)
	}
	if n := p.Tasks(100, 0); n != 100 {
		t.Errorf("%d tasks without requests", n)
	}
	p.Refill(now.Add(500*time.Millisecond), 16)
	if n := p.Tasks(100, 1); n != 8 {
		t.Errorf("%d tasks after half a second, want 8", n)
	}
	p.Refill(now.Add(time.Hour), 16)
	if n := p.Tasks(100, 1); n != 16 {
		t.Errorf("%d tasks after an hour, want 16", n)
	}
	p.Refill(now.Add(2*time.Hour), 1.0/60)
	if n := p.Tasks(100, 3); n != 1 {
		t.Errorf("%d tasks at one request a minute, want 1", n)
	}
	p.Spend(1, 3)
	p.Refill(now.Add(2*time.Hour+time.Minute), 1.0/60)
	if n := p.Tasks(100, 3); n != 0 {
		t.Errorf("%d tasks a minute later, want 0", n)
	}
	p.Refill(now, math.Inf(1))
	p.Spend(1000, 1)
	if n := p.Tasks(1000, 1); n != 1000 {
		t.Errorf("%d tasks without a limit", n)
	}
}
