// Command bench measures the project's real parts against what they are made
// of, on this machine:
//
//	go run ./internal/bench [verify|enqueue|all|pace|lookups|proofs|pages|sweep|idle|large|pickup|soak] [--redis-url URL] [--rows N] [--rounds N] [--json]
//
// verify is how many domains a second one worker takes from a row of two ids
// to a verified record, on a real Redis and against a sandbox without a limit
// in a process of its own. Beside it, alternating in the same run, stand an
// asynq handler that does nothing (what the queue alone allows) and a plain loop of as many goroutines that makes the
// same DNS and HTTP calls with the same clients (what the calls alone allow).
// The ratio to that loop is what queue, ledger and pace cost.
//
// enqueue is how many rows of domains verify (the two ids) a second a producer
// checks and stores, with random ids, and the memory that it and Redis take. In
// turn with it, 64 goroutines call asynq.Client.Enqueue with as many tasks of the
// same size, and read, check and store nothing. Each producer has a process of its
// own. With --dry-run the rows are only read, as enqueue --dry-run does.
//
// pace is the share of a tenant's rate that four workers use, each cmd/worker in a process, and
// the number of their requests that are refused: at 16/s with a burst of 50, with and without a reserve, alone
// and while others make 3 to 5 requests a second now and then; beside it 50
// goroutines that repeat twice what meets a 429. Then, how long ten rows to verify
// take that are submitted behind 20,000. It takes 35 minutes, most of them asleep,
// so all leaves it out.
//
// lookups is how many TXT look-ups a second a Checker makes at an NSD that the
// benchmark starts, which holds 100,000 names: over UDP, a socket and a port for
// each query, as it is in use, and over the TCP and TLS connections that are kept.
// Each finds its token, or is an error. Beside it, alternating, dnsperf asks for
// the same names over the same transport, as many at a time.
//
// proofs is how many proofs a second a Checker makes in mode auto, and how long each
// takes, by three resolvers and the two name servers of each name's zone: where it
// knows the zones' delegations, and where a new Checker has to find each. Resolvers
// and name servers are in the same process, on loopback addresses that Linux has, and
// take their share of the processor.
//
// sweep is how long a sweep of a tenant of 100,000 organizations takes, with one to
// three verified domains each, beside the time that its requests take at the tenant's
// rate alone: with cmd/worker in a process of its own, whose memory and processor time
// are told, and with a plain loop that lists and looks and writes nothing down. The
// tenant tells how often it was asked for what; the run and what is remembered of the
// domains are held against it. --kill kills the worker amid the sweep and starts it
// again: what it had under way comes back to it when its leases have run out, within
// two minutes.
//
// idle measures the cost of tenants without work: commands and connections to Redis, its processor
// time and that of a worker, with cmd/worker in processes of its own that serve 30 tenants. Then it
// times metrics, readiness and two pages, and the end of a worker after SIGTERM.
//
// large measures how soon a run of 160,000 rows is paused, resumed, cancelled and deleted while
// two workers execute it, and for how long Redis is busy with one command, also while a run of
// 500,000 rows is removed after its retention. As --redis-url give it a server that is used for
// nothing else: the slow log is that of all databases.
//
// pickup measures how long a single row takes from the call that submits it to its request
// to the tenant: of tenants whose last row is a moment ago, and of tenants that have been idle
// for a minute.
//
// soak loads two workers for an hour with ten tenants at 16/s: files of all kinds, single rows, sweeps,
// pages and metrics. Runs are deleted soon after their end, and rows name the same domains again and
// again, so that nothing has a reason to grow. Every minute it measures memory, goroutines and
// descriptors of the workers, and keys, memory and connections of Redis. It fits a line to the second
// half of each and reports which of them grow. Then it lists the keys that are left once all runs
// are deleted, and measures the memory of a row with its result.
//
// Without --redis-url it starts a redis-server of its own on a private port,
// which writes nothing to disk.
package main
