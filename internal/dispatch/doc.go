// Package dispatch releases due rows of a tenant into asynq, only as many as the workers
// can start within about a second. So priority, fairness, a cancel, a pause and a
// changed rate take effect within a second or two, however many rows are open.
//
// Every worker runs a [Dispatcher] for each of its tenants. One of them is active: the
// holder of a short lease in Redis, and of several the one with the highest protocol
// number. Two at a time do no harm, since a row is released by one script.
// Once nothing was due or in progress for ten seconds the active one sleeps until the next due time
// or [Dispatcher.Wake], for ten seconds at most, with a lease that lasts three seconds longer. A
// wake-up reaches all workers: the next one shortens that lease, in case the sleeper is dead.
//
//	index of due segments --> Round --> Plan --> Release --> asynq
//	                            |
//	                            +-- runs: of which stages rows may be due
//	                            +-- window: free places and starts per second
//	                            +-- permits: one second of the tenant's pace, or its burst
//	                            +-- the queue's and the tenant's pause, stop, blocks
//
// [Round.Plan] alone shares what may be released: it depends on its round and on nothing else, and
// returns for each stage of each run a number of tasks or the reason why none. [Window] and
// [Permits] are what lasts between rounds. The scripts of the ledger keep the index, and choose the
// rows: of a run that is paused, cancelled or not yet to start only those with an intent.
//
// The active dispatcher also makes rows of dead sessions due, and finishes runs that have ended.
// Once a minute it deletes runs after their retention, and trims asynq's archive.
//
// Files, each uses those below it:
//
//	dispatcher.go           the loop: election, rounds
//	upkeep.go, ends.go      once a minute; the follow-ups of a run's end
//	take.go                 due segments from the index
//	release.go              a round: the plan, and rows into tasks
//	segments.go             the segments in memory
//	plan.go, limits.go      how many tasks, for which runs and stages
//	queue.go, lease.go      enqueues tasks, trims the archive; the lease in Redis
package dispatch
