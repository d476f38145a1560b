// Package console serves the operators' pages of a worker ([Pages]). Package web finds out who
// sends a request, and refuses those that a user's role does not allow, or that another site makes
// a browser send.
//
// The files, each of which uses those below it:
//
//	routes.go         paths and templates of the pages: [Pages]
//	domains.go        the page of a domain
//	domain_check.go   checks a domain now
//	domain_find.go    finds the domain that a request names
//	domain_record.go  reads domains from the API, at a bounded rate
//	activity.go       the page of what happened to tenants
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
//	errors.go         errors of Redis in words
//	format.go         times, numbers and foreign text, as pages show them
package console
