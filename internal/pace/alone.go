package pace

import (
	"fmt"
	"sync"
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
	mu      sync.Mutex
	is      bool
	again   time.Time // when Redis is asked again
	next    time.Time // when there is the next permit
	paused  time.Time // until when the API wants nothing, as this process knows
	owed    time.Time // the same, where Redis could not be told
	workers int64     // that were last counted; 0: Redis has never answered
}

// withoutRedis asks for a permit of this worker's own share, where Redis has just
// failed by err or did so a moment ago. ok is false where Redis is to be asked, and
// where nothing may go out without it: no sweep, nothing that is known to be
// blocked, nothing before the number of workers is known.
func (l *Limiter) withoutRedis(operation string, c Class, err error) (a attempt, ok bool) {
	if l.rate.IsUnlimited() || c == Sweep || l.knowsBlock(operation) {
		return attempt{}, false
	}
	s := &l.alone
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.workers == 0 || err == nil && (!s.is || !now.Before(s.again)) {
		return attempt{}, false
	}
	interval := time.Duration(l.gcra.interval*s.workers) * time.Microsecond
	if !s.is {
		s.is = true
		s.next = now.Add(interval) // as if one had just gone out
		l.log.Error("Redis unavailable: this worker keeps to its share of the rate", "tenant", l.tenant, "workers", s.workers, "seconds_between_requests", interval.Seconds(), "error", err)
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

// pause holds back what this worker would send alone.
func (s *alone) pause(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = later(s.paused, until)
}

// owe has Redis told of a pause with the next permit that it is asked for.
func (s *alone) owe(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed = later(s.owed, until)
}

// debt is until when Redis is to be told that the tenant is paused. After a time
// without Redis that is all that is known, as it may have come back without it.
func (s *alone) debt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is {
		return later(s.owed, s.paused)
	}
	return s.owed
}

// paid notes that Redis has answered to what debt was; a longer one may have come
// meanwhile.
func (s *alone) paid(debt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owed.After(debt) {
		s.owed = time.Time{}
	}
}

// last returns the number of workers that were last counted, at least 1, and the end of
// the last pause that this process knows of.
func (s *alone) last() (workers int64, paused time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.workers, 1), s.paused
}

func (s *alone) isAlone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.is
}

// emptyFirst is 1 where Redis is asked after a time without it: it may have come
// back as one that thinks the bucket full.
func (s *alone) emptyFirst() int {
	if s.isAlone() {
		return 1
	}
	return 0
}

// redisAnswered notes that it has, and how many workers there are.
func (l *Limiter) redisAnswered(answer []any) {
	s := &l.alone
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, _ := answer[4].(int64); n > 0 {
		s.workers = n
	}
	if s.is {
		s.is = false
		l.log.Info("Redis available again: the fleet shares the rate", "tenant", l.tenant)
	}
}

// toBeCounted is this worker's id when it is time to be counted, else empty.
func (l *Limiter) toBeCounted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.counted) >= countEvery {
		l.counted = now
		return l.id
	}
	return ""
}

// notCounted has the next one who asks count this worker.
func (l *Limiter) notCounted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = time.Time{}
}

// knowsBlock says whether this process knows the operation to be blocked, or the tenant
// to be stopped.
func (l *Limiter) knowsBlock(operation string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked[operation] || l.blocked[All] || l.stopped != "" && l.writes(operation)
}
