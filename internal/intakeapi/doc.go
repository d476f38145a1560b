// Package intakeapi is the intake over HTTP, for systems in any language: what
// "enqueue" does with files, bodies of requests do here. It is described by
// openapi.yaml, which it serves.
//
//	POST /v1/runs/{kind}       submit rows; the Idempotency-Key is the run
//	GET  /v1/runs              the caller's runs, the newest first
//	GET  /v1/runs/{id}         one of them
//	GET  /v1/runs/{id}/failed  its rows that did not settle well
//	GET  /v1/runs/{id}/events  what becomes of it, as it does
//	POST /v1/runs/{id}/cancel  settle what is open as cancelled
//	POST /v1/runs/{id}/retry   hand those rows in again, as a run of their own
//
// A body is received into the spool, a directory, and checked there whole. Only
// then is the run begun and 202 answered: from there on the submission is the
// server's to bring to its end, whatever happens to it. Its rows are submitted
// in the background, and by the next server on the same spool if this one dies.
//
//	body --> spool --> check --> Begin --> publish --> 202
//	           |         |          |          `--> submit --> sealed: removed
//	           `---------+----------+--> problem: removed, nothing was submitted
//
// Reading rows and handing them in is package intake's. What is here is HTTP:
// who asks, how much, how long, and what is told.
package intakeapi
