// Command bench measures the project's real parts against what they are made
// of, on this machine:
//
//	go run ./internal/bench [pickup|verify|enqueue|fresh|pace|all] [--redis-url URL] [--rows N] [--rounds N] [--json]
//
// pickup is how long an idle worker leaves a task lying: from the enqueue to
// the handler, beside a server with asynq's own interval of asking.
//
// verify is how many domains a second one worker takes from a row of two ids
// to a verified record, on a real Redis and against a sandbox without a limit
// in a process of its own. Beside it, alternating in the same run, stand an
// asynq handler that does nothing (two tasks a row, as ours has: what the
// queue alone allows) and a plain loop of as many goroutines that makes the
// same DNS and HTTP calls with the same clients (what the calls alone allow).
// The ratio to that loop is what queue, ledger and pace cost.
//
// enqueue is how many rows of domains verify (the two ids) a second a producer
// checks, stores and enqueues, both of its passes, and what memory it and Redis
// take for that. Beside it, alternating, 64 goroutines call asynq.Client.Enqueue
// with as many tasks of the same size, and read, check and store nothing. Each
// producer has a process of its own. With --dry-run the rows are read alone, as
// enqueue --dry-run does.
//
// fresh is how long a record that stands by the time its domain is looked at takes
// to the PATCH's arrival at the tenant: from the second in which the look is due, by
// the ledger, without a rate limit. Rows are handed in while their tokens do not
// stand, and each is published at some moment before its second look; alone, and in
// the same run with 10,000 other domains pending that were handed in between ten
// seconds and a day ago. It tells the parts too: until a worker takes the look up,
// until one takes up the confirm, until the PATCH.
//
// pace is how much of a tenant's rate four workers use, each a process, and what
// they are refused: at 16/s with a burst of 50, with and without a reserve, alone
// and while others make 3 to 5 requests a second now and then; beside it 50
// goroutines that repeat twice what meets a 429. Then, how long ten rows to verify
// take that are handed in behind 20,000. It takes 35 minutes, most of them asleep,
// so all leaves it out.
//
// Without --redis-url it starts a redis-server of its own on a private port,
// which writes nothing to disk.
package main
