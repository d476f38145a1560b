// Package runs is the ledger: every bulk submission, its rows, and what became
// of each row, in Redis.
//
// A run is created, its rows are stored in chunks of [ChunkRows] before any
// work on them begins, and it is sealed once the producer knows how many there
// are. Rows are settled one by one or many at a time, each counted once however
// often that is repeated. A run has ended when it is sealed and every row is
// settled, in whichever order the two come about; 30 days later, or after as long as
// it was created to be kept, Redis forgets it. To cancel a run is to seal it as it is and to settle what is open, but for
// the rows that have begun: what became of their requests is found out first.
//
// A row that was submitted by itself is a run of its own, which List leaves out
// (see [Ledger.SubmitRow]). A run that has ended may be retried: it
// keeps the ids of its children, which repeat rows of it (see [Ledger.Adopt]).
//
//	            Create             Seal                last Settle
//	(nothing) ----------> open ----------> sealed ----------------> ended
//	                       |   Settle, Note, Looked ... |     Retention |
//	                       +----------------------------+               v
//	                                                               (nothing)
//
// # The core
//
// Runs of the kinds of [InCore] are in [Ledger.Core], and this package is the way to read
// and control them as well: methods for readers and operators find a run in the core
// first. What tasks and producers do with rows they do with the core itself.
//
// # Keys
//
// All keys of a run share the hash tag {run:<id>}, thus one slot of a Cluster,
// and each change of a run is one script, thus atomic:
//
//	orgops:v1:{run:<id>}:run        hash: what Run says, count:<outcome> each
//	orgops:v1:{run:<id>}:settled    bitmap: a bit for each settled row
//	orgops:v1:{run:<id>}:cancelled  bitmap: those among them settled as cancelled
//	orgops:v1:{run:<id>}:told       bitmap: rows that have an entry in fates
//	orgops:v1:{run:<id>}:fates      hash: row -> outcome:detail; row:evidence -> the evidence kept with the outcome
//	orgops:v1:{run:<id>}:notes      hash: open row -> next look in ms:reason
//	orgops:v1:{run:<id>}:kept       hash: row:name -> mark
//	orgops:v1:{run:<id>}:begun      bitmap: open rows whose one request may be under way
//	orgops:v1:{run:<id>}:intents    hash: row that has begun -> name:mark
//	orgops:v1:{run:<id>}:rows       hash: first row of a chunk -> its SHA-256, then the chunk, compressed
//	orgops:v1:{run:<id>}:scratch    bitmap: only while a script runs
//	orgops:v1:runs                  sorted set: ids by creation in ms
//	orgops:v1:runs:sealed           set: ids that are sealed and may not have ended
//	orgops:v1:runs:untold           set: ids of which nobody was told yet that they have ended
//	orgops:v1:runs:reconciled       string: there until it is someone's turn again to look for lost rows
//
// A million rows that are plainly done cost 125 KB and the rows themselves.
//
// Times are Redis's: several machines write one ledger.
package runs
