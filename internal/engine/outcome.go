package engine

import (
	"log/slog"

	"orgops/internal/ledger"
)

// Failed is [ledger.Failed].
const Failed = ledger.Failed

// The other outcomes that settle a row, next to [ledger.Done] and [ledger.Cancelled].
const (
	Unchanged  ledger.Outcome = "unchanged" // the row's request was met before
	Refused    ledger.Outcome = "refused"   // by the API, or for lack of a proof
	InvalidRow ledger.Outcome = "invalid"   // the row is malformed
	Expired    ledger.Outcome = "expired"   // the token did not appear in time
	Lost       ledger.Outcome = "lost"      // a sweep found the token of a verified domain gone for the whole grace period
	Unproven   ledger.Outcome = "unproven"  // a sweep found none for as long, but it was never proven to be there
	Withdrawn  ledger.Outcome = "withdrawn" // a sweep found a domain that was verified pending, gone or with another token
)

// The outcomes of an execution that leave a row open.
const (
	NotYetFound ledger.Outcome = "not_yet" // the token is not in DNS yet
	Paced       ledger.Outcome = "paced"   // the tenant's rate allows no request yet
	// the API refuses the credentials, they lack a scope, or an operator has stopped the tenant
	Blocked      ledger.Outcome = "blocked"
	Transient    ledger.Outcome = "transient"  // the attempt failed and is repeated
	Stopping     ledger.Outcome = "stopping"   // the worker stops
	Stopped      ledger.Outcome = "stopped"    // the run is paused or cancelled
	Isolated     ledger.Outcome = "isolated"   // a row that may take its worker down is executed alone
	Superseded   ledger.Outcome = "superseded" // the row is settled or another execution has it
	Unrecognized ledger.Outcome = "unknown"    // a newer worker is needed
)

// Settles reports whether an outcome is the last one of a row.
func Settles(o ledger.Outcome) bool {
	switch o {
	case ledger.Done, ledger.Cancelled, Unchanged, Failed, Refused, InvalidRow, Expired, Lost, Unproven, Withdrawn:
		return true
	}
	return false
}

// Succeeded reports whether a row with that outcome needs nothing more.
func Succeeded(o ledger.Outcome) bool { return o == ledger.Done || o == Unchanged }

// levelOf returns the level at which an execution with that outcome is logged: info for
// the one line of a row that settles as it should, debug if it stays open as planned.
func levelOf(o ledger.Outcome) slog.Level {
	switch o {
	case ledger.Done, ledger.Cancelled, Unchanged:
		return slog.LevelInfo
	case NotYetFound, Paced, Stopping, Stopped, Isolated, Superseded:
		return slog.LevelDebug
	case Failed:
		return slog.LevelError
	}
	return slog.LevelWarn
}
