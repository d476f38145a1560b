package pace

// Interval returns the microseconds between two permits.
func Interval(rate Rate) int64 { return newGCRA("", rate, 1).Interval }
