package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// SegmentRows is the largest number of rows of a segment. Deleting 16,000 waiting
	// rows at once blocks Redis for 9 ms, so half of that stays below 5 ms.
	SegmentRows = 8192
	// MaxSegments bounds a run to MaxRows in segments that are full.
	MaxSegments = 12_208
	// MaxRows is the most rows of a run.
	MaxRows = 100_000_000
	// ScanSegment is the number of the segment that has the row of a run's scan, and no other. It
	// is none of the run's own segments: neither its row nor its result counts.
	ScanSegment = MaxSegments
	// MaxRow is the largest size of a row in bytes.
	MaxRow = 1 << 20
	// Retention is how long after its end a run is deleted, unless its description has another
	// time.
	Retention = 30 * 24 * time.Hour
	// AbandonedAfter is how long after the last staged segment an incomplete staged run
	// is deleted.
	AbandonedAfter = 24 * time.Hour
	// ReleaseTimeout is how long a released row waits for its begin until it is due
	// again.
	ReleaseTimeout = 10 * time.Second
	// ExecutionLimit is how long an execution may take until its row is due again.
	ExecutionLimit = 6 * time.Minute
	// MaxWait is the longest time that a row waits. A row that is due later than that was
	// stored while Redis' clock was ahead, and counts as due.
	MaxWait = 24 * time.Hour
	// MaxDue is the longest time for which a row is due first after it is found: see
	// [FoundRow]. A row that is due later than that counts as due, as with MaxWait.
	MaxDue = 7 * 24 * time.Hour
	// RenewEvery is how often a worker renews its session.
	RenewEvery = 5 * time.Second
	// DeadAfter is how long after its last renewal a session is dead: two renewals may
	// be lost.
	DeadAfter = 15 * time.Second
	// SuspectedFrom is after how many deaths of workers in a row one of its rows is suspected to be
	// their cause: of the first, another row may have been. From then on the row waits longer after
	// each death, and is executed alone; the next death is an attempt of it.
	SuspectedFrom = 2
)

const (
	// segmentBytes bounds the rows of a segment, in bytes before compression, so that no
	// command moves more than a few MB.
	segmentBytes = 2 << 20
	// maxLabel is the largest number of stored characters of a label, or of the note of a scan.
	maxLabel = 200
	// maxProgress bounds the progress of a scan in bytes: lists read many headers at once.
	maxProgress = 16 << 10
)

// parallel is how many segments or runs are changed at a time: enough to
// hide round trips, few enough that others get a turn at Redis.
const parallel = 8

// Ledger reads and writes runs. It is safe for concurrent use, also by many
// processes.
type Ledger struct {
	rdb redis.Cmdable
	// mostSubjects is how many subjects a tenant has: see [Subject].
	mostSubjects int
}

// New returns the ledger in rdb.
func New(rdb redis.Cmdable) *Ledger { return &Ledger{rdb: rdb, mostSubjects: 1_000_000} }

// Now returns Redis' time, to the millisecond.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) {
	now, err := l.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of redis: %w", err)
	}
	return now.UTC().Truncate(time.Millisecond), nil
}

// absent reports whether the error says that a key or field does not exist.
func absent(err error) bool { return errors.Is(err, redis.Nil) }

// fromMillis returns the time of Unix milliseconds; 0 is the zero time.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// toMillis is the inverse of fromMillis.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
