package pace

// For the test that holds gcra.go and lua/gcra.lua together.

type GCRA = gcra

func NewGCRA(rate Rate, burst int) GCRA { return newGCRA(rate, burst) }

func RawGCRA(interval, burst int64) GCRA { return gcra{interval: interval, burst: burst} }

func (g gcra) Interval() int64                        { return g.interval }
func (g gcra) Burst() int64                           { return g.burst }
func (g gcra) Take(now, tat int64) (next, wait int64) { return g.take(now, tat) }
func (g gcra) Refund(tat int64) int64                 { return g.refund(tat) }
func (g gcra) Drain(until, tat int64) int64           { return g.drain(until, tat) }
func (g gcra) Bound(due, meant, tat int64) int64      { return g.bound(due, meant, tat) }
func Lua() string                                     { return gcraLua }
