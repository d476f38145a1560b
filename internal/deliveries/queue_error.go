package deliveries

import (
	"errors"
	"net"
	"strings"
)

// queueError restores the type of an error of asynq: asynq keeps only the text of a
// script's error.
func queueError(err error) error {
	if err == nil {
		return nil
	}
	_, text, ok := strings.Cut(err.Error(), "redis eval error: ")
	switch {
	case !ok:
		return err
	case strings.HasPrefix(text, "dial "):
		return &scriptError{err, &net.OpError{Op: "dial", Err: errors.New(text)}}
	}
	return &scriptError{err, scriptAnswer(text)}
}

// scriptError has the text of asynq's error, and its cause.
type scriptError struct {
	error
	cause error
}

func (e *scriptError) Unwrap() []error { return []error{e.error, e.cause} }

// scriptAnswer is a [redis.Error].
type scriptAnswer string

func (a scriptAnswer) Error() string { return string(a) }
func (scriptAnswer) RedisError()     {}
