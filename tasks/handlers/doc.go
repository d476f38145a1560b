// Package handlers has the handlers of the kinds of rows. The file of a handler begins with the
// reason why its rows may be executed twice. Each file uses those below it:
//
//	recheck.go          domain:recheck, a check of a sweep
//	revoke.go           domain:revoke, of a domain whose token is gone, and its undoing
//	verify.go           domain:verify, from the check to the PATCH
//	verify_event.go     the end of a verified row: log line and event
//	verify_lost.go      a PATCH of an earlier execution, and its revert
//	verify_slow.go      the places of DNS checks
//	verify_schedule.go  when a row is checked again, and when it expires
//	verify_memo.go      the state of a row between its executions
//	verify_row.go       the content of a row
//	verify_evidence.go  checks and proofs as they are stored
//	update.go           domain:update
//	change.go           PATCHes of domains, and answers that were lost
//	remove.go           clients:remove
//	template.go         template:create
//	states.go           events of domain states
//	row.go              contents and intents of rows, and errors
package handlers
