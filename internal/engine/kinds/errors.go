package kinds

import (
	"errors"
	"net/http"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// retryRefused counts an attempt for a refusal that says nothing about the row. Other errors
// are returned as they are.
func retryRefused(err error) error {
	if engine.Decide(err).Outcome == engine.Refused {
		return engine.Retry(err)
	}
	return err
}

// isNotFound reports whether the API has no such record.
func isNotFound(err error) bool {
	answer, ok := errors.AsType[*apiclient.Error](err)
	return ok && answer.Status == http.StatusNotFound
}

// stateError leaves a row open if another process has changed the domain's state, and
// settles it if the state cannot be read: the end of a sweep must not wait for that.
func stateError(err error) error {
	if unreadable, ok := errors.AsType[*sweep.UnreadableError](err); ok {
		return engine.Settle(ledger.Result{Outcome: engine.Failed, Detail: unreadable.Error() + ": " + sweep.Unreadable})
	}
	if errors.Is(err, sweep.ErrChanged) {
		return engine.Later("another process has changed the state of this domain meanwhile", time.Second)
	}
	return err
}
