package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orgops/internal/intake"
	"orgops/internal/sweep"
)

const (
	// maxApart is the difference of clocks that is not reported: clocks that are not
	// synchronized drift so far in days.
	maxApart = 5 * time.Minute
	// maxAhead is how far a stored tick may be ahead of both clocks. Beyond that they were
	// wrong when it was stored, and are not now.
	maxAhead = time.Hour
)

// clocks are the times of this machine and of Redis. Either may be wrong.
type clocks struct{ own, redis time.Time }

// ownTime returns the time of this machine.
func ownTime(in intake.Intake) time.Time {
	if in.Now != nil {
		return in.Now()
	}
	return time.Now()
}

func readClocks(ctx context.Context, in intake.Intake, store *sweep.Store) (clocks, error) {
	redis, err := store.Clock(ctx)
	return clocks{own: ownTime(in), redis: redis}, err
}

func (c clocks) earlier() time.Time {
	return slices.MinFunc([]time.Time{c.own, c.redis}, time.Time.Compare)
}

func (c clocks) later() time.Time {
	return slices.MaxFunc([]time.Time{c.own, c.redis}, time.Time.Compare)
}

func (c clocks) apart() time.Duration { return c.own.Sub(c.redis).Abs() }

// isAhead reports whether a stored tick cannot have come yet.
func (c clocks) isAhead(tick int64) bool { return tick > c.later().Add(maxAhead).Unix() }

// ClocksError says that a sweep is not started by a command, since its tick would be a
// guess: the clocks of this machine and Redis are far apart.
type ClocksError struct {
	Sweep      string
	Own, Redis time.Time
}

// Error names both clocks, and which is ahead by how much.
func (e *ClocksError) Error() string {
	relation := "behind"
	if e.Own.After(e.Redis) {
		relation = "ahead of"
	}
	return fmt.Sprintf(
		"sweep %s: this machine's clock (%s) is %v %s that of Redis (%s), and its tick would be wrong: set the wrong clock, then start the sweep again",
		e.Sweep, e.Own.UTC().Format(time.RFC3339), e.Own.Sub(e.Redis).Abs().Round(time.Second), relation,
		e.Redis.UTC().Format(time.RFC3339))
}
