// Package view limits what a user may see and change. Data of others does not exist in a user's
// view: it is not found, and not in a list.
//
// A [Store] has all data, and hands out none. A handler of a page or of the HTTP API gets the
// [View] that a store makes for the user of the request. A view returns tenants, runs and domains
// of the user, whose methods read and change them. So a handler has permitted data alone, and
// decides nothing about access. Package web decides which role may use a route.
//
// view.go has the rules. Each of the other files uses those below it in this list:
//
//	submit.go   submissions
//	run.go      runs and their rows, and the actions on them
//	domain.go   discovery domains, and their checks
//	tenant.go   a tenant, the actions on it, and its activity
//	fleet.go    the state of workers and tenants
//	view.go     who may see a tenant, an organization, a run
//	owner.go    remembers whose runs are
package view
