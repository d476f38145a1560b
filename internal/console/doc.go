// Package console serves the operators' pages of a worker ([Pages]) to the users whom [Access]
// admits: by a password of a file ([Users]), by a header of a proxy, or, on loopback, everyone.
// Requests that another site makes a browser send are refused: foreign Host headers, writes
// from another origin, frames, and scripts of others.
//
// The files, each of which uses those below it:
//
//	routes.go         paths and templates of the pages: [Pages]
//	domains.go        the page of a domain
//	domain_check.go   checks a domain now
//	domain_find.go    finds the domain that a request names
//	domain_record.go  reads domains from the API, at a bounded rate
//	tenants.go        the page of tenants
//	run.go            the page of a run
//	actions.go        cancel, retry, and the other actions
//	failed.go         the failed rows of a run, as a file
//	runs.go           the page of all runs, and a run as pages show it
//	attention.go      warnings about tenants
//	monitor.go        asynqmon
//	payload.go        tasks of asynqmon
//	site.go           common to all pages: the layout, time limits, errors, forms
//	links.go          addresses of pages
//	notices.go        results of actions, for the next page
//	config.go         settings: [Config]
//	api_errors.go     the state of a tenant that only this worker knows
//	guard.go          refuses requests
//	access.go         rules of access, and the user of a request
//	users.go          names and passwords: a file
//	attempts.go       limits on sign-ins
//	errors.go         refusals, and errors of Redis in words
//	format.go         times, numbers and foreign text, as pages show them
package console
