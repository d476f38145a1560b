package pace

import (
	"fmt"
	"time"
)

// NoPermitError says that no permit was to be had in time. Nothing was sent;
// come again later.
type NoPermitError struct {
	// After is when to come again at the earliest; 0 when the process stops.
	After time.Duration
	// Why says it in words.
	Why string

	stopping bool
}

// Error says why, and when to come again.
func (e *NoPermitError) Error() string {
	if e.After == 0 {
		return "no permit for a request: " + e.Why
	}
	return fmt.Sprintf("no permit for a request: %s: again in %v", e.Why, e.After.Round(time.Millisecond))
}

// RetryIn returns After.
func (e *NoPermitError) RetryIn() time.Duration { return e.After }

// Stopping says that the reason is the end of this process: another one may
// have a permit at once.
func (e *NoPermitError) Stopping() bool { return e.stopping }

// BlockedError says that an operation is known not to work at present, for the
// whole fleet. Nothing was sent.
type BlockedError struct {
	// Operation is the one that was asked for.
	Operation string
	// Reason is why it was blocked, in the words of whoever blocked it.
	Reason string
	// After is when the next probe is due.
	After time.Duration
}

// Error says what is blocked and why.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s is blocked: %s: tried again in %v", e.Operation, e.Reason, e.After.Round(time.Millisecond))
}

// Blocked returns true; it tells this error from others by interface.
func (e *BlockedError) Blocked() bool { return true }

// RetryIn returns After.
func (e *BlockedError) RetryIn() time.Duration { return e.After }
