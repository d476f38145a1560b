// Package actions acts on runs, domains and tenants: commands, pages and the HTTP API call it. A
// function that takes an [activity.Author] records the action in the tenant's activity in their
// name, and returns its effect in words. Package status reads what is stored, and changes nothing;
// package intake submits rows, retries them and undoes changes.
//
//	runs.go       cancel, pause and resume a run; have open rows checked now
//	check.go      have a domain checked now, a limited number of times
//	tenants.go    stop, start, sweep and reassign a tenant; send deliveries again
//	obstacles.go  record when obstacles of a tenant begin and end
//	deaths.go     record that workers of a tenant have died
package actions
