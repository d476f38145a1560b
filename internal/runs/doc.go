// Package runs reads the runs of the ledger for people: the commands, the pages and the HTTP
// API.
//
// The runs are in [ledger.Ledger], whose rows are addressed by segment and row. This package
// numbers a run's rows over all of its segments, sums the counts of the segments, merges the
// lists of all tenants into one, and derives from a waiting row's memo why it is open. A run
// is a [ledger.Run], with exact counts and texts that are safe to show: see [Ledger.Exact].
// [Ledger.Core] creates and controls runs.
//
// A single row is a run of its own, which [Ledger.List] and [Ledger.Page] leave out (see
// [ledger.Ledger.SubmitRow]). A run that has ended may be retried: it has the ids of its
// children, which repeat rows of it (see [ledger.Ledger.Adopt]).
//
// Times are Redis's: several machines write one ledger.
//
// Its files, each using those below it:
//
//	page.go      pages of runs
//	list.go      all runs in their order, and the open ones
//	rows.go      results, open rows and their reasons, stored rows and evidence of a run
//	numbered.go  the rows of a run by their numbers over its segments
//	ledger.go    a run with exact counts, and its cancel
package runs
