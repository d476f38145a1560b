package dispatch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"orgops/internal/pace"
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
		p.left, p.at = math.Inf(1), now
		return
	}
	if p.at.IsZero() || math.IsInf(p.left, 1) {
		p.left = max(perSecond, p.burst)
	} else {
		p.left += now.Sub(p.at).Seconds() * perSecond
	}
	// A rate below one a second still releases a row at a time.
	p.left, p.at = min(p.left, max(perSecond, 1, p.burst)), now
}

// Burst sets how many permits of the tenant's bucket no outstanding work will take: a small
// run begins whole, and is not stretched over seconds.
func (p *Permits) Burst(permits float64) {
	p.burst = max(permits, 0)
	p.left = max(p.left, p.burst)
}

// Rows returns how many of n rows the permits allow. A row that costs more than a second
// gives is allowed when the permits are full.
func (p *Permits) Rows(n int, cost float64) int {
	if cost <= 0 || math.IsInf(p.left, 1) {
		return n
	}
	if p.left < 1 && p.left < cost {
		return 0
	}
	return min(n, max(1, int(p.left/cost)))
}

// Spend takes the permits of released rows. They may be overdrawn by one row.
func (p *Permits) Spend(rows int, cost float64) {
	p.left -= float64(rows) * cost
	p.burst = max(p.burst-float64(rows)*cost, 0)
}

const (
	// probeEvery is how often at most a row of a blocked operation is released, to find out
	// whether the operation works again: a row may need no request in the end.
	probeEvery = 30 * time.Second
	// trialEvery is the same of a row that tries after a pause. The next one tries soon, since other
	// rows wait for it, and a permit is for one of them.
	trialEvery = time.Second
)

// Gate decides which kinds may be released while the tenant is stopped or paused, or
// operations are paused or blocked. The zero Gate is ready.
type Gate struct {
	probed map[probe]time.Time // when the last row was released for it
}

// Rows returns the largest number of rows to release of a kind that needs the operations, and costs
// so many requests; -1: no limit. Rows that need no request, such as DNS checks, are always
// released. Some send one in the end, for which they need a permit as all do: while the tenant is
// stopped none changes a record, and during a pause none is sent.
func (g *Gate) Rows(now time.Time, s pace.State, operations []string, cost float64) int {
	// A scan costs requests, whose operations are not known.
	requests := cost > 0 || len(operations) > 0
	if requests && s.PausedUntil.After(s.At) {
		return 0
	}
	paused := func(p pace.Pause) bool { return slices.Contains(operations, p.Operation) && p.Until.After(s.At) }
	if slices.ContainsFunc(s.Pauses, paused) {
		return 0
	}
	if s.Stopped != nil && len(operations) > 0 {
		return 0
	}
	// One row is released for each probe. Before the next probe gets a permit none is: it would be
	// back after 30 s without a request.
	limit := -1
	for p, next := range probes(s, operations, requests) {
		limit = 1
		if now.Sub(g.probed[p]) < p.every || s.At.Before(next) {
			return 0
		}
	}
	return limit
}

// Probed records that rows of a kind were released that needs the operations, and costs so many
// requests.
func (g *Gate) Probed(now time.Time, s pace.State, operations []string, cost float64) {
	for p := range probes(s, operations, cost > 0 || len(operations) > 0) {
		if g.probed == nil {
			g.probed = map[probe]time.Time{}
		}
		g.probed[p] = now
	}
}

// probe identifies a block, or the end of a pause, of which one row finds out whether requests are
// accepted.
type probe struct {
	operation string
	every     time.Duration // at most
}

// probes returns when a request may be the next probe, for each one that concerns rows of these
// operations.
func probes(s pace.State, operations []string, requests bool) map[probe]time.Time {
	all := map[probe]time.Time{}
	for _, b := range s.Blocks {
		if len(operations) > 0 && (b.Operation == pace.All || slices.Contains(operations, b.Operation)) {
			all[probe{b.Operation, probeEvery}] = b.NextProbe
		}
	}
	for _, t := range s.Trials {
		if requests && (t.Operation == pace.All || slices.Contains(operations, t.Operation)) {
			all[probe{t.Operation, trialEvery}] = t.Next
		}
	}
	return all
}
