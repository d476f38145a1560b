package engine

import (
	"errors"
	"fmt"
	"time"

	"orgops/internal/ledger"
)

var (
	// ErrStopping is returned by a handler that leaves since the worker stops. The row
	// is given back and no attempt is counted.
	ErrStopping = errors.New("the worker is stopping")
	// ErrStopped is returned by a handler that finds its run paused or cancelled.
	// The row is given back; the ledger settles it if the run is cancelled.
	ErrStopped = errors.New("the run is paused or cancelled")
	// ErrSuperseded is returned by a handler whose rows are settled or belong to another
	// execution. Nothing is written.
	ErrSuperseded = errors.New("another execution has the row, or it is settled")
)

// SettleError settles the row.
type SettleError struct {
	Result ledger.Result
}

// Error returns the result's detail.
func (e *SettleError) Error() string { return e.Result.Detail }

// WaitError leaves the row open.
type WaitError struct {
	// Outcome is one that leaves a row open.
	Outcome ledger.Outcome
	// Reason is for people.
	Reason string
	// After is when the row is due.
	After time.Duration
	// Stage is that of the next execution; empty: unchanged.
	Stage ledger.Stage
	// Counts says that an attempt was used up.
	Counts bool
}

// Error returns the reason.
func (e *WaitError) Error() string { return e.Reason }

// NotYet leaves a row open whose token is not in DNS yet.
func NotYet(reason string, after time.Duration) error {
	return &WaitError{Outcome: NotYetFound, Reason: reason, After: after, Stage: ledger.StageCheck}
}

// Later leaves a row open without counting an attempt.
func Later(reason string, after time.Duration) error {
	return &WaitError{Outcome: Paced, Reason: reason, After: after}
}

// Ready leaves a row open that was proven once and needs a permit, at [ledger.StageReady].
func Ready(reason string) error {
	return &WaitError{Outcome: Paced, Reason: reason, Stage: ledger.StageReady}
}

// Refuse settles a row as refused.
func Refuse(format string, a ...any) error {
	return &SettleError{ledger.Result{Outcome: Refused, Detail: fmt.Sprintf(format, a...)}}
}

// Invalid settles a row as invalid.
func Invalid(err error) error {
	return &SettleError{ledger.Result{Outcome: InvalidRow, Detail: err.Error()}}
}

// Expire settles a row as expired, with the evidence of its last check.
func Expire(reason string, evidence []byte) error {
	return &SettleError{ledger.Result{Outcome: Expired, Detail: reason, Evidence: evidence}}
}

// transientError counts an attempt for an error that would otherwise settle the row.
type transientError struct{ err error }

func (e *transientError) Error() string { return e.err.Error() }

// Retry counts an attempt for an error that would otherwise settle the row, such as a
// 404 for a record that may be too young to be read.
func Retry(err error) error { return &transientError{err} }

// panicError is a panic of a handler.
type panicError struct {
	value string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.value }
