// Package pace is a tenant's budget of API requests, shared by the whole fleet.
//
// Every request waits for a permit of a [Limiter]. The limiters of all workers
// of a tenant share one token bucket in Redis, by Redis' clock: a permit is one
// script, which reads blocks, pause and bucket in one step, so that no two
// workers spend the same permit. The bucket is the generic cell rate algorithm
// (GCRA): one number, the theoretical arrival time, is its level (lua/gcra.lua).
//
//   - A 429 pauses the tenant for the fleet, for as long as the API says by its
//     own clock; after the pause the bucket is empty, so that there is no burst, and one request
//     tries whether the API accepts any: others follow its answer. If the
//     headers and the pace show that the tenant's budget is not used up, as for a limit of
//     one endpoint, it pauses that operation alone (refusal.ofTenant).
//   - Responses that show that an operation cannot work (for example a missing
//     scope) block it for the fleet. One request is let through as a probe after 30 s,
//     then at longer and longer intervals, at most five minutes, and once more if it
//     is repeated with a fresh token. The block ends with the first answer that only a
//     client with the scope gets, such as a 404, or when nobody probes any more although no
//     pause or stop prevents it.
//   - Requests without an answer are counted. An API that hangs gets no more of them than it
//     allows at once, or in a second if that is more: each worker has an equal share, by
//     its own count, so that one that dies leaves nothing behind.
//   - While an operator has stopped the tenant ([Limiter.Stop]), requests that change
//     something get no permit.
//   - Within a process permits are given by [Class] and then in the order of the
//     requests, no class waits forever, and one goroutine at a time calls Redis.
//     Among processes chance decides: a little jitter keeps the one nearest to Redis
//     from always being first. Sweeps also have a bucket of their share.
//   - Without Redis there are no permits: a worker could not know of a stop. A Redis that
//     refuses writes gives none either; stop, blocks and pause are read before anything
//     is written, and stored at maxmemory too.
//
// # The bucket that others use too
//
// All callers of the tenant share the API's bucket. A third arrival time in the same script
// estimates its level: it fills at the full rate, each permit takes from it, and
// x-ratelimit-remaining can only lower it (seen.go). Permits stop at the reserve, or at the
// margin for requests that overtake each other: so the fleet uses the part of the rate that
// other callers leave, and these do not find the bucket empty. An estimate that is too low
// costs only a part of the next burst, since the bucket fills as fast at any level; so
// responses may arrive late and in any order. x-ratelimit-reset only bounds a pause: sources
// disagree on its meaning.
//
// Alternatives were measured at 16/s and a burst of 50, with 3 to 5/s of other callers. With a
// wait whenever a response reports a low level, 0.7 % of the requests were refused; with a
// rate that falls after a 429 and rises again, 0.2 to 0.4 %, and 4 to 12 % of the rate was
// unused; without either 0.6 to 1.2 %. With the estimate 0.02 % were refused, and 0.3 % if
// responses take a second.
//
// # The clock of Redis
//
// It may step, and a failover may lead to a replica whose clock is behind. Times that were stored
// before are then further ahead than they were meant to be. So a bucket is empty at the most,
// whatever is stored, a pause lasts an hour at the most, and a probe that is more than five
// minutes ahead is due. Workers whose settings differ, as while these are changed, share the
// buckets by the number of missing permits: a time that was stored with another interval is
// converted, or one would fill the bucket of the other, and a raised rate would begin after the
// former bucket is full. A step forward is time that passes: it fills the bucket, and ends a
// pause.
//
// # Files
//
// Each file uses those below it:
//
//	state.go    reads the state of a budget
//	limiter.go  gives permits, and records answers, pauses and blocks
//	seen.go     the API's bucket as responses show it, and whose limit a 429 is
//	line.go     the order of requests within a process
//	stop.go     an operator's stop of a tenant
//	errors.go   the result of a request for a permit, and its errors
//	gcra.go     the interval and burst of a bucket
//	rate.go     rates and limits, and how they are written
//	clients.go  the limit of clients per request that the API accepts
//	scripts.go  the scripts, and the names in Redis
//
// # Keys
//
//	orgops:v1:{tenant:<name>}:pace      hash: tat, api_tat and sweep_tat in µs, and of each <field>_interval, with which it was stored;
//	                                    paused_until, paused:<operation>, tried, tried:<operation>, blocked:<operation>, blocked_since:<operation>, blocked_fix:<operation>, refused_since, refused_since:<operation>, used:<0 to 11>, stopped
//	orgops:v1:{tenant:<name>}:workers   sorted set: workers by when they were last counted, in µs
package pace
