package apiclient

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// TokenHealth is the state of a client's token, as far as it is known without a request.
// It contains no secret. The zero value is the state before the first use.
type TokenHealth struct {
	// Err is why there is no token that the API accepts: the endpoint or the file gives
	// none, its token has expired, or the API has refused the token within two minutes. Nil:
	// there is one, or none was needed yet.
	Err error
	// LastErr is the *TokenError of the last attempt to get a token, even if an earlier
	// token is still valid; nil after a success.
	LastErr error
	// Since is when the failures began that Err, or else LastErr, is about; zero: both are nil.
	Since time.Time
	// Failures counts, since the source was made, failed attempts and new tokens that the
	// API refused.
	Failures uint64
	// GotAt is when the token was fetched; zero: there is none. ExpiresAt is its end by this
	// machine's clock; zero: unknown.
	GotAt     time.Time
	ExpiresAt time.Time
	// Scopes are the scopes that the token endpoint named, or else the token itself,
	// unverified; nil: neither names any.
	Scopes []string
}

// TokenHealth returns the state of the client's token, without a request.
func (c *Client) TokenHealth() TokenHealth {
	var h TokenHealth
	if s, ok := c.cfg.Tokens.(interface{ health() TokenHealth }); ok {
		h = s.health()
	}
	c.refused.mu.Lock()
	defer c.refused.mu.Unlock()
	h.Failures += c.refused.times
	if h.Err == nil && time.Since(c.refused.at) < refusedFor {
		h.Err = &TokenError{Err: errors.New("the API refuses the token, and a fresh one too (401)")}
		h.Since = c.refused.since
	}
	return h
}

// refusedFor is how long a 401 counts. A client that makes no further calls, since other
// processes make them, does not notice that the cause is gone.
const refusedFor = 2 * time.Minute

// refusals counts the API's 401s to the newest token.
type refusals struct {
	mu    sync.Mutex
	since time.Time // of the first one in a row
	at    time.Time // of the last one; zero: the last answer was another
	times uint64
}

// answered records the status of an answer to the newest token.
func (r *refusals) answered(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case status == http.StatusUnauthorized:
		now := time.Now()
		if now.Sub(r.at) >= refusedFor {
			r.since = now
		}
		r.times++
		r.at = now
	case status < 500: // a server in trouble has not checked the token
		r.at = time.Time{}
	}
}

// note records the result of a fetch. The caller holds mu.
func (h *TokenHealth) note(scopes []string, err *TokenError, now time.Time) {
	if err != nil {
		if h.LastErr == nil {
			h.Since = now
		}
		h.LastErr = err
		h.Failures++
		return
	}
	h.LastErr = nil
	h.Since = time.Time{}
	h.GotAt = now
	h.Scopes = scopes
}
