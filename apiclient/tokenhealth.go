package apiclient

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// TokenHealth is what is known of a client's token; nobody was asked for it, and
// no secret is in it. The zero value is that of a token nobody needed yet.
type TokenHealth struct {
	// Err is why there is no token that the API accepts: the endpoint or the file gives
	// none, its token has expired, or the API has refused the token within two minutes. Nil:
	// there is one, or none was needed yet.
	Err error
	// LastErr is what went wrong when a token was last wanted, a *TokenError, even
	// where an earlier one is still good; nil once one has come. FailedAt is when.
	LastErr  error
	FailedAt time.Time
	// Failures counts, since the source was made: tokens that did not come, and fresh ones
	// that the API refused.
	Failures uint64
	// GotAt is when the token came; zero: none has. ExpiresAt is when it ends, by this
	// machine's clock; zero: not known.
	GotAt     time.Time
	ExpiresAt time.Time
	// Scopes are what the token endpoint said that the token may do, or else the
	// token itself, unverified; nil: neither did.
	Scopes []string
}

// TokenHealth tells what is known of the client's token, and asks nobody.
func (c *Client) TokenHealth() TokenHealth {
	var h TokenHealth
	if s, ok := c.cfg.Tokens.(interface{ health() TokenHealth }); ok {
		h = s.health()
	}
	c.refused.mu.Lock()
	defer c.refused.mu.Unlock()
	h.Failures += c.refused.times
	if h.Err == nil && time.Since(c.refused.at) < refusedFor {
		h.Err = errors.New("the API refuses the token, and a fresh one too (401): check the audience, and that the API knows who issued it")
		h.FailedAt = c.refused.at
	}
	return h
}

// refusedFor is how long a 401 counts. A client whose calls are refused makes others; one
// that makes none, since other processes make them, does not see that the cause is gone.
const refusedFor = 2 * time.Minute

// refusals are the API's 401s to a token as fresh as there is.
type refusals struct {
	mu    sync.Mutex
	at    time.Time // of the last one; zero: the last answer was another
	times uint64
}

// answered takes note of an answer that came to the freshest token.
func (r *refusals) answered(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case status == http.StatusUnauthorized:
		r.times++
		r.at = time.Now()
	case status < 500: // a server in trouble has not checked the token
		r.at = time.Time{}
	}
}

func (s *clientCredentials) health() TokenHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.past
	h.ExpiresAt = s.endsAt
	if h.LastErr != nil && !s.goodAt(time.Now()) {
		h.Err = h.LastErr
	}
	return h
}

// note writes down how a fetch went. The caller holds mu.
func (h *TokenHealth) note(scopes []string, err *TokenError, now time.Time) {
	if err != nil {
		h.LastErr, h.FailedAt = err, now
		h.Failures++
		return
	}
	h.LastErr, h.FailedAt, h.GotAt, h.Scopes = nil, time.Time{}, now, scopes
}

func (f *tokenFile) health() TokenHealth {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.past
	switch ended := h.ended(time.Now()); {
	case f.refused:
		h.Err = h.LastErr
	case ended != nil:
		h.Err = fmt.Errorf("%w: %s is not being renewed", ended, f.path)
	}
	return h
}

func (s *staticToken) health() TokenHealth {
	h := TokenHealth{GotAt: s.set}
	h.ExpiresAt, h.Scopes = jwtClaims(s.token)
	if ended := h.ended(time.Now()); ended != nil {
		h.Err = fmt.Errorf("%w: set a new one, or use a token file, which is read again", ended)
	}
	return h
}

func (h TokenHealth) ended(now time.Time) error {
	if h.ExpiresAt.IsZero() || now.Before(h.ExpiresAt) {
		return nil
	}
	return fmt.Errorf("the token ended at %s", h.ExpiresAt.UTC().Format(time.RFC3339))
}
