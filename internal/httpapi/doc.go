// Package httpapi is the intake over HTTP, for systems in any language: it submits the
// bodies of requests as "enqueue" submits files. openapi.yaml, which it serves, describes it.
//
//	POST /v1/runs/{kind}       submit rows; the Idempotency-Key is the run
//	GET  /v1/runs              the caller's runs, the newest first
//	GET  /v1/runs/{id}         one of them
//	GET  /v1/runs/{id}/rows    its rows, with their results
//	GET  /v1/runs/{id}/failed  its failed rows
//	GET  /v1/runs/{id}/events  the run after each change
//	POST /v1/runs/{id}/cancel  settle its open rows as cancelled
//	POST /v1/runs/{id}/retry   submit its failed rows again, as a run of their own
//
// A server stores nothing but in Redis. The rows of a body are checked and staged there
// while they arrive, and committed if all of them are good; 202 means that they are. No row
// starts before. A request that is cut off deletes the rows that it has staged. If the server
// is killed they expire after a day; the same request again completes the run. So any
// number of servers may share one Redis.
//
//	body --> check --> stage --> commit --> read back --> 202
//	           |         |          |
//	           `---------+----------+--> problem: the staged rows are deleted
//
// Package intake reads and submits rows, package web knows the callers. This package is about what
// is particular to the intake's HTTP: properties of submissions, time and answers.
//
// A file uses those below it:
//
//	routes.go    paths, methods and parameters; openapi.yaml
//	submit.go    submissions, estimates and retries
//	events.go    a run after each change
//	failed.go    the rows of a run, or the failed ones, as a file
//	domains.go   the state of domains, and their check
//	run.go       runs as clients get them, and whose they are; cancel
//	order.go     the properties of a submission, from the head of its request
//	body.go      the rows: types, gzip, limits and time
//	server.go    settings
//	arriving.go  the bodies that arrive, of which the slowest gives way
//	daily.go     the rows of a caller in a day
//	metrics.go   the metrics of a server
//	problem.go   all errors, as clients get them; JSON
package httpapi
