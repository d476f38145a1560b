// Package console serves the operators' pages of a worker ([Pages]). Package web finds out who
// sends a request, and refuses those that a user's role does not allow, or that another site makes
// a browser send.
//
// The files, each of which uses those below it:
//
//	routes.go         paths and templates of the pages: [Pages]
//	overview.go       the first page
//	selection.go      actions on several runs, with a preview
//	search.go         finds domains and runs
//	domains.go        the page of a domain
//	domain_link.go    makes a link for the domain's owner
//	domain_check.go   checks a domain now
//	domain_find.go    finds the domain that a request names
//	domain_record.go  reads domains from the API, at a bounded rate
//	activity.go       the page of the activity of tenants
//	tenants.go        the page of tenants
//	run.go            the page of a run
//	actions.go        cancel, retry, and the other actions
//	rows.go           selects rows of a run, and finds those to be retried
//	failed.go         the failed rows of a run, and all of them, as files
//	runs.go           the page of all runs, and a run as pages show it
//	bar.go            the bar of a run by outcome
//	plots.go          plots of the last hour and day
//	waiting.go        the open work, for the bar of asynqmon
//	attention.go      workers, tenants, and the warnings about them
//	monitor.go        asynqmon
//	site.go           common to all pages: the layout, time limits, errors, forms
//	static.go         static files by the hash of their content, and compression
//	links.go          addresses of pages
//	notices.go        results of actions, for the next page
//	config.go         settings: [Config]
//	api_errors.go     the state of a tenant that only this worker knows
//	format.go         times, numbers, errors and foreign text, as pages show them
package console
