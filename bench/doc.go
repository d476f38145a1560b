// Command bench measures the parts of orgops, next to simpler programs that do the same work,
// in one run on this machine:
//
//	go run -C bench . [verify|enqueue|all|pace] [--rows N] [--rounds N]
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
package main
