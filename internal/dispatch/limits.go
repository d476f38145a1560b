package dispatch

import (
	"cmp"
	"math"
	"time"
)

// Window bounds outstanding work to the places of the workers and the tasks that they
// started within the last second, and to less if Redis is slow. The zero Window is ready.
type Window struct {
	perSecond float64 // starts per second
	enqueued  int     // since the last observation
	pending   int     // at the last observation
	at        time.Time
	limit     int // for a slow Redis; 0: firstLimit
}

const (
	// windowMemory is the time over which starts per second are averaged: short, so that
	// the window follows workers that come and go.
	windowMemory = time.Second
	// longestWindow bounds the queue: all of it must begin within the 10 s after which a
	// release lapses, also if the workers become slower.
	longestWindow = 5000
	// firstLimit bounds the window until it is known how many tasks Redis can take: each begins
	// with a script, and all of them must have started before their releases lapse. leastLimit is
	// the least that a slow Redis has.
	firstLimit = 64
	leastLimit = 4
	// slowRound is how long a round takes with a slow Redis: the queue is read, rows are released,
	// and tasks enqueued, one after the other.
	slowRound = 500 * time.Millisecond
)

// Enqueued adds tasks that were enqueued.
func (w *Window) Enqueued(tasks int) { w.enqueued += tasks }

// Observe takes the length of asynq's queue into account: tasks that were enqueued and are
// not pending have started.
func (w *Window) Observe(now time.Time, pending int) {
	passed := now.Sub(w.at).Seconds()
	if !w.at.IsZero() && passed > 0 {
		started := max(w.pending+w.enqueued-pending, 0)
		share := min(passed/windowMemory.Seconds(), 1)
		w.perSecond += share * (float64(started)/passed - w.perSecond)
	}
	w.at = now
	w.pending = pending
	w.enqueued = 0
}

// Took takes into account how long the last round took, and how many tasks are pending or
// in progress; it is called before Observe. After a quick round the limit grows by the tasks
// that the round enqueued, if it is used, and so doubles at first; after a slow one it
// halves: of hundreds of tasks a slow Redis would have none begin in time.
func (w *Window) Took(round time.Duration, outstanding int) {
	limit := cmp.Or(w.limit, firstLimit)
	used := max(outstanding, w.enqueued)
	switch {
	case round >= slowRound:
		limit = max(min(limit, used)/2, leastLimit)
	case used == 0:
		limit = firstLimit
	case 2*used >= limit:
		limit = min(limit+w.enqueued, longestWindow)
	}
	w.limit = limit
}

// Free returns how many tasks may be enqueued, given the workers' places, and the tasks
// that are pending and in progress. While none is pending it is one at least: tasks of a
// worker that was killed count as in progress for up to two minutes, and tasks that start
// in spite of that widen the window.
func (w *Window) Free(places, pending, active int) int {
	most := min(places+int(w.perSecond), longestWindow, cmp.Or(w.limit, firstLimit))
	free := max(0, most-pending-active)
	if pending == 0 {
		return max(free, 1)
	}
	return free
}

// Permits is the share of the tenant's pace that may be released: the permits of one second,
// or those in its bucket while no work is outstanding. The zero Permits is empty.
type Permits struct {
	left  float64
	burst float64 // of left, those of the bucket
	at    time.Time
}

// Refill adds the permits since the last call at a rate in requests per second.
func (p *Permits) Refill(now time.Time, perSecond float64) {
	if math.IsInf(perSecond, 1) {
		p.left = math.Inf(1)
		p.at = now
		return
	}
	if p.at.IsZero() || math.IsInf(p.left, 1) {
		p.left = max(perSecond, p.burst)
	} else {
		p.left += now.Sub(p.at).Seconds() * perSecond
	}
	// A rate below one a second still releases a row at a time.
	p.left = min(p.left, max(perSecond, 1, p.burst))
	p.at = now
}

// Burst sets how many permits of the tenant's bucket no outstanding work will take: a small
// run begins whole, and is not stretched over seconds.
func (p *Permits) Burst(permits float64) {
	p.burst = max(permits, 0)
	p.left = max(p.left, p.burst)
}

// Tasks returns how many of n tasks the permits allow. While one permit is left, so is one task,
// which may cost more.
func (p *Permits) Tasks(n int, cost float64) int {
	if cost <= 0 || math.IsInf(p.left, 1) {
		return n
	}
	if p.left < 1 && p.left < cost {
		return 0
	}
	return min(n, max(1, int(p.left/cost)))
}

// Spend takes the permits of enqueued tasks. They may be overdrawn by one task.
func (p *Permits) Spend(tasks int, cost float64) {
	p.left -= float64(tasks) * cost
	p.burst = max(p.burst-float64(tasks)*cost, 0)
}
