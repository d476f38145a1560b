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
//     block it for everybody; every 30 s one request is let through to see, and once
//     more if it repeats itself with a fresh token.
//   - While an operator has stopped the tenant ([Limiter.Stop]), requests that change
//     something get no permit.
//   - Within a process permits are given by [Class] and then in the order of
//     asking, no class passed over without end, and one goroutine at a time asks
//     Redis. Among processes chance decides: a little jitter keeps the one nearest
//     to Redis from always being first. Sweeps have a second bucket besides, of
//     their share.
//   - A worker whose Redis does not answer goes on at the rate divided by the
//     workers that were last counted, by its own clock (alone.go).
//
// # The bucket that others use too
//
// The API's bucket is every caller's. A third arrival time in the same script is
// what is believed of it: it fills at the full rate, each permit takes from it, and
// x-ratelimit-remaining can only lower it (seen.go). Permits stop where it is down
// to the reserve, or to as many as requests that overtake each other need: so with
// others at work the pace is what they leave, and the bucket that they meet is not
// empty. To believe too little costs nothing but a part of the next burst, since
// the bucket fills as fast at any level; that is why answers may come late and in
// any order. x-ratelimit-reset is not looked at but to bound a pause: sources
// disagree on its meaning.
//
// Of other laws, at 16/s and 50 with 3 to 5/s of others, to wait where an answer says that
// little is left had 0.7 % of its requests refused, a rate that falls after a 429 and rises
// again 0.2 to 0.4 % with 4 to 12 % unused, and none 0.6 to 1.2 %. This had 0.02 %, and 0.3 %
// where answers take a second.
//
// # The clock of Redis
//
// It may step, and a failover may lead to a replica whose clock is behind. Times
// that were stored before are then further ahead than was meant; when a script
// reads one, it brings it back to the furthest that can be meant (lua/stored.lua):
//
//   - A bucket is empty at the most, so that the next permit comes within one
//     interval, and a step back gives no burst. If the worker that set the arrival time has
//     other settings, it may be as far ahead as that worker set it: with a steady
//     clock nothing is ever brought back, and workers with different settings take
//     no more together than before.
//   - A pause lasts no longer than its own length from then on, and a pause that
//     is over does not come back.
//   - The probe of a blocked operation is due within 30 s, and workers are counted
//     for two minutes more.
//
// A step forward is time that passes: it fills the bucket, and ends a pause.
// A time that an older version stored has no length beside it: then the reader's
// settings bound it, and an hour bounds a pause.
//
// # Keys
//
//	orgops:v1:{tenant:<name>}:pace      hash: tat, api_tat, sweep_tat and paused_until in µs, blocked:<operation>, used:<0 to 11>, stopped;
//	                                    of the first four <field>_set: the time it was set from, and how far ahead of that it was, in µs
//	orgops:v1:{tenant:<name>}:workers   sorted set: workers by when they last said that they are there, in µs
//	orgops:v1:{tenant:<name>}:settings  JSON: what workers told of the tenant
package pace
