package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// prefix begins every key of this package.
const prefix = "orgops:v3:"

// tenantsKey is the set of the tenants that have, or had, a run.
const tenantsKey = prefix + "tenants"

// tenantTag begins the keys of a tenant, which share a hash tag: the tenant's runs are in one slot
// of a Cluster.
func tenantTag(t Tenant) string { return prefix + "{tenant:" + string(t) + "}:" }

// The last parts of keys. The scripts name their keys after them: see newScript.
var (
	headerParts = []string{"header", "sums", "seen"}
	tenantParts = []string{"runs", "singles", "open", "staged", "finishing", "ended", "stuck", "due", "clock", "names",
		"ids", "sessions", "scratch"}
	sessionParts = []string{"seen", "about", "since", "scratch"}
	segmentParts = []string{
		"head", "chunks", "first", "check", "ready", "intended_check", "intended_ready",
		"values", "released", "running", "executions",
		"settled", "cancelled", "results", "effects", "intents", "order", "claims",
		"scratch", "mask",
	}
)

// headerKey returns one of the keys of a run's header.
func headerKey(t Tenant, run RunID, part string) string {
	return tenantTag(t) + "run:" + string(run) + ":" + part
}

// headerKeys returns the keys of a run's header.
func headerKeys(t Tenant, run RunID) []string {
	return keysOf(headerParts, func(part string) string { return headerKey(t, run, part) })
}

// segmentKey returns one of a segment's keys. They have the incarnation and not the run's id: a run
// that is created after another of the same id was deleted never sees the other's rows. A single
// row is stored in the header of its run.
func segmentKey(s Segment, part string) string {
	if s.Incarnation.single() && (part == "head" || part == "chunks") {
		return headerKey(s.Tenant, s.Run, "header")
	}
	return tenantTag(s.Tenant) + string(s.Incarnation) + "." + strconv.Itoa(s.Number) + ":" + part
}

// segmentKeys returns the keys of a segment.
func segmentKeys(s Segment) []string {
	return keysOf(segmentParts, func(part string) string { return segmentKey(s, part) })
}

// tenantKey returns the key of one of a tenant's lists.
func tenantKey(t Tenant, part string) string { return tenantTag(t) + part }

// callerPart is the last part of the key of a caller's runs. The name comes from outside, so a hash
// of it is stored, in the header too: the script that deletes a run has to find the list.
func callerPart(sum string) string { return "runs_of:" + sum }

// callerSum returns the hash of a caller's name.
func callerSum(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:16])
}

// tenantKeys returns the keys of a tenant's lists.
func tenantKeys(t Tenant) []string {
	return keysOf(tenantParts, func(part string) string { return tenantKey(t, part) })
}

// sessionKey returns one of the keys of the sessions. They share one hash tag: a fleet of 50
// workers renews ten a second.
func sessionKey(part string) string { return prefix + "{sessions}:" + part }

func keysOf(parts []string, key func(part string) string) []string {
	keys := make([]string, len(parts))
	for i, part := range parts {
		keys[i] = key(part)
	}
	return keys
}
