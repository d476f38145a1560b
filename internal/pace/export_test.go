package pace

// For the tests of lua/gcra.lua.

// Interval returns the microseconds between two permits.
func Interval(rate Rate) int64 { return newGCRA("", rate, 1).Interval }

// Lua returns lua/gcra.lua.
func Lua() string { return source("gcra") }
