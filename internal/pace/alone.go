package pace

import (
	"fmt"
	"time"
)

const (
	// workersFor is how long a worker counts as one after it last asked, and
	// countEvery how often it says that it is there.
	workersFor = 2 * time.Minute
	countEvery = 5 * time.Second
	// redisAgain is how long a worker goes on alone before it asks Redis again,
	// and redisTimeoutAlone how long it then waits for the answer.
	redisAgain        = time.Second
	redisTimeoutAlone = time.Second
)

// alone is a worker without its Redis: it keeps to its share of the rate, on its
// own clock, until Redis answers again. Whether others still reach Redis it cannot
// know. Where none does, all N together are no faster than the rate; where this one
// alone is cut off, the others go on with the whole rate, and the sum is the rate
// times 1 + 1/N.
type alone struct {
	is      bool
	again   time.Time // when Redis is asked again
	next    time.Time // when there is the next permit
	paused  time.Time // until when the API wants nothing, as this process knows
	owed    bool      // Redis could not be told of that
	workers int64     // that were last counted; 0: Redis has never answered
}

// withoutRedis asks for a permit of this worker's own share, where Redis has just
// failed by err or did so a moment ago. ok is false where Redis is to be asked, and
// where nothing may go out without it: no sweep, nothing that is known to be
// blocked, nothing before the number of workers is known.
func (l *Limiter) withoutRedis(operation string, c Class, err error) (a attempt, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isBlocked := l.blocked[operation] || l.blocked[All] || l.stopped != "" && l.cfg.Writes(operation)
	if l.rate.IsUnlimited() || c == Sweep || isBlocked {
		return attempt{}, false
	}
	s, now := &l.alone, time.Now()
	if s.workers == 0 || err == nil && (!s.is || !now.Before(s.again)) {
		return attempt{}, false
	}
	interval := time.Duration(l.gcra.interval*s.workers) * time.Microsecond
	if !s.is {
		s.is = true
		s.next = now.Add(interval) // as if one had just gone out
		l.cfg.Logger.Error("Redis unavailable: this worker keeps to its share of the rate", "workers", s.workers, "seconds_between_requests", interval.Seconds(), "error", err)
	}
	if err != nil {
		s.again = now.Add(redisAgain)
	}
	if due := later(s.next, s.paused); now.Before(due) {
		return attempt{wait: due.Sub(now), why: fmt.Sprintf("redis does not answer, and this worker's share of the budget of %v is spent", l.rate)}, true
	}
	s.next = now.Add(interval)
	return attempt{ok: true}, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// news is what a worker tells Redis when it asks for a permit.
type news struct {
	id     string    // the worker's if it is time to be counted, else empty
	paused time.Time // until when the tenant is paused, if Redis may not know
	// missing is by how much the bucket was seen to be short of full, as the time in µs that it
	// takes to fill; -1: nothing was seen.
	missing int64
	// empty says that the bucket is to be emptied first: after a time without Redis it may have
	// come back as one that thinks the bucket full.
	empty bool
}

// news returns what is to be told now, and forgets what was seen of the bucket.
func (l *Limiter) news() news {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, now := news{missing: -1, empty: l.alone.is}, time.Now()
	if now.Sub(l.counted) >= countEvery {
		l.counted, n.id = now, l.id
	}
	if l.alone.is || l.alone.owed {
		n.paused = l.alone.paused
	}
	if short := l.seen.full.Sub(now); short > 0 {
		n.missing = short.Microseconds()
	}
	l.seen.full = time.Time{}
	return n
}

// redisAnswered notes that Redis has taken the news, and how many workers there are.
func (l *Limiter) redisAnswered(n news, answer []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.alone
	if workers, _ := answer[4].(int64); workers > 0 {
		s.workers = workers
	}
	if !s.paused.After(n.paused) { // else a longer pause came meanwhile
		s.owed = false
	}
	if s.is {
		s.is = false
		l.cfg.Logger.Info("Redis available again: the fleet shares the rate")
	}
}

// redisFailed has the next one who asks count this worker.
func (l *Limiter) redisFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = time.Time{}
}
