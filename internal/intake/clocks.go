package intake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orgops/internal/watch"
)

const (
	// clocksApart is how far clocks may be apart unmentioned: what clocks drift in
	// days without being set.
	clocksApart = 5 * time.Minute
	// decidedAhead is how far ahead of every clock a tick that was decided on may be:
	// beyond that the clocks were wrong by then, and are not now.
	decidedAhead = time.Hour
)

// clocks are ours and Redis', at a time. Either may be wrong.
type clocks struct{ own, redis time.Time }

// now returns the time of our clock.
func (i Intake) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// readClocks reads both.
func (i Intake) readClocks(ctx context.Context, store *watch.Store) (clocks, error) {
	redis, err := store.Clock(ctx)
	return clocks{own: i.now(), redis: redis}, err
}

func (c clocks) earlier() time.Time {
	return slices.MinFunc([]time.Time{c.own, c.redis}, time.Time.Compare)
}
func (c clocks) later() time.Time {
	return slices.MaxFunc([]time.Time{c.own, c.redis}, time.Time.Compare)
}

func (c clocks) apart() time.Duration { return c.later().Sub(c.earlier()) }

// ClocksError says that a sweep is not begun by hand, since its tick would be a guess:
// our clock and Redis' are far apart.
type ClocksError struct {
	Sweep      string
	Own, Redis time.Time
}

// Error names both clocks, and which is ahead by how much.
func (e *ClocksError) Error() string {
	words := "behind"
	if e.Own.After(e.Redis) {
		words = "ahead of"
	}
	return fmt.Sprintf("sweep %s: this machine's clock (%s) is %v %s that of Redis (%s), and its tick would be wrong: set the wrong clock, then start the sweep again",
		e.Sweep, e.Own.UTC().Format(time.RFC3339), e.Own.Sub(e.Redis).Abs().Round(time.Second), words, e.Redis.UTC().Format(time.RFC3339))
}
