package deliveries

import (
	"sync"
	"time"
)

// reportEvery is how often a receiver has a line in the log.
const reportEvery = time.Minute

// tally counts events that were not logged yet, by receiver: dropped ones, or executions of an
// outcome.
type tally struct {
	mu       sync.Mutex
	unlogged map[string]int
	logged   map[string]time.Time
}

func newTally() *tally { return &tally{unlogged: map[string]int{}, logged: map[string]time.Time{}} }

// add counts n more. It returns how many to log now, or 0 if a line was logged
// less than a minute ago.
func (d *tally) add(of string, n int, now time.Time) (report int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unlogged[of] += n
	if now.Sub(d.logged[of]) < reportEvery {
		return 0
	}
	report = d.unlogged[of]
	if report > 0 {
		d.unlogged[of] = 0
		d.logged[of] = now
	}
	return report
}
