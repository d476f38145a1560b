// Package status describes runs, rows, domains and sweeps to people: for the commands, the
// pages and the intake over HTTP alike. Its files, each using those below it:
//
//	follow.go    progress of runs until they have ended
//	actions.go   cancel, pause, resume, retry, sweep: the effect in words
//	acts.go      who did what to a run or a tenant
//	estimate.go  rate, time left and obstacles of runs
//	domain.go    a domain's rows and its recorded state
//	swept.go     the state of a domain recorded by sweeps
//	sweep.go     rules, schedule and results of a tenant's sweeps
//	check.go     a check of a TXT record now
//	failed.go    the failed rows of a run
//	waiting.go   the reasons of a run's open rows
//	rows.go      the open rows of a run, and the names of rows
//	run.go       state and counts of a run
//	scan.go      the scan that finds a run's rows
//	obstacles.go the reasons why rows of a tenant are not executed
//	text.go      tables, times, and text that is safe to print
package status
