// Package console serves the operators' pages of a worker ([Pages]) to the users whom [Access]
// admits: by a password of a file ([Users]), by a header of a proxy, or, on loopback, everyone.
// Requests that another site makes a browser send are refused: foreign Host headers, writes
// from another origin, frames, and scripts of others.
//
// The files, each of which uses those below it:
//
//	site.go       routes, the layout, errors
//	runs.go, run.go, failed.go, preview.go: the pages of runs and sweeps
//	domains.go, domain_find.go, domain_check.go: the page of a domain
//	tenants.go    the page of tenants
//	monitor.go    asynqmon
//	actions.go    cancel, retry, and the other actions
//	attention.go  warnings about tenants
//	guard.go      refuses requests
//	access.go, users.go, attempts.go: who may sign in, and how often
//	notices.go, links.go, payload.go, api_errors.go, config.go: shared by them
package console
