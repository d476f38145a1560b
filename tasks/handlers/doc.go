// Package handlers executes the rows of each kind. The file of a kind begins with the reason why
// its rows may be executed twice. Each file uses those below it:
//
//	recheck.go       domain:recheck, the check of a sweep
//	revoke.go        domain:revoke, of a domain whose token is gone, and its undoing
//	read.go          domain:read, a record and one check of its token
//	verify.go        domain:verify: the check, and when a row is checked again or expires
//	verify_proof.go  the proof and PATCH of a row whose token is there, and of one whose answer was lost
//	update.go        domain:update
//	places.go        the places of DNS checks
//	change.go        PATCHes of domains, and answers that were lost
//	known.go         the entries of domains in the index of names
//	remove.go        clients:remove
//	template.go      template:create
//	row.go           contents and intents of rows, errors, and events of domain states
package handlers
