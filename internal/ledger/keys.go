package ledger

import "strconv"

// prefix begins every key of this package.
const prefix = "orgops:v2:"

// tenantsKey is the set of the tenants that have, or had, a run.
const tenantsKey = prefix + "tenants"

// headerKeys returns the keys of a run's header, in the order in which
// lua/header.lua names them. They share one hash tag.
func headerKeys(run RunID) []string {
	tag := prefix + "{run:" + string(run) + "}:"
	return []string{tag + "header", tag + "closed", tag + "sums", tag + "scan", tag + "found",
		tag + "scratch", tag + "seen"}
}

// seenKeys is the place in headerKeys of the keys of found rows.
const seenKeys = 6

// sessionKeys returns the keys of the sessions, in the order in which lua/sessions.lua
// names them. They share one hash tag: a fleet of 50 workers renews ten a second.
func sessionKeys() []string {
	tag := prefix + "{sessions}:"
	return []string{tag + "seen", tag + "about", tag + "since", tag + "scratch"}
}

// segmentParts are the last parts of a segment's keys, in the order in which
// lua/segment.lua names them.
var segmentParts = []string{
	"head", "chunks", "first", "check", "ready", "intended_check", "intended_ready",
	"values", "released", "running", "executions",
	"settled", "cancelled", "results", "intents", "active", "sessions", "order",
	"scratch", "mask",
}

// segmentKeys returns the keys of a segment. They share one hash tag, which holds the
// incarnation and not the run's id: a run that is created after another of the same
// id was deleted never sees the other's rows.
func segmentKeys(s Segment) []string {
	tag := prefix + "{" + string(s.Incarnation) + "." + strconv.Itoa(s.Number) + "}:"
	keys := make([]string, len(segmentParts))
	for i, part := range segmentParts {
		keys[i] = tag + part
	}
	return keys
}

// segmentKey returns one of a segment's keys.
func segmentKey(s Segment, part string) string {
	return prefix + "{" + string(s.Incarnation) + "." + strconv.Itoa(s.Number) + "}:" + part
}

// tenantKeys returns the keys of a tenant's lists, in the order in which
// lua/tenant.lua names them. They share one hash tag.
func tenantKeys(t Tenant) []string {
	tag := prefix + "{tenant:" + string(t) + "}:"
	return []string{tag + "runs", tag + "open", tag + "ended", tag + "trash", tag + "due", tag + "singles",
		tag + "clock", tag + "scratch"}
}

// The places of a tenant's lists in tenantKeys.
const (
	runsList = iota
	openList
	endedList
	trashList
	dueIndex
	singlesList
)
