// Command bench measures the parts of orgops, next to simpler programs that do the same work,
// in one run on this machine:
//
//	go run -C bench . [verify|enqueue|all|pace|idle|large|pickup] [--redis-url URL] [--rows N] [--rounds N] [--json]
//
// Without --redis-url it starts a redis-server on a private port, which writes nothing to disk.
//
// # verify
//
// The number of domains that one worker verifies a second, from a row of two ids to a verified
// record, on a real Redis and a sandbox without a rate limit; cmd/worker has a process of its own,
// as it is shipped. Two programs alternate with it: an asynq handler that does nothing, which is
// the limit of the queue, and a plain loop of as many goroutines that makes the same DNS queries
// and HTTP requests with the same clients, which is the limit of the calls. The ratio to the loop
// is the cost of queue, ledger and pace.
//
// # enqueue
//
// The number of rows of domains verify (two random ids) that a producer checks and stores a
// second, and the memory of the producer and of Redis. It alternates with 64 goroutines that
// call asynq.Client.Enqueue with as many tasks of the same size, and neither read, check nor
// store rows. Each producer has a process of its own. With --dry-run the rows are only read,
// as enqueue --dry-run does.
//
// # pace
//
// The share of a tenant's rate that four cmd/worker processes use, and the number of their
// requests that are refused: at 16/s with a burst of 50, with and without a reserve, without
// and with another client that makes 3 to 5 requests a second now and then. For comparison,
// 50 goroutines make the same requests and repeat a 429 twice. Then the time until ten rows
// are verified that are submitted behind 20,000. It takes 35 minutes, so all leaves it out.
//
// # idle
//
// The cost of tenants without work: commands and connections to Redis, and the processor time
// of Redis and of a worker, with cmd/worker processes that serve 30 tenants. Then the time of
// metrics, readiness and two pages, and of a worker's end after SIGTERM.
//
// # large
//
// How soon a run of 160,000 rows is paused, resumed, cancelled and deleted while two workers
// execute it, and the longest command of Redis meanwhile, also while a run of 500,000 rows is
// removed after its retention. The slow log is that of all databases, so --redis-url must name
// a server that is used for nothing else.
//
// # pickup
//
// The time from the call that submits a single row to its request at the tenant: of tenants
// that had a row a moment ago, and of tenants that have been idle for a minute.
package main
