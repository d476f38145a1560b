// Package handlers executes the rows of each kind. The file of a kind begins with the reason why
// its rows may be executed twice, and has how they are released. Each file uses those below it:
//
//	kinds.go         how the rows of all kinds are released
//	open.go          why a row is open, in words
//	recheck.go       domain:recheck, the check of a sweep
//	revoke.go        domain:revoke, of a domain whose token is gone, and its undoing
//	read.go          domain:read, a record and one check of its token
//	verify.go        domain:verify: the check, and when a row is checked again or expires
//	verify_proof.go  the proof and PATCH of a row whose token is there, and of one whose answer was lost
//	update.go        domain:update
//	places.go        the places of DNS checks
//	evidence.go      checks and proofs as they are stored, and the state of an open row
//	change.go        PATCHes of domains, and answers that were lost
//	known.go         the entries of domains in the index of names
//	remove.go        clients:remove
//	template.go      template:create
//	row.go           contents and intents of rows, errors, and events of domain states
package handlers

import (
	"orgops/internal/dispatch"
	"orgops/internal/ledger"
)

// Released returns how the rows of each kind are released for a tenant whose requests name at most
// that many clients. Operations are those that every row of a kind needs.
func Released(maxClientsPerRequest int) map[ledger.Kind]dispatch.Kind {
	return map[ledger.Kind]dispatch.Kind{
		Verify: releaseVerify, Read: releaseRead, Update: releaseUpdate, Remove: releaseRemove(maxClientsPerRequest),
		Create: releaseCreate, Recheck: releaseRecheck, Revoke: releaseRevoke,
		ledger.ScanOf(Verify): releaseScan, ledger.ScanOf(Recheck): releaseScan,
	}
}

// releaseScan releases the row of a scan. Its execution makes as many requests as it gets permits
// for within some seconds, behind those of other rows. An operation that is blocked refuses them.
var releaseScan = dispatch.Kind{Cost: dispatch.Cost{First: 1, Check: 1}}
