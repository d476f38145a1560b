package dispatch

import (
	"cmp"
	"time"
)

// Window bounds outstanding work to the places of the workers and the tasks that they
// started within the last second, and to less if Redis is slow. The zero Window is ready.
type Window struct {
	perSecond float64 // starts per second
	released  int     // since the last observation
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
	// firstLimit and leastLimit bound the window until it is known how many tasks Redis
	// can take: each begins with a script, and all of them must have started before their
	// releases lapse.
	firstLimit, leastLimit = 64, 4
	// slowRound is how long a round takes with a slow Redis: the queue is read, rows are released,
	// and tasks enqueued, one after the other.
	slowRound = 500 * time.Millisecond
)

// Released adds rows that were enqueued.
func (w *Window) Released(rows int) { w.released += rows }

// Observe takes the length of asynq's queue into account: tasks that were released and are
// not pending have started.
func (w *Window) Observe(now time.Time, pending int) {
	passed := now.Sub(w.at).Seconds()
	if !w.at.IsZero() && passed > 0 {
		started := max(w.pending+w.released-pending, 0)
		share := min(passed/windowMemory.Seconds(), 1)
		w.perSecond += share * (float64(started)/passed - w.perSecond)
	}
	w.at, w.pending, w.released = now, pending, 0
}

// Took takes into account how long the last round took, and how many tasks are pending or
// in progress; it is called before Observe. After a quick round the limit grows by the tasks
// that the round released, if it is used, and so doubles at first; after a slow one it
// halves: of hundreds of tasks a slow Redis would have none begin in time.
func (w *Window) Took(round time.Duration, outstanding int) {
	limit, used := cmp.Or(w.limit, firstLimit), max(outstanding, w.released)
	switch {
	case round >= slowRound:
		limit = max(min(limit, used)/2, leastLimit)
	case used == 0:
		limit = firstLimit
	case 2*used >= limit:
		limit = min(limit+w.released, longestWindow)
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
