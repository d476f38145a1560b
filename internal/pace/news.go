package pace

import "time"

const (
	// workersFor is how long a worker is counted after its last request for a permit, longer
	// than one waits for the API's answer, and countEvery how often such a request counts it.
	workersFor = time.Minute
	countEvery = 5 * time.Second
)

// news are the facts that a worker sends to Redis with the request for a permit.
type news struct {
	id     string    // the worker's if it is to be counted now, else empty
	paused time.Time // the end of the pause, if it may not be stored
	full   time.Time // when the API's bucket is full, as it was last seen; zero: it was not
	// empty is set if the bucket is to be emptied first: a Redis that has failed may have lost
	// the permits that were given.
	empty bool
}

// news returns the facts to send now.
func (l *Limiter) news() news {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := news{empty: l.failed, full: l.seen.full}
	if time.Since(l.counted) >= countEvery {
		n.id = l.id
	}
	if l.failed || l.owed {
		n.paused = l.paused
	}
	return n
}

// stored records which of the news a script has stored that ended with the status, and the
// number of workers.
func (l *Limiter) stored(n news, status string, workers int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status == "stopped" || status == "blocked" {
		return
	}
	if !l.paused.After(n.paused) { // else a longer pause has begun meanwhile
		l.owed = false
	}
	if status == "paused" {
		return
	}
	l.failed, l.workers = false, workers
	if n.id != "" {
		l.counted = time.Now()
	}
	if l.seen.full.Equal(n.full) { // else an answer has shown a lower level meanwhile
		l.seen.full = time.Time{}
	}
}
