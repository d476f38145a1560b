// Package scan finds the rows of runs whose rows are not submitted: it searches the tenant's
// organizations and their discovery domains for the pending ones of a run that verifies,
// and for those that a sweep checks.
//
//	Ledger.ScanCursor -> requests -> Ledger.AddStep -> Ledger.CommitFound
//	        ^                             |
//	        +-----------------------------+
//
// A scan is made in steps, each of up to fifty requests. The ledger stores a step with all
// its rows or not at all, and only if it is the next one: rows and cursor change together.
// So a page that is read twice, with other domains the second time, adds its rows once, and
// any number of scanners may work on a run. Another scanner continues at the cursor if one is
// killed.
//
// The worker whose dispatcher is the tenant's active one runs the [Scanner]. A step of a
// run that is paused, cancelled or deleted sends no request from a second later on;
// the answers received by then are stored.
//
// Organizations that cannot be read are put off, and tried again at the end of the scan.
// Those that still cannot be read are counted with the reason of the first. A scan that
// cannot continue ends early, with the reason: the rows that it found stay.
//
// # Files
//
// Each file uses those below it:
//
//	step.go     makes a step, and counts and stores its failures
//	read.go     the requests of a step
//	scanner.go  chooses the run that is next, and commits found rows
//	cursor.go   where a step begins and ends
//	pending.go  searches for pending domains
//	swept.go    searches for the domains of a sweep
//	request.go  the row of a listed record
package scan
