package pace

import (
	"math"
	"strconv"
)

// gcra is a bucket, as the scripts take it: see lua/gcra.lua for its arithmetic, in whole
// microseconds.
type gcra struct {
	Field    string `json:"field"`    // of the tenant's hash, with the theoretical arrival time
	Interval int64  `json:"interval"` // between two permits; 0: unlimited
	Burst    int64  `json:"burst"`    // permits that fit into it, at least 1
}

// newGCRA rounds the interval up, so that the rate is never exceeded: above
// 10,000 a second that costs up to 1 % of it.
func newGCRA(field string, rate Rate, burst int) gcra {
	g := gcra{Field: field, Burst: int64(min(max(burst, 1), maxBurst))}
	if !rate.IsUnlimited() {
		const noise = 1e-6 // of binary fractions, which must not cost a microsecond
		interval := math.Ceil(1e6/rate.PerSecond() - noise)
		g.Interval = int64(min(max(interval, 1), maxInterval))
	}
	return g
}

const (
	maxBurst    = 100_000
	maxInterval = 3600e6 // an hour: slower is practically a standstill
)

// available returns how many permits can be taken at once, given the stored theoretical
// arrival time and the interval with which it was stored; empty: the bucket is full.
func (g gcra) available(now int64, stored, with string) int64 {
	tat, err := strconv.ParseInt(stored, 10, 64)
	if err != nil || g.Interval == 0 {
		return g.Burst
	}
	interval, err := strconv.ParseInt(with, 10, 64)
	if err != nil || interval <= 0 {
		interval = g.Interval
	}
	return max(g.Burst-(max(tat-now, 0)+interval-1)/interval, 0)
}
