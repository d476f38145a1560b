// Package handlers executes the rows of each kind. The file of a kind begins with the reason why
// its rows may be executed twice.
//
// # Records and answers
//
//   - Reads are eventually consistent, and answers get lost. A PATCH that may have landed is
//     followed by reads until one shows its result; one that surely was not sent needs none. A
//     domain that is verified by then, with the proven host and token, is done by that proof,
//     whichever client verified it and with whatever flag.
//   - A domain is proven against a record that was read or listed at most 60 s before its PATCH
//     gets a permit. A flag that another client changes within that minute may be overwritten.
//     The answer of the PATCH shows host and token as they are: if they are not the proven ones,
//     the PATCH is reverted, also by an execution that was fenced out, or whose event was sent.
//   - The specification gives use_for_organization_discovery a default of true, so a PATCH of the
//     status alone could turn a false into a true: it brings the flag as it was read. If an older
//     record omits its flag and the row brings none, the status is sent alone; such a record is
//     never revoked.
//   - A removal changes nothing a second time and has no intent: the last answer is reported. One
//     whose answer is lost while its run is cancelled reads cancelled although it may have
//     landed.
//   - A template's POST that lands late is refused by the API, whose names are unique.
//
// # Files
//
// Each uses those below it:
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
