// Package pace is a tenant's budget of API requests, shared by the whole fleet.
//
// Every request waits for a permit of a [Limiter]. The limiters of all workers
// of a tenant are one token bucket in Redis, on Redis's clock: a permit is one
// script, which looks at blocks, at the pause and at the bucket in one step, so
// that no two workers spend the same one. The bucket is the generic cell rate
// algorithm (GCRA): one number, the theoretical arrival time, says how full it
// is. gcra.go and lua/gcra.lua are the same arithmetic, and one test table
// holds them together.
//
//   - A 429 pauses the tenant for everybody, for as long as the API says on its
//     own clock; after it the bucket is empty, so that nobody rushes.
//   - Answers that show that an operation cannot work (a scope is missing, say)
//     block it for everybody; every 30 s one request is let through to see.
//   - Within a process permits are given in the order of asking, and one
//     goroutine at a time asks Redis. Among processes chance decides: a little
//     jitter keeps the one nearest to Redis from always being first.
//
// # Keys
//
//	orgops:v1:{tenant:<name>}:pace      hash: tat and paused_until in µs, blocked:<operation>, used:<0 to 11>
//	orgops:v1:{tenant:<name>}:settings  JSON: what workers told of the tenant
package pace
