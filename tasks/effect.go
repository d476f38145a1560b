package tasks

import (
	"errors"
	"net/http"

	"orgops/apiclient"
)

// noEffect says whether the error of a write proves that it had no effect: it
// was never sent, or it was refused. A 408, a 5xx, a lost answer or one that
// cannot be read proves nothing.
func noEffect(err error) bool {
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
	return true // no permit, no token, not valid: not sent
}
