package console

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"orgops/apiclient"
)

// errorsKept is how many of the API's last errors are kept of a tenant: what a person
// looks through.
const errorsKept = 20

// APIErrors keeps the last errors of a tenant's API in memory. The zero value is empty;
// it is safe for concurrent use.
type APIErrors struct {
	mu   sync.Mutex
	last []APIError // the oldest first
}

// APIError is a request that did not do what it was to.
type APIError struct {
	At        time.Time
	Operation string
	Status    int // 0: there was no answer
	Text      string
}

// Note keeps an error of the operation, if it is the API's or its token endpoint's: that
// there was no permit, or that a caller went away, says nothing of them.
func (e *APIErrors) Note(operation string, err error) {
	one := APIError{At: time.Now(), Operation: operation, Text: printable(err.Error())}
	if answered, ok := errors.AsType[*apiclient.Error](err); ok {
		one.Status = answered.Status
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

// Last are the last errors, the newest first. A nil APIErrors has none.
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

// Reach keeps whether name servers can be reached from here, as a checker has found
// out. The zero value knows nothing; it is safe for concurrent use.
type Reach struct{ state atomic.Pointer[reachState] }

type reachState struct {
	Reached bool
	Why     string
}

// Tell takes in what a checker has found out.
func (r *Reach) Tell(reached bool, why string) { r.state.Store(&reachState{reached, why}) }

// now returns nil if nothing is known.
func (r *Reach) now() *reachState {
	if r == nil {
		return nil
	}
	return r.state.Load()
}
