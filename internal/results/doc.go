// Package results reads the rows of runs as the ledger stores them, and what became of them: it
// writes results, and failed rows, as files that can be submitted again, finds the rows about a
// domain, returns the proofs of domains, and says which rows can be submitted again. It changes
// nothing. Package intake submits rows.
//
// Rows are read a chunk at a time, so that memory does not grow with a run. A run that is deleted
// meanwhile ends an export with [ledger.ErrNotFound]; searches over runs leave it out.
//
// A file uses those below it:
//
//	domain.go        the rows about a domain
//	proofs.go        the proofs of domains
//	export.go        results and failed rows, as files
//	stored.go        a run's rows as they are stored
//	retry.go         which failed rows can be submitted again, and why others cannot
package results
