// Package ledger stores runs: submitted rows, the due time of each, its execution and its
// result.
//
// A run is a header and segments of at most [SegmentRows] rows. A row is in one place,
// its segment, from its submission to the end of the run's retention:
//
//	         Stage, Commit           Release                    Begin
//	(nothing) ----------> queued ------------> released ----------------> in progress
//	                                   ^          | ReleaseTimeout, GiveBack  |
//	                                   |          v                           +-- End: Result --> settled
//	                                   +------ waiting <-- End: Waiting, -----+
//	                                              ^        GiveBack           |
//	                                              +- Reclaim, ExecutionLimit -+
//
// All keys of a tenant share a hash tag, so that they are in one slot of a Cluster: a script
// changes header, segment and lists together, and a Redis that loses its last second loses the
// last part of a tenant's history, never one of its middle. A Cluster spreads tenants. So a tenant
// is bounded by one node: some 20 million waiting rows on 8 GB, and several times the requests that
// the API takes. While a Cluster moves a tenant's slot, scripts fail with TRYAGAIN, as they name
// keys that do not exist, and the tenant waits.
//
// # Submitting
//
// A producer creates a run, stages its rows with a [Stager], and commits. Staged rows are not
// released. A row whose result is known by then, such as an invalid one, is settled when it is
// staged ([Stager.AddSettled]). Two seconds after the commit it calls [Stager.Verify], since Redis
// may lose the writes of its last second; then it submits the rows again. One stager at a time
// stages the rows of a run: the one that began last, from the first row on. So the producer that
// repeats one which was killed, or lost its Redis, needs to know nothing of it. An abandoned staged
// run is deleted by [Ledger.DeleteOld] after a day.
//
// [Ledger.SubmitRow] does all of this for a single row, by one script. There may be very many of
// them: lists of runs leave them out, and header, segment and row are one hash, which takes some
// 830 bytes while the row is open and 1,100 once it has ended. Single rows that share a request,
// such as removals of one organization, are due in the index at the next multiple of their wait, so
// that the dispatcher finds them together; each begins and ends in its own segment.
//
// # Scans
//
// The rows of a run may be found by a scan instead of being submitted ([NewRun.Scan]). Such a
// run is committed without rows when it is created, and grows. Since Redis may lose its
// last second, its creator calls [Ledger.Create] again two seconds later.
//
// The scan is a row, in a segment of its own ([ScanSegment]), which is released, begun and ended
// like any other. Its content is the position of the scan. An execution appends the rows that it
// finds there to the last segment of the run, and replaces the position ([Ledger.AddStep]).
// Keys of the rows are stored with them, so that a row which is listed twice, or found again by a
// step that is repeated, is there once. Found rows wait for their due time, even if that is at
// once.
//
// The run takes rows until the scan's row is settled, and ends when all rows are. A cancelled run
// takes no more.
//
// # Executing
//
// A dispatcher releases due rows of a segment, with a random token, and enqueues them. A
// worker exchanges the token for a nonce of its own ([Ledger.Begin]). That succeeds for
// one execution, however often a row is delivered, and each later write carries the
// nonce. An execution ends with [Ledger.End]: for each row with a [Result], a [Waiting]
// or a [GiveBack]. If it ends without one the row is due again, and the next execution
// finds the attempt counted. There is no search for lost rows.
//
// A worker renews its session every [RenewEvery]. The tenant has the number of rows in progress by
// session and segment, so that those of dead sessions are reclaimed without a search
// ([Ledger.ReclaimDead]). Rows of an execution beyond [ExecutionLimit] are released again:
// also those of one whose End Redis has lost.
//
// Rows are released first in the order of their numbers, or those of one group after the other
// ([Stager.Group]). The dispatcher says how many of a group share a task, and so a request: see
// [Quota].
//
// Which segments to inspect, and when, a dispatcher reads from its tenant's index
// ([Ledger.TakeDue]). Each script that makes a row due stores it there, and a release stores
// when the segment is due next, so that a segment is inspected too early at worst. What a
// dispatcher has read is due again ten seconds later, in case it dies.
//
// Before a request whose answer may be lost, the execution stores an intent
// ([Ledger.Intend]). A row with an intent is finished even if its run is paused or
// cancelled: the result of that request is found out, and no other request begins. Each
// [Receipt] reports whether the run is stopped or cancelled.
//
// # Controls
//
// Whether a run is paused or cancelled is in its header, which the scripts of its segments read: it
// holds from the next command on. A cancel settles the rows of each segment afterwards, or
// the dispatcher does when it inspects them.
//
// # The end
//
// The script that settles the last row of a run ends it. [Ledger.TakeDue] returns the run until
// [Ledger.Finish], which the dispatcher calls after notifications and other follow-ups of the end.
// From then on its retention counts, at the end of which [Ledger.DeleteOld] deletes it. If the
// follow-ups fail, [Ledger.NoteStuck] puts them off for a minute.
//
// # Keys
//
// Each line of keys shares a hash tag, thus a slot of a Cluster, and every script
// touches one slot.
//
//	orgops:schema                      string: the version of all of this: see [Ledger.CheckSchema]
//	orgops:v3:tenants                  set: the tenants that have or had a run
//	orgops:v3:{sessions}:seen          sorted set: sessions by their last renewal in ms
//	                    :about         hash: session -> Session as JSON
//	                    :since         string: from when on the fleet has renewed without a gap, in ms
//	orgops:v3:{tenant:<tenant>}:runs   sorted set: <run>/<incarnation> by creation in ms
//	                           :singles the same, of single rows that are not finished; they are not in runs
//	                           :runs_of:<hash> the same, of the runs of a caller, by the SHA-256 of its name
//	                           :open   the same, of runs that are not finished, by the clock by which runs are
//	                                   deleted
//	                           :staged the same, of those that are not committed
//	                           :finishing sorted set: runs that have ended and are not finished, by their end in ms,
//	                                   or by when the follow-ups of the end are tried again
//	                           :stuck  sorted set: runs by when they were last found to make no progress, in ms
//	                           :ended  sorted set: finished runs by when they are deleted, in ms; 0: that is
//	                                   under way
//	                           :due    sorted set: <run>/<incarnation>/<number> of segments by when they are
//	                                   to be inspected, in ms, in a day at the latest; or, if that is at once,
//	                                   by since when, less 2^42 ms
//	                           :names  sorted set, all with the score 0: <name>\1<id>\1<time><about> of subjects
//	                           :ids    hash: four digits of the SHA-1 of an id -> \1<id>\2<name> of each such id
//	                           :sessions hash: <session>,<run>/<incarnation>/<number> of segments -> number of rows
//	                                   that the session has in progress there
//	                           :clock  hash: Redis' time of the last DeleteOld, and the time by which runs are
//	                                   deleted, in ms
//	...:run:<id>:header                hash: see Run; results with which rows were staged apart from those of the run
//	            :sums                  string: number of rows and digest of each segment, 18 bytes each
//	            :seen                  set: keys of the rows that a scan has found, until its last step
//	...:<incarnation>.<number>:head    hash: numbers of rows, place of the next row to release, whether a
//	                                   cancel has settled the rows
//	            :order                 string: the rows in the order of release, if that is not the one of their
//	                                   numbers: two bytes each, the top bit set for the first row of a piece
//	            :chunks                hash: number -> compressed rows, 128 or fewer; 32 of those that a scan has found
//	            :first                 sorted set: waiting rows that were never in progress, by due time in ms; they
//	                                   are the first in order, if they were never released
//	            :check :ready          the same, of other rows at these stages that have no intent
//	            :intended_check :intended_ready  the same, of rows at these stages that have one
//	            :values                hash: row -> <stage><attempts>,<first begin in ms>,<first characters of the token or
//	                                   nonce that ended last><executions that died since>;<memo>, or with a note
//	                                   ,<size of note>;<note><memo>
//	            :released :running     sorted sets: rows by when they were released, or began, in ms
//	            :executions            hash: row -> r<token>, or b<nonce>,<session>; and due<row> -> by when, in ms, a row
//	                                   in progress shall be due again
//	            :intents               hash: row -> <time in ms>:<intent>
//	            :settled :cancelled    bitmaps: a bit for each row
//	            :results               hash: row -> <outcome>:<detail>, a NUL and evidence
//	            :effects               string: when each row was settled by an execution, in Unix seconds, four bytes
//	                                   each; none of a single row, whose run ends then
//	            :claims                string: the number of the child that has claimed each row, two bytes each
//
// A row is only in the settled bitmap if it was simply done, in both bitmaps if it was
// simply cancelled, and in the results otherwise. Rows that a cancel has settled may remain
// in values, released and executions until the segment is closed. The keys named scratch and
// mask exist only while a script runs.
//
// # Reading
//
// [Ledger.Each] returns the rows of a run, or some of them, by their numbers, which count over its
// segments. [Ledger.Page] and the lists merge those of all tenants. Label, caller and details come
// from outside: they are returned cut and with escapes. Memos, notes and evidence are returned as
// they were written.
//
// # Repeating
//
// Settled rows of a run are repeated by another, its child. The parent has the ids of its children
// ([Ledger.Adopt]), and each row the number of the child that has claimed it ([Ledger.Claim]), so
// that two children never repeat the same row. A claim is stored before the child's row. A child is
// committed only if it has claimed as many rows as it has: so a claim that Redis loses is noticed.
// The claims of a child that is cancelled or deleted before its commit do not count. Those of one
// that is deleted later do.
//
// # Names
//
// An execution that has read the object of its row, such as a domain, ends with that [Subject]: the
// script of the end stores it in the tenant's index of names, where people find it by its name or
// the beginning of it ([Ledger.Subjects]), and by its id ([Ledger.Subject]).
//
// # Guarantees
//
//   - A run is in its tenant's lists as long as it has a header, in that of ended runs while its
//     segments are removed: an interruption leaves no key that no list leads to.
//   - Tokens and nonces are random and compared for equality. If Redis has lost its last
//     second, none is issued twice. So is the incarnation of a run, which is in its keys and in
//     every task: a task of a deleted run finds no rows of a later one with the same id.
//   - A script writes all or nothing: it first asks Redis 7 whether the user may run each of its
//     commands, since Redis undoes nothing of a script that fails half-way.
//   - At most one execution of a row writes to it at any time. Its effects outside
//     are another matter: an execution that was fenced out may have a request
//     under way, whose intent its successor reads.
//   - Whatever ends an execution, stops work, frees memory or keeps a fleet alive works
//     while Redis is at maxmemory. Create, Stage, Commit, Release and Intend are refused
//     there, with [ErrNoMemory], and so is AddStep.
//   - A script writes or reads rows of one segment: at most
//     128 rows and 128 KiB, or 1,000 due times, or it
//     releases 250 rows of 512 KiB. Longer operations are divided, apart from index entries: a
//     commit, a resume, a cancel and a deletion store or remove one for each segment of a run.
//   - All times are Redis'. A jump of its clock by more than an hour, ahead or back,
//     deletes nothing, and no time counts in which DeleteOld is not called: the time by which runs
//     are deleted advances with its calls. No key expires by itself.
//
// # Files
//
// Each uses those below it:
//
//	submit.go, stager.go  a producer's side: single rows, and runs of many
//	scan.go               the steps of a scan, and the rows that it finds
//	group.go, stage.go    rows that are released together; the storing of a segment
//	due.go                the dispatcher's side: due segments, and wake-ups
//	delete_old.go         deletion after the retention, and of leftovers
//	control.go            pause, cancel and the finished end
//	stuck.go              runs that make no progress
//	create.go, delete.go  the beginning of a run, and its deletion
//	children.go           runs that repeat rows of another
//	session.go            living and dead workers
//	execution.go          the writes of an execution
//	names.go              the index of names: the objects of rows
//	rows.go               the rows of a run, for readers
//	begin.go, release.go  the begin of an execution; the release of rows
//	segment.go            the sums of segments
//	receipt.go            the answer to a write
//	list.go               lists and pages of the runs of tenants
//	class.go              which runs are served first
//	header.go, run.go     the header of a run, as it is stored; its type
//	schema.go             versions of the data
//	note.go               the note of a row that stays open
//	outcome.go            outcomes and results
//	codec.go              rows as they are stored
//	scripts.go, keys.go   scripts with their limits, and keys
//	errors.go, id.go, ledger.go
package ledger
