package console

import (
	"errors"
	"slices"
	"sync"
	"time"

	"orgops/apiclient"
)

// errorsKept is how many of the API's last errors are stored for each tenant.
const errorsKept = 20

// APIErrors keeps the last errors of a tenant's API in memory. The zero value is empty;
// it is safe for concurrent use.
type APIErrors struct {
	mu   sync.Mutex
	last []APIError // the oldest first
}

// APIError is a failed request.
type APIError struct {
	At        time.Time
	Operation string
	Status    int // 0: there was no answer
	Text      string
}

// Note keeps an error of the operation if it is one of the API or its token endpoint, and not
// a missing permit or a cancelled request.
func (e *APIErrors) Note(operation string, err error) {
	one := APIError{At: time.Now(), Operation: operation, Text: printable(err.Error())}
	if answered, ok := errors.AsType[*apiclient.Error](err); ok {
		one.Status = answered.Status
	} else if page, ok := errors.AsType[*apiclient.AnswerError](err); ok {
		one.Status = page.Status
	} else if token, ok := errors.AsType[*apiclient.TokenError](err); ok {
		one.Status = token.Status
	} else if _, ok := errors.AsType[*apiclient.TransportError](err); !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last = append(e.last, one); len(e.last) > errorsKept {
		e.last = slices.Delete(e.last, 0, 1)
	}
}

// Last returns the last errors, the newest first. A nil APIErrors has none.
func (e *APIErrors) Last() []APIError {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last := slices.Clone(e.last)
	slices.Reverse(last)
	return last
}
