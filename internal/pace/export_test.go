package pace

// For the test that compares lua/gcra.lua with the same arithmetic in Go.

type GCRA = gcra

func NewGCRA(rate Rate, burst int) GCRA { return newGCRA(rate, burst) }

func RawGCRA(interval, burst int64) GCRA { return gcra{interval: interval, burst: burst} }

func (g gcra) Interval() int64 { return g.interval }
func (g gcra) Burst() int64    { return g.burst }
func Lua() string              { return source("gcra") }

// Take requests a permit at now. It returns the tat to store and 0, or the unchanged tat and
// the time until a permit can be available.
func (g gcra) Take(now, tat int64) (next, wait int64) {
	next = max(now, tat) + g.interval
	if wait = next - g.burst*g.interval - now; wait > 0 {
		return tat, wait
	}
	return next, 0
}

// Refund returns an unused permit.
func (g gcra) Refund(tat int64) int64 { return tat - g.interval }

// Bound limits tat, which a clock that has stepped back may have left too far ahead, to that
// of an empty bucket at due, the present or the end of a pause. meant is how far ahead of due
// its writer set it, which may be further with other settings. Without a step, Bound changes
// nothing: it does not let workers with different settings, of which one waits for permits of
// the other, take more.
func (g gcra) Bound(due, meant, tat int64) int64 {
	return min(tat, due+max(g.burst*g.interval, meant))
}

// Drain empties the bucket so that its first permit is available at until, and the others
// follow one by one.
func (g gcra) Drain(until, tat int64) int64 {
	return max(tat, until+(g.burst-1)*g.interval)
}
