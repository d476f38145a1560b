// Package meters counts the rows, requests and DNS verdicts of tenants, for the plots of the pages:
// those of the last hour by minute, and of the last day by quarter of an hour; and the requests of
// each run in the last ten minutes. All workers add to the same counters in Redis, in less than
// 20 kB a tenant. A tenant that does nothing costs nothing.
package meters

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
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
	Allowed  Series = iota // requests by the tenant's rate; 0: unlimited, or nothing happened
	Good                   // rows settled as done or unchanged
	Failed                 // rows settled otherwise
	Answered               // requests to the API
	Refused                // requests answered with 429
	Unknown                // DNS verdicts, as the next two
	Absent
	Present
	series
)

// Counts are the counters of a period.
type Counts [series]int64

// Meters counts the events of this process until [Meters.Flush]. It is safe for concurrent use.
type Meters struct {
	mu      sync.Mutex
	tenants map[string]Counts
	runs    map[string]map[string]int64 // requests by tenant and run
}

// New returns meters that have counted nothing.
func New() *Meters { return &Meters{tenants: map[string]Counts{}, runs: map[string]map[string]int64{}} }

// Add adds to a counter of the tenant. Allowed is what its rate allows in a minute: it is added
// when the rate comes into force, and subtracted at its end.
func (m *Meters) Add(tenant string, s Series, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.tenants[tenant]
	counts[s] += n
	m.tenants[tenant] = counts
}

// Request counts a request to the API.
func (m *Meters) Request(tenant string, status int) {
	if status == http.StatusTooManyRequests {
		m.Add(tenant, Refused, 1)
		return
	}
	m.Add(tenant, Answered, 1)
}

// Run flushes every ten seconds, and once more when ctx ends.
func (m *Meters) Run(ctx context.Context, rdb redis.Cmdable, logger *slog.Logger) {
	const every, within = 10 * time.Second, 2 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		if err := m.Flush(bounded, rdb); err != nil {
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
func (m *Meters) Flush(ctx context.Context, rdb redis.Cmdable) error {
	m.mu.Lock()
	all := maps.Clone(m.tenants)
	m.mu.Unlock()
	for name, counts := range all {
		if counts == (Counts{Allowed: counts[Allowed]}) {
			continue
		}
		args := make([]any, series)
		for s, n := range counts {
			args[s] = n
		}
		if err := addScript.Run(ctx, rdb, keys(name), args...).Err(); err != nil {
			return fmt.Errorf("store the meters of tenant %s: %w", name, err)
		}
		for s, n := range counts[Good:] {
			m.Add(name, Good+Series(s), -n)
		}
	}
	return m.flushRuns(ctx, rdb)
}

func keys(tenant string) []string {
	prefix := "orgops:v3:{tenant:" + tenant + "}:meters:"
	return []string{prefix + "minutes", prefix + "quarters"}
}

// Period is a period of Redis' time.
type Period struct {
	At time.Time // its begin
	Counts
}

// Read reads the last hour of a tenant by minute, and the last day by quarter of an hour, the
// oldest period first. The last ones go on.
func Read(ctx context.Context, rdb redis.Cmdable, tenant string) (hour, day []Period, err error) {
	key := keys(tenant)
	rings := [2]*redis.MapStringStringCmd{}
	var clock *redis.TimeCmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		rings[0] = p.HGetAll(ctx, key[0])
		rings[1] = p.HGetAll(ctx, key[1])
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the meters of tenant %s: %w", tenant, err)
	}
	now := clock.Val().Unix() // add.lua knows the numbers too
	return periods(rings[0].Val(), now, 60, 60), periods(rings[1].Val(), now, 900, 96), nil
}

// ReadHour reads the hour of a tenant before now, which is Redis' time, as [Read] does.
func ReadHour(ctx context.Context, rdb redis.Cmdable, tenant string, now time.Time) ([]Period, error) {
	ring, err := rdb.HGetAll(ctx, keys(tenant)[0]).Result()
	if err != nil {
		return nil, fmt.Errorf("read the meters of tenant %s: %w", tenant, err)
	}
	return periods(ring, now.Unix(), 60, 60), nil
}

// periods returns the last n periods, of so many seconds, of a ring: a hash whose field NUMBER
// modulo n has the number of a period and its counts.
func periods(ring map[string]string, now, seconds, n int64) (all []Period) {
	for number := now/seconds - n + 1; number <= now/seconds; number++ {
		p := Period{At: time.Unix(number*seconds, 0).UTC()}
		values := strings.Split(ring[strconv.FormatInt(number%n, 10)], ",")
		if values[0] == strconv.FormatInt(number, 10) && len(values) == 1+len(p.Counts) {
			for s, text := range values[1:] {
				p.Counts[s], _ = strconv.ParseInt(text, 10, 64) // the script has written a number
			}
			p.Counts[Allowed] *= seconds / 60
		}
		all = append(all, p)
	}
	return all
}
