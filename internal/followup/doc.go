// Package followup submits the runs that follow sweeps.
//
//	end of a sweep's run --> evaluation --> run of actions, "act-<sweep>-<tick>"
//	each hour, while domains are watched --> run of checks, "relook-<tenant>-<hour>"
//
// Both are submitted by the worker whose dispatcher is the tenant's active one. A second
// worker at the same time does no harm: the ids of the runs are derived from the sweep and
// from the hour, and a run that is committed is not submitted again.
package followup
