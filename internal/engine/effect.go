package engine

import (
	"errors"
	"net/http"

	"orgops/apiclient"
)

// NoEffect reports whether the error of a request that writes proves that it had no
// effect: it was not sent, or was refused. A 408, a 5xx, a lost or unreadable answer
// proves nothing.
func NoEffect(err error) bool {
	var (
		answer *apiclient.Error
		lost   *apiclient.TransportError
		odd    *apiclient.AnswerError
	)
	switch {
	case errors.As(err, &answer):
		return answer.Status >= 300 && answer.Status < 500 && answer.Status != http.StatusRequestTimeout
	case errors.As(err, &lost):
		return !lost.Sent
	case errors.As(err, &odd):
		return false
	}
	return true // no permit, no token, not valid, not wanted any more
}
