package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/sandbox"
)

// soakSample is one measurement during the load.
type soakSample struct {
	Benchmark string  `json:"benchmark"` // "soak_sample"
	Minute    float64 `json:"minute"`    // since the load began
	// Measures are the values that must not grow, of each worker and of Redis.
	Measures map[string]float64 `json:"measures"`
	// Families are the keys in Redis by family; see [family].
	Families map[string]weight `json:"families"`
	Requests int64             `json:"requests"` // to all tenants so far
	Refused  int64             `json:"requests_429"`
	about
}

// weight is how many keys there are, and how much memory they take.
type weight struct {
	Keys  float64 `json:"keys"`
	Bytes float64 `json:"bytes"`
}

// samples measures now and then until the load ends.
func (k *soak) samples(ctx context.Context, out *report) (all []soakSample, err error) {
	began := time.Now()
	for {
		if err := pause(ctx, min(k.load.Every, time.Until(k.until))); err != nil {
			return all, err
		}
		sample, err := k.sample(ctx)
		if err != nil {
			return all, fmt.Errorf("measure the workers: %w", err)
		}
		sample.Minute = time.Since(began).Minutes()
		all = append(all, sample)
		if err := out.soakSample(sample, len(all) == 1); err != nil {
			return all, err
		}
		if !time.Now().Before(k.until) {
			return all, nil
		}
	}
}

func (k *soak) sample(ctx context.Context) (s soakSample, err error) {
	s = soakSample{Benchmark: "soak_sample", Measures: map[string]float64{}}
	for i, w := range k.workers {
		of := fmt.Sprintf("worker %d ", i+1)
		pid := w.process.Process.Pid
		s.Measures[of+"memory, MB"] = float64(memoryOf(pid, "VmRSS")) / 1e6
		s.Measures[of+"descriptors"] = float64(descriptors(pid))
		metrics, _, _, err := get(ctx, w.probes+"/metrics")
		if err != nil {
			return s, err
		}
		s.Measures[of+"goroutines"] = metric(metrics, "go_goroutines")
		s.Measures[of+"heap, MB"] = metric(metrics, "go_memstats_heap_inuse_bytes") / 1e6
		s.Measures[of+"series"] = float64(bytes.Count(metrics, []byte("\n")))
	}
	connections, err := k.store.connections(ctx)
	if err != nil {
		return s, err
	}
	s.Measures["Redis connections"] = float64(connections)
	s.Measures["Redis memory, MB"] = float64(k.store.memory(ctx)) / 1e6
	if s.Families, err = k.store.families(ctx); err != nil {
		return s, err
	}
	s.Measures["Redis keys"] = total(s.Families).Keys
	for _, t := range k.tenants {
		counts, err := t.tenant.counts(ctx)
		if err != nil {
			return s, err
		}
		s.Requests += sum(counts) - counts.Requests[sandbox.OpToken].All
		for _, tally := range counts.Requests {
			s.Refused += tally.Answers["429"]
		}
	}
	return s, nil
}

// descriptors is how many files a process has open; 0 where the system does not say.
func descriptors(pid int) int {
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		return 0
	}
	return len(open)
}

// metric returns the value of a metric without labels; NaN if there is none.
func metric(metrics []byte, name string) float64 {
	for line := range bytes.Lines(metrics) {
		if value, ok := strings.CutPrefix(string(line), name+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return v
			}
		}
	}
	return math.NaN()
}

// families returns the keys of the database by their family.
func (s *store) families(ctx context.Context) (map[string]weight, error) {
	const page = 1000
	all, seen := map[string]weight{}, map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := s.admin.Scan(ctx, cursor, "", page).Result()
		if err != nil {
			return nil, fmt.Errorf("SCAN: %w", err)
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return seen[key] }) // SCAN may return one twice
		for _, key := range keys {
			seen[key] = true
		}
		sizes, err := s.sizes(ctx, keys)
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			w := all[family(key)]
			all[family(key)] = weight{w.Keys + 1, w.Bytes + sizes[i]}
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}

