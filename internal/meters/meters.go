// Package meters counts the rows, requests and DNS verdicts of tenants, for the plots of the pages:
// those of the last hour by minute, and of the last day by quarter of an hour. All workers add to
// the same counters in Redis, in less than 10 kB a tenant. A tenant that does nothing costs nothing.
package meters

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Series is one of the counters of a tenant.
type Series int

// The series.
const (
	Settled  Series = iota // rows
	Failed                 // those of them with another outcome than done and unchanged
	Requests               // sent to the API
	Refused                // those of them that the API answered with 429
	Proven                 // DNS verdicts: the token is there
	Absent                 // DNS verdicts: it is not
	Other                  // DNS verdicts: unknown
	series
)

// Counts are the counters of a period.
type Counts [series]int64

// Meters counts the events of this process until [Meters.Flush]. It is safe for concurrent use.
type Meters struct {
	mu      sync.Mutex
	tenants map[string]*tally
}

type tally struct {
	allowed int64 // requests a minute
	counts  Counts
}

// New returns meters that have counted nothing.
func New() *Meters { return &Meters{tenants: map[string]*tally{}} }

func (m *Meters) update(tenant string, change func(*tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tenants[tenant] == nil {
		m.tenants[tenant] = &tally{}
	}
	change(m.tenants[tenant])
}

// Allow sets how many requests a minute the tenant's rate allows; 0: any number.
func (m *Meters) Allow(tenant string, perMinute int64) {
	m.update(tenant, func(t *tally) { t.allowed = perMinute })
}

// Add adds to a counter of the tenant.
func (m *Meters) Add(tenant string, s Series, n int) {
	m.update(tenant, func(t *tally) { t.counts[s] += int64(n) })
}

const (
	flushEvery = 10 * time.Second
	// flushWithin bounds a flush: the worker waits for the last one.
	flushWithin = 2 * time.Second
)

// Run flushes every ten seconds, and once more when ctx ends.
func (m *Meters) Run(ctx context.Context, rdb redis.UniversalClient, logger *slog.Logger) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		if err := m.Flush(within, rdb); err != nil {
			logger.DebugContext(ctx, "meters not stored", "error", err)
		}
		cancel()
	}
}

//go:embed add.lua
var addText string

var addScript = redis.NewScript(addText)

// Flush adds the counted events to the counters in Redis, for tenants that had any. After an error
// the events that were not added are part of the next flush.
func (m *Meters) Flush(ctx context.Context, rdb redis.UniversalClient) error {
	m.mu.Lock()
	changed := map[string]tally{}
	for name, t := range m.tenants {
		if t.counts != (Counts{}) {
			changed[name] = *t
		}
	}
	m.mu.Unlock()
	for name, t := range changed {
		args := []any{t.allowed}
		for _, n := range t.counts {
			args = append(args, n)
		}
		if err := addScript.Run(ctx, rdb, keys(name), args...).Err(); err != nil {
			return fmt.Errorf("store the meters of tenant %s: %w", name, err)
		}
		m.update(name, func(now *tally) {
			for s, n := range t.counts {
				now.counts[s] -= n
			}
		})
	}
	return nil
}

// The lengths of periods, and how many of each are stored. add.lua knows them too.
const (
	minutes       = 60
	quarters      = 96
	quarterLength = 15 * time.Minute
)

func keys(tenant string) []string {
	prefix := "orgops:v3:{tenant:" + tenant + "}:meters:"
	return []string{prefix + "minutes", prefix + "quarters"}
}

// History is the past of a tenant: consecutive periods, the oldest first. The last one goes on.
type History struct {
	Hour []Period // by minute
	Day  []Period // by quarter of an hour
}

// Period is a period without a gap, of Redis' time.
type Period struct {
	At      time.Time // its begin
	Allowed int64     // requests by the tenant's rate; 0: unlimited, or none was sent
	Counts
}

// Sum returns the sum of a series.
func Sum(all []Period, s Series) (n int64) {
	for _, p := range all {
		n += p.Counts[s]
	}
	return n
}

// Read reads the past of a tenant, by one pipeline.
func Read(ctx context.Context, rdb redis.UniversalClient, tenant string) (History, error) {
	key, rings := keys(tenant), [2]*redis.MapStringStringCmd{}
	var clock *redis.TimeCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock, rings[0], rings[1] = p.Time(ctx), p.HGetAll(ctx, key[0]), p.HGetAll(ctx, key[1])
		return nil
	})
	if err != nil {
		return History{}, fmt.Errorf("read the meters of tenant %s: %w", tenant, err)
	}
	now := clock.Val()
	return History{
		Hour: periods(rings[0].Val(), now, time.Minute, minutes),
		Day:  periods(rings[1].Val(), now, quarterLength, quarters),
	}, nil
}

// periods returns the last n periods of a ring: a hash whose field NUMBER modulo n has the number
// of a period, the requests that were allowed a minute, and the counts.
func periods(ring map[string]string, now time.Time, length time.Duration, n int64) (all []Period) {
	last := now.Unix() / int64(length.Seconds())
	for number := last - n + 1; number <= last; number++ {
		p := Period{At: time.Unix(number*int64(length.Seconds()), 0).UTC()}
		values := strings.Split(ring[strconv.FormatInt(number%n, 10)], ",")
		if values[0] == strconv.FormatInt(number, 10) && len(values) == 2+len(p.Counts) {
			p.Allowed, _ = strconv.ParseInt(values[1], 10, 64) // the script has written a number
			p.Allowed *= int64(length / time.Minute)
			for s, text := range values[2:] {
				p.Counts[s], _ = strconv.ParseInt(text, 10, 64)
			}
		}
		all = append(all, p)
	}
	return all
}
