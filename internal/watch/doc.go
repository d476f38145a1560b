// Package watch stores the states of a tenant's domains from sweep to sweep, and the ticks of
// its schedule, in Redis.
//
// States are bytes to this package. Each is replaced only by a caller that knows the former
// one, so that of two executions of a row one writes. All keys of a tenant share a hash tag.
package watch
