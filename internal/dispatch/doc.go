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
//	index of due segments --> candidates --> Plan --> Release --> asynq
//	                                           |
//	                                           +-- window: free places and starts per second
//	                                           +-- permits: one second of the tenant's pace, or its burst
//	                                           +-- blocks: a probe every 30 s
//
// [Plan], [Window], [Permits] and [Gate] decide, and do nothing else. The scripts of the ledger
// keep the index.
//
// The active dispatcher also makes rows of dead sessions due, and finishes runs that have ended.
// Once a minute it deletes runs after their retention, and trims asynq's archive.
//
// Files, each uses those below it:
//
//	dispatcher.go           the loop: election, rounds
//	upkeep.go, ends.go      once a minute; the follow-ups of a run's end
//	take.go                 due segments from the index
//	release.go              rows of a run, and of runs of one row, into tasks
//	segments.go             the segments in memory, and the sorts of rows
//	plan.go, limits.go      how many rows, of which runs
//	queue.go, lease.go      asynq's queue; the lease in Redis
package dispatch
