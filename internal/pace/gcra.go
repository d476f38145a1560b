package pace

import "math"

// gcra is the arithmetic of the bucket, without clock or store, in whole
// microseconds: these stay exact in Lua's doubles until the year 2255.
//
// tat, the theoretical arrival time, is when the bucket will be full again; each
// permit moves it on by interval. burst permits fit into the bucket.
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
	maxInterval = 3600e6 // an hour: what is slower cannot be told from a standstill
)

// take asks for a permit at now. It returns the tat to store, or, unchanged, the
// one given and how long to wait before there can be a permit.
func (g gcra) take(now, tat int64) (next, wait int64) {
	next = max(now, tat) + g.interval
	if wait = next - g.burst*g.interval - now; wait > 0 {
		return tat, wait
	}
	return next, 0
}

// refund takes a permit back that was not used.
func (g gcra) refund(tat int64) int64 { return tat - g.interval }

// bound returns tat, which a clock that has stepped back may have left too far ahead,
// but at most an empty bucket's at due, the present or the end of a pause. meant is how
// far ahead of due its writer set it: with other settings that may be further. Without a
// step bound changes nothing, so that workers with different settings, of which one
// waits for permits of the other, take no more together than without it.
func (g gcra) bound(due, meant, tat int64) int64 {
	return min(tat, due+max(g.burst*g.interval, meant))
}

// drain empties the bucket so that its first permit is at until, and the others
// follow one by one.
func (g gcra) drain(until, tat int64) int64 {
	return max(tat, until+(g.burst-1)*g.interval)
}
