package pace

import (
	"fmt"
	"time"
)

// NoPermitError says that no permit was available in time. Nothing was sent.
type NoPermitError struct {
	// After is the time until the next attempt makes sense; 0 if the process stops.
	After time.Duration
	// Why is the reason, for people.
	Why string

	stopping bool
}

// Error returns the reason, and when to try again.
func (e *NoPermitError) Error() string {
	if e.After == 0 {
		return "no permit for a request: " + e.Why
	}
	return fmt.Sprintf("no permit for a request: %s: again in %v", e.Why, e.After.Round(time.Millisecond))
}

// RetryIn returns After.
func (e *NoPermitError) RetryIn() time.Duration { return e.After }

// Stopping reports whether the reason is the end of this process: another process may have a
// permit at once.
func (e *NoPermitError) Stopping() bool { return e.stopping }

// BlockedError says that an operation is blocked for the whole fleet, since it does not work at
// present. Nothing was sent.
type BlockedError struct {
	// Operation is the requested one.
	Operation string
	// Reason is the one that was passed to [Limiter.Block].
	Reason string
	// After is when the next probe is due.
	After time.Duration
}

// Error names the operation and the reason.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s is blocked: %s: tried again in %v", e.Operation, e.Reason, e.After.Round(time.Millisecond))
}

// Blocked returns true, so that callers recognize the error by an interface.
func (e *BlockedError) Blocked() bool { return true }

// RetryIn returns After.
func (e *BlockedError) RetryIn() time.Duration { return e.After }

// attempt is the result of one request for a permit.
type attempt struct {
	ok    bool
	wait  time.Duration // not ok: no permit before this
	why   string
	share bool // only the class has to wait
}

// All is the operation to block when none works.
const All = "*"
