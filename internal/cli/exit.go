package cli

import (
	"context"
	"errors"
)

// Exit statuses. docs/reference/exit-codes.md has their comments.
const (
	StatusOK     = 0 // the command succeeded
	StatusFailed = 1 // the command failed, or worker doctor found something wrong
	StatusUsage  = 2 // arguments, settings, or the header of a file, are wrong
	// a row was rejected or failed, a scan left domains out, or enqueue domains check did not find a
	// token
	StatusRejected    = 3
	StatusInterrupted = 130 // the command was interrupted (SIGINT, SIGTERM)
)

// StatusError is an error with an exit status.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }

func (e *StatusError) Unwrap() error { return e.Err }

// Usage returns err as an error of usage or settings; nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &StatusError{StatusUsage, err}
}

// Status returns the exit status of err.
func Status(err error) int {
	var s *StatusError
	switch {
	case err == nil:
		return StatusOK
	case errors.As(err, &s):
		return s.Status
	case errors.Is(err, context.Canceled):
		return StatusInterrupted
	}
	return StatusFailed
}
