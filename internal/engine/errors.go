package engine

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"orgops/apiclient"
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

// Answers are the answers of a handler by row.
type Answers map[ledger.Row]*Consequence

// Consequence is how an execution ends for a row, for the ledger and for the pace: it is settled
// with a result, waits until a time, is given back, or has failed with an error. A handler returns
// one for each row, by [Settle], [Expire], [Later], [NotYet], [Ready] or [Fail]. It is no error.
type Consequence struct {
	Outcome ledger.Outcome
	// Reason is for people. It holds no secret.
	Reason string
	// Evidence is stored with the result of a row that settles.
	Evidence []byte
	// After is when a row that stays open is due; if Counts, not before its backoff.
	After time.Duration
	// Stage is that of the next execution; empty: unchanged.
	Stage ledger.Stage
	// Counts says that an attempt was used up.
	Counts bool
	// Operation is the API operation to block, "*" for all; empty: none.
	Operation string
	// Cause says why, without the row's identifiers.
	Cause string
	// Fault says whose fault it is that the operation is blocked.
	Fault apiclient.Fault
}

// NotYet leaves a row open whose token is not in DNS yet.
func NotYet(reason string, after time.Duration) *Consequence {
	return &Consequence{Outcome: ledger.NotYetFound, Reason: reason, After: after, Stage: ledger.StageCheck}
}

// Later leaves a row open without counting an attempt.
func Later(reason string, after time.Duration) *Consequence {
	return &Consequence{Outcome: ledger.Paced, Reason: reason, After: after}
}

// Ready leaves a row open at [ledger.StageReady]: a check has found its token, and it needs a
// permit.
func Ready(reason string) *Consequence {
	return &Consequence{Outcome: ledger.Paced, Reason: reason, Stage: ledger.StageReady}
}

// Retry counts an attempt for an error that would otherwise settle the row, such as a
// refusal after a request that may have had its effect.
func Retry(err error) error { return RetryAfter(err, 0) }

// RetryAfter is Retry for a row that is not due before that time has passed.
func RetryAfter(err error, after time.Duration) error { return &retryError{err.Error(), after} }

// retryError has the text of an error, and not the error, which could settle the row.
type retryError struct {
	reason string
	after  time.Duration
}

func (e *retryError) Error() string { return e.reason }

// Settle settles a row with a result, which is done if it has no outcome.
func Settle(r ledger.Result) *Consequence {
	return &Consequence{Outcome: cmp.Or(r.Outcome, ledger.Done), Reason: r.Detail, Evidence: r.Evidence}
}

// RowError settles a row, and says nothing of others. [Refuse] and [Invalid] make one.
type RowError struct {
	outcome ledger.Outcome
	reason  string
}

// Error returns the reason.
func (e *RowError) Error() string { return e.reason }

// Refuse settles a row as refused.
func Refuse(format string, a ...any) error {
	return &RowError{ledger.Refused, fmt.Sprintf(format, a...)}
}

// Invalid settles a row as invalid.
func Invalid(err error) error { return &RowError{ledger.InvalidRow, err.Error()} }

// Expire settles a row as expired, with the evidence of its last check.
func Expire(reason string, evidence []byte) *Consequence {
	return Settle(ledger.Result{Outcome: ledger.Expired, Detail: reason, Evidence: evidence})
}

// PanicError is a panic of a handler, or of the follow-ups of a run's end.
type PanicError struct {
	Value any
	Stack []byte
}

// Error has the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Protect calls f. A panic of it is a [PanicError].
func Protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return f()
}