// sizes is how many bytes each key takes; 0 if it is gone.
func (s *store) sizes(ctx context.Context, keys []string) (sizes []float64, err error) {
	commands, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.MemoryUsage(ctx, key)
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // of a pipeline it is not wrapped
		return nil, fmt.Errorf("MEMORY USAGE: %w", err)
	}
	for _, c := range commands {
		size, _ := c.(*redis.IntCmd).Result()
		sizes = append(sizes, float64(size))
	}
	return sizes, nil
}

var (
	hashTag = regexp.MustCompile(`\{[^}]*\}`)
	// unique is a part of a key that names one of many: an id, a time, or a task.
	unique  = regexp.MustCompile(`^(.*[0-9].*|[A-Za-z0-9_-]{16,})$`)
	version = regexp.MustCompile(`^v[0-9]+$`)
)

// family returns the family of a key: the key without names of tenants, runs and the like.
func family(key string) string {
	key = hashTag.ReplaceAllStringFunc(key, func(tag string) string {
		kind, _, named := strings.Cut(strings.Trim(tag, "{}"), ":")
		if named || kind == "sessions" {
			return "{" + kind + "}"
		}
		return "{}"
	})
	parts := strings.Split(key, ":")
	for i, part := range parts {
		if !version.MatchString(part) && unique.MatchString(part) && !strings.Contains(part, "{") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ":")
}

func total(families map[string]weight) (all weight) {
	for _, w := range families {
		all.Keys, all.Bytes = all.Keys+w.Keys, all.Bytes+w.Bytes
	}
	return all
}

// trend is how a measure changes.
type trend struct {
	Measure string  `json:"measure"`
	Mean    float64 `json:"mean"`
	PerHour float64 `json:"per_hour"`       // the slope of the least squares
	Error   float64 `json:"standard_error"` // of it
	Grows   bool    `json:"grows"`
	// KeptFor is how long keys of a family are kept that grows by design, else empty.
	KeptFor string `json:"kept_for,omitempty"`
}

// keptFor are the families of keys that have a longer life than the load, so that they grow
// with it.
var keptFor = map[string]string{
	"keys orgops:v1:{watch}:tally:*":  "one of each sweep, for 31 days",
	"keys orgops:v1:{watch}:domain:*": "one of each domain that a sweep has found, for 400 days after the last one",
}

// A measure grows if its slope is certainly, by twice the standard error, above this share of
// its mean an hour, and above this much: neither a garbage collector nor a pool is exactly
// steady.
const (
	growsShare = 0.05
	growsLeast = 2.0
)

// trendOf returns the trend of the values at these hours.
func trendOf(measure string, hours, values []float64) trend {
	n := float64(len(values))
	var meanX, meanY float64
	for i := range values {
		meanX, meanY = meanX+hours[i]/n, meanY+values[i]/n
	}
	var xx, xy float64
	for i := range values {
		xx += (hours[i] - meanX) * (hours[i] - meanX)
		xy += (hours[i] - meanX) * (values[i] - meanY)
	}
	t := trend{Measure: measure, Mean: meanY, KeptFor: keptFor[measure]}
	if len(values) < 3 || xx == 0 {
		return t
	}
	t.PerHour = xy / xx
	var squares, successive, last float64
	for i := range values {
		e := values[i] - meanY - t.PerHour*(hours[i]-meanX)
		squares, successive, last = squares+e*e, successive+e*last, e
	}
	t.Error = math.Sqrt(squares / (n - 2) / xx)
	// A run is there for several samples, so that each resembles the one before: they say
	// less than as many independent ones.
	if squares > 0 {
		alike := min(max(successive/squares, 0), 0.95)
		t.Error *= math.Sqrt((1 + alike) / (1 - alike))
	}
	t.Grows = t.PerHour-2*t.Error > max(growsShare*meanY, growsLeast)
	return t
}
