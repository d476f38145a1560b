// Package schedule decides when a tenant is swept: at the ticks of its schedule, and by
// commands. At most one sweep of a whole tenant is in progress.
//
//	schedule.go  the ticks of a schedule
//	command.go   a sweep that is started by a command
//	progress.go  whether a sweep of the tenant is in progress
package schedule
