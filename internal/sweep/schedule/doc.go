// Package schedule decides when a tenant is swept: at the ticks of its schedule, and by
// commands. At most one sweep of a whole tenant is in progress.
//
// A tick of the schedule is one document of the tenant, replaced by compare-and-set, by Redis'
// clock. The worker that replaces it submits the sweep; another one does so if it was killed in
// between. The id of the sweep's run names the tick, so that submitting it twice changes
// nothing.
//
//	schedule.go  the ticks of a schedule
//	command.go   a sweep that is started by a command
//	progress.go  whether a sweep of the tenant is in progress
package schedule
