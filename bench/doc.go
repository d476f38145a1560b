// Command bench measures the parts of orgops, next to simpler programs that do the same work,
// in one run on this machine:
//
//	go run -C bench . [verify|enqueue|all|pace|idle|large|pickup] [--rows N] [--rounds N]
//
// It starts a redis-server on a private port, which writes nothing to disk, and writes the results
// as JSON objects.
//
// # verify
//
// The number of domains that one worker verifies a second, from a row of two ids to a verified
// record, on a real Redis and a sandbox without a rate limit; cmd/worker has a process of its own,
// as it is shipped. A plain loop of as many goroutines alternates with it, which makes the same DNS
// queries and HTTP requests with the same clients: the limit of the calls. The ratio to the loop
// is the cost of queue, ledger and pace. Aims: a ratio of 0.7, 5.5 scripts and 2.02 requests a row.
//
// # enqueue
//
// The number of rows of domains verify (two random ids) that a producer checks and stores a
// second, and the memory of the producer and of Redis. It alternates with 64 goroutines that
// call asynq.Client.Enqueue with as many tasks of the same size, and neither read, check nor
// store rows. Each producer has a process of its own. Aims: 100,000 rows a second, a ratio of 2,
// and a peak of 64 MB.
//
// # pace
//
// The share of a tenant's rate that four cmd/worker processes use, and the number of their
// requests that are refused: at 16/s with a burst of 50, with and without a reserve, without
// and with another client that makes 3 to 5 requests a second now and then. For comparison,
// 50 goroutines make the same requests and repeat a 429 twice. Then the time until ten rows
// are verified that are submitted behind 20,000 (aim: 10 s). It takes 35 minutes, so all leaves it
// out.
//
// # idle
//
// The cost of tenants without work: commands and connections to Redis, and the processor time
// of Redis and of a worker, with cmd/worker processes that serve 30 tenants. Then the time of
// metrics, readiness and some pages, and of a worker's end after SIGTERM. Aims: one command a
// second of each tenant and worker, and 20 connections; 5 % of a core for Redis with 100 tenants
// and 4 workers; with 1,000 tenants 300 MB a worker, 1 s for metrics and readiness, 0.5 s for a
// page.
//
// # large
//
// How soon a run of 160,000 rows is paused, resumed, cancelled and deleted while two workers
// execute it, and the longest command of Redis meanwhile, also while a run of 500,000 rows is
// removed after its retention. Aims: 2 s until a command takes effect, and 10 ms for the longest.
//
// # pickup
//
// The time from the call that submits a single row to its request at the tenant: of tenants
// that had a row a moment ago, and of tenants that have been idle for a minute. Aims for half of
// the rows, and for 99 of 100: 10 and 25 ms of active tenants, 50 and 200 ms of idle ones.
package main
