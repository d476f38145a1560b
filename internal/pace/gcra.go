package pace

import (
	"math"
	"strconv"
)

// gcra is the arithmetic of the bucket, without clock or store, in whole
// microseconds: these stay exact in Lua's doubles until the year 2255.
//
// tat, the theoretical arrival time, is when the bucket will be full again; each
// permit moves it by interval. burst permits fit into the bucket.
type gcra struct {
	interval int64 // between two permits; 0: unlimited
	burst    int64 // at least 1
}

// newGCRA rounds the interval up, so that the rate is never exceeded: above
// 10,000 a second that costs up to 1 % of it.
func newGCRA(rate Rate, burst int) gcra {
	b := int64(min(max(burst, 1), maxBurst))
	if rate.IsUnlimited() {
		return gcra{burst: b}
	}
	const noise = 1e-6 // of binary fractions, which must not cost a microsecond
	interval := math.Ceil(1e6/rate.PerSecond() - noise)
	return gcra{interval: int64(min(max(interval, 1), maxInterval)), burst: b}
}

const (
	maxBurst    = 100_000
	maxInterval = 3600e6 // an hour: slower is practically a standstill
)

// available returns how many permits can be taken at once, given the stored theoretical
// arrival time; empty: the bucket is full.
func (g gcra) available(now int64, stored string) int64 {
	tat, err := strconv.ParseInt(stored, 10, 64)
	if err != nil || g.interval == 0 {
		return g.burst
	}
	return max(g.burst-(max(tat-now, 0)+g.interval-1)/g.interval, 0)
}
