package pace

import (
	"fmt"
	"time"
)

const (
	// workersFor is how long a worker is counted after its last permit, and countEvery how
	// often a permit counts it.
	workersFor = 2 * time.Minute
	countEvery = 5 * time.Second
	// redisAgain is the time between two attempts to reach a Redis that does not answer, and
	// redisTimeoutAlone the timeout of such an attempt.
	redisAgain        = time.Second
	redisTimeoutAlone = time.Second
)

// alone is the state of a worker whose Redis does not answer: it uses its share of the rate,
// by its own clock, until Redis answers again. It cannot know whether other workers reach
// Redis. If none does, all N together are no faster than the rate; if only this one is cut
// off, the others have the whole rate, and the sum is the rate times 1 + 1/N.
type alone struct {
	is      bool
	again   time.Time // when Redis is tried again
	next    time.Time // when the next permit is available
	paused  time.Time // the end of the API's pause, as far as this process knows
	owed    bool      // the pause is not stored in Redis
	workers int64     // that were last counted; 0: Redis has never answered
}

// withoutRedis takes a permit of this worker's own share if Redis has just failed by err, or
// did so a moment ago. ok is false if Redis is to be tried, and if no request may be sent
// without it: for sweeps, for operations that are known to be blocked, and before the number
// of workers is known.
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
		s.next = now.Add(interval) // as if a permit had just been given
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

// news are the facts that a worker sends to Redis with the request for a permit.
type news struct {
	id     string    // the worker's if it is to be counted now, else empty
	paused time.Time // the end of the pause, if it may not be stored
	// missing is the observed time in µs until the API's bucket is full; -1: none was observed.
	missing int64
	// empty is set if the bucket is to be emptied first: a Redis that was away may have lost
	// the permits that were given.
	empty bool
}

// news returns the facts to send now, and clears the observation of the bucket.
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

// redisAnswered records that Redis has stored the news, and the number of workers.
func (l *Limiter) redisAnswered(n news, answer []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.alone
	if workers, _ := answer[4].(int64); workers > 0 {
		s.workers = workers
	}
	if !s.paused.After(n.paused) { // else a longer pause has begun meanwhile
		s.owed = false
	}
	if s.is {
		s.is = false
		l.cfg.Logger.Info("Redis available again: the fleet shares the rate")
	}
}

// redisFailed has the next request for a permit count this worker.
func (l *Limiter) redisFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = time.Time{}
}
