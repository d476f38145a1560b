package meters

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// runsFor is the time for which the requests of runs are counted: that of runs.lua.
	runsFor = 10 * time.Minute
	// mostRuns is how many runs are counted by themselves in a minute: there may be thousands of
	// runs of one row.
	mostRuns = 20
)

//go:embed runs.lua
var runsText string

var runsScript = redis.NewScript(runsText)

func runsKey(tenant string) string { return "orgops:v3:{tenant:" + tenant + "}:meters:runs" }

// RunRequests are the requests that rows of a run have sent.
type RunRequests struct {
	Run      string `json:"run,omitempty"` // "": runs beyond the first ones of a minute
	Requests int64  `json:"requests"`
}

// Requested counts a request of a run.
func (m *Meters) Requested(tenant, run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[tenant] == nil {
		m.runs[tenant] = map[string]int64{}
	}
	m.runs[tenant][run]++
}

// flushRuns adds the counted requests of runs to those in Redis.
func (m *Meters) flushRuns(ctx context.Context, rdb redis.Cmdable) error {
	m.mu.Lock()
	all := m.runs
	m.runs = map[string]map[string]int64{}
	m.mu.Unlock()
	var failed error
	for name, counts := range all {
		args := []any{mostRuns}
		// The runs with the most requests come first, which are counted by themselves.
		for _, one := range sorted(counts) {
			args = append(args, one.Run, one.Requests)
		}
		if err := runsScript.Run(ctx, rdb, []string{runsKey(name)}, args...).Err(); err != nil {
			m.restore(name, counts)
			failed = errors.Join(failed, fmt.Errorf("store the requests of runs of tenant %s: %w", name, err))
		}
	}
	return failed
}

// restore adds counts that were not stored.
func (m *Meters) restore(tenant string, counts map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[tenant] == nil {
		m.runs[tenant] = map[string]int64{}
	}
	for run, n := range counts {
		m.runs[tenant][run] += n
	}
}

// sorted returns the runs, those with the most requests first, and then by id.
func sorted(counts map[string]int64) (all []RunRequests) {
	for _, run := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, RunRequests{run, counts[run]})
	}
	slices.SortStableFunc(all, func(a, b RunRequests) int { return cmp.Compare(b.Requests, a.Requests) })
	return all
}

// ReadRuns reads the requests of the tenant's runs in the ten minutes before now, which is Redis'
// time, those with the most requests first.
func ReadRuns(ctx context.Context, rdb redis.Cmdable, tenant string, now time.Time) ([]RunRequests, error) {
	ring, err := rdb.HGetAll(ctx, runsKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the requests of runs of tenant %s: %w", tenant, err)
	}
	counts := map[string]int64{}
	for _, text := range ring {
		var minute struct {
			Minute   int64            `json:"minute"`
			Requests map[string]int64 `json:"requests"`
		}
		if err := json.Unmarshal([]byte(text), &minute); err != nil {
			return nil, fmt.Errorf("read the requests of runs of tenant %s: %w", tenant, err)
		}
		if now.Sub(time.Unix(60*minute.Minute, 0)) >= runsFor {
			continue
		}
		for run, n := range minute.Requests {
			counts[run] += n
		}
	}
	return sorted(counts), nil
}
