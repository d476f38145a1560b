package webhooks

import (
	"fmt"
	"net/http"
	"time"
)

// DeliveryError says why an attempt failed. It contains neither the endpoint's secrets, nor
// of its URL more than the host.
type DeliveryError struct {
	Endpoint   string
	Status     int           // of the answer; 0: there was none
	RetryAfter time.Duration // that the receiver asks for, at most a day; 0: none
	Permanent  bool          // another attempt would fail too
	Unsent     bool          // no attempt was made: the receiver gets none for RetryAfter
	Reason     string

	cause error
}

func (e *DeliveryError) Error() string {
	return fmt.Sprintf("webhook endpoint %s: %s", e.Endpoint, e.Reason)
}

// Gone reports whether the receiver wants no more events.
func (e *DeliveryError) Gone() bool { return e.Status == http.StatusGone }

// Unwrap returns the cause, for errors.Is. It may contain the URL.
func (e *DeliveryError) Unwrap() error { return e.cause }
