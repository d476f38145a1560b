// Package runs is the readers' view of the ledger: every bulk submission, its rows and the
// result of each row, as the commands, the pages and the HTTP API show them.
//
// The runs are in [ledger.Ledger], whose rows are addressed by segment and row. This package
// numbers a run's rows over all of its segments, sums the counts of the segments, merges the
// lists of all tenants into one, and derives from a waiting row's memo why it is open.
//
// A single row is a run of its own, which [Ledger.List] and [Ledger.Page] leave out (see
// [Ledger.SubmitRow]). A run that has ended may be retried: it has the ids of its children,
// which repeat rows of it (see [Ledger.Adopt]).
//
// Times are Redis's: several machines write one ledger.
//
// Its files, each using those below it:
//
//	control.go   cancel, pause, resume, delete, adopt a child
//	page.go      pages of runs
//	list.go      all runs, and the open ones
//	rows.go      results, open rows, stored rows and evidence of a run
//	numbered.go  the rows of a run by their numbers over its segments
//	ledger.go    create and read a run, with exact counts
//	run.go       a run as readers see it
package runs
