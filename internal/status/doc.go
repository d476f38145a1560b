// Package status describes runs, rows, domains, sweeps and tenants. Each has one type, which
// commands print as text (package terminal) or as JSON, pages render, and the HTTP API sends. A
// member without a value is left out of the JSON. The doc comment of a type says who may see it.
// The package reads, and changes nothing: that is package actions. The files, each using those
// below it:
//
//	tenants.go   the state of many tenants, and warnings
//	filter.go    lists of runs, by filters
//	tenant.go    the state of a tenant
//	refused.go   whether the API refuses a tenant's requests, and whose they are
//	details.go   a run with what only readers and operators see
//	estimate.go  rate, time left and obstacles of runs
//	report.go    the state of a domain for its owner
//	domain.go    a domain's rows and its recorded state
//	find.go      domains by name or id
//	swept.go     the state of a domain recorded by sweeps
//	sweep.go     rules, schedule and results of a tenant's sweeps
//	check.go     a check of a TXT record now
//	waiting.go   the reasons of a run's open rows
//	failed.go    the reasons of its failed rows
//	rows.go      a row; the open and the failed rows of a run, and their names
//	run.go       a run, its state and counts
//	undo.go      how the changes of a run are undone
//	scan.go      the scan that finds a run's rows
//	obstacles.go reads why rows of a tenant are not executed, and says which runs that concerns
//	text.go      facts, times, and text that is safe to print
package status
