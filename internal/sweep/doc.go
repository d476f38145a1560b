// Package sweep stores what sweeps find out about the tokens of verified domains, and decides
// when a domain is lost, and which of the lost ones may be revoked.
//
// A sweep checks the token of each verified domain of a tenant. Each check is an
// [Observation], which changes the domain's stored [DomainState] once for each sweep. By the
// tenant's [Rules] a domain whose token was proven is lost once enough sweeps have found it gone
// over enough time. Sweeps only report that: a person revokes lost domains, by a command. It
// selects them by their states ([Selection]), and the row of each reads state, record and DNS
// again.
//
// A domain is watched while its token is gone or a revocation holds.
//
//   - The state of a domain is one JSON document, which is replaced by compare-and-set, so that
//     the rules are plain functions of it. A state that cannot be read, of a newer version or
//     damaged, is left out of revocations, and logged. Pending notifications are stored in the
//     same write as their reason, and removed after the notification.
//   - The first sweep that finds the token of a domain which others have verified proves it, as
//     strictly as before a PATCH, and stores the proof. Without a proof a domain is unproven, and
//     never lost: an absence says nothing of a token that was perhaps never there, and Redis may
//     have lost the proof.
//   - A revocation is stored with its flag before its PATCH. If the row is given up, the next
//     sweep finds the result. A revocation that somebody else has changed since is not undone.
//     The brake counts the revocations of seven days in one place, by a script, with the permit
//     in hand.
//
// The files, each of which uses those below it:
//
//	withdrawn.go domains that others have taken back
//	states.go    the states of a tenant's domains: read, changed, notified; the last complete sweep
//	revoke.go    the selection of domains to revoke, and its bounds
//	observe.go   the checks of a sweep
//	rules.go     when a domain is lost, and when it may be revoked
//	change.go    changes of a state, and its history
//	state.go     the state of a domain
//	ticks.go     the last ticks of a schedule, and their sweeps
//	store.go     states as bytes in Redis
//	cron.go      the ticks of a schedule
package sweep
