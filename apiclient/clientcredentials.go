package apiclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// tokenTimeout bounds one fetch of a token as a whole.
	tokenTimeout = 30 * time.Second

	// renewMargin is how long before its end a token is renewed; a short token is renewed
	// in the last tenth of its lifetime. The service's tokens last a day.
	renewMargin = 2 * time.Minute

	// renewPause is the pause after a failed renewal of a token that is still valid.
	renewPause = 10 * time.Second

	// firstPause is the pause after a failed fetch without a valid token; it doubles up to
	// renewPause. Meanwhile callers get the same error at once.
	firstPause = time.Second

	// clockTolerance is the difference between the endpoint's clock and ours from which
	// assertions are dated by the endpoint's. Date has whole seconds, and answers take time.
	clockTolerance = assertionLead
)

// ClientCredentials fetches tokens by the OAuth 2.0 client credentials flow and uses each
// until shortly before its end, measured by elapsed time and not by clocks. Concurrent
// callers share one fetch. A token that is still valid is renewed in the background, and
// used further if the endpoint is down. If a token URL with a slash at its end answers 404,
// it is tried without the slash, which is the service's actual endpoint. After a failure
// the endpoint is called again after a growing pause, and after a 429 when its Retry-After
// has passed.
func ClientCredentials(cfg ClientCredentialsConfig) TokenSource {
	s := &clientCredentials{cfg: cfg, transport: cfg.Transport, url: cfg.TokenURL}
	if s.transport == nil {
		s.transport = cfg.Network.tokenTransport()
	}
	return s
}

// tokenTransport closes each connection after its request: there is one fetch a day. It
// does not use HTTP/2, over which net/http may repeat a request with its assertion, which
// must be used once.
func (n Network) tokenTransport() http.RoundTripper {
	t := newTransport(n, 1)
	t.DisableKeepAlives = true
	t.Protocols.SetHTTP2(false)
	return t
}

type clientCredentials struct {
	cfg       ClientCredentialsConfig
	transport http.RoundTripper
	fetches   singleflight.Group // one fetch at a time

	// The running fetch owns these.
	url   string        // TokenURL, or TokenURL without its last slash if only that exists
	clock time.Duration // the endpoint's clock minus ours; 0: within the tolerance

	mu       sync.Mutex
	current  Secret
	renewAt  time.Time   // from when current is renewed; zero: its end is unknown
	endsAt   time.Time   // when current ends; zero: unknown
	pause    time.Time   // until when the endpoint is not called
	refusal  *TokenError // why
	failures int         // passing ones, in a row
	sent     mask        // the secrets in the last request
	past     TokenHealth // the results of fetches
}

func (s *clientCredentials) Token(ctx context.Context) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, &TokenError{Err: err}
	}
	token, fetch, err := s.haveOrFetch()
	if err != nil || fetch == nil {
		return token, err
	}
	return await(ctx, fetch)
}

func (s *clientCredentials) Expire(refused Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Equal(refused) {
		s.current = Secret{}
	}
}

// renewed returns a token other than used, or used if that is too young or the fetch
// fails: used is valid for other operations.
func (s *clientCredentials) renewed(ctx context.Context, used Secret) Secret {
	current, fetch := s.haveOrRenew(used)
	if fetch == nil {
		return current
	}
	token, err := await(ctx, fetch)
	if err != nil {
		return used
	}
	return token
}

// haveOrRenew returns the current token, or the fetch to wait for.
func (s *clientCredentials) haveOrRenew(used Secret) (Secret, <-chan singleflight.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.goodAt(now) && !s.current.Equal(used):
		return s.current, nil
	case now.Sub(s.past.GotAt) < scopesAge || now.Before(s.pause):
		return used, nil
	}
	return Secret{}, s.join()
}

// lastSent returns the secrets of the last token request: an API behind the same gateway
// as the endpoint might repeat them.
func (s *clientCredentials) lastSent() mask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// haveOrFetch returns the current token, or the fetch to wait for.
func (s *clientCredentials) haveOrFetch() (Secret, <-chan singleflight.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch paused := now.Before(s.pause); {
	case s.goodAt(now):
		if !paused && !s.renewAt.IsZero() && !now.Before(s.renewAt) {
			s.join()
		}
		return s.current, nil, nil
	case paused:
		e := *s.refusal
		e.RetryAfter = s.pause.Sub(now)
		return Secret{}, nil, &e
	}
	return Secret{}, s.join(), nil
}

func (s *clientCredentials) goodAt(now time.Time) bool {
	return !s.current.IsZero() && (s.endsAt.IsZero() || now.Before(s.endsAt))
}

// join starts a fetch, or joins the running one. The fetch continues when its callers
// stop waiting. The caller holds mu.
func (s *clientCredentials) join() <-chan singleflight.Result {
	return s.fetches.DoChan("", func() (any, error) {
		limit := cmp.Or(s.cfg.Timeout, tokenTimeout)
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, timedOut(limit))
		defer cancel()
		got, err := s.fetch(ctx)
		s.finish(got, err)
		if err != nil {
			return nil, err
		}
		return got.token, nil
	})
}

// await returns the token of a fetch.
func await(ctx context.Context, fetch <-chan singleflight.Result) (Secret, error) {
	select {
	case r := <-fetch:
		token, _ := r.Val.(Secret)
		return token, r.Err
	case <-ctx.Done():
		return Secret{}, &TokenError{Err: fmt.Errorf("waiting for the token endpoint: %w", ctx.Err())}
	}
}

// fetched is a token with its lifetime and scopes.
type fetched struct {
	token  Secret
	life   time.Duration // from now; 0 or less: unknown
	scopes []string
}

func (s *clientCredentials) finish(got fetched, err *TokenError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.past.note(got.scopes, err, now)
	if err != nil {
		s.pauseAfter(err, now)
		return
	}
	s.current = got.token
	s.renewAt, s.endsAt = time.Time{}, time.Time{}
	s.pause, s.refusal, s.failures = time.Time{}, nil, 0
	// If a new token seems to have ended already, the clocks differ: it is used until a 401
	// instead of fetching one for every call.
	if got.life > 0 {
		s.endsAt = now.Add(got.life)
		s.renewAt = s.endsAt.Add(-min(renewMargin, got.life/10))
	}
}

// pauseAfter pauses the calls of an endpoint whose quota is used up or that is in trouble.
// After an error that only a person can correct there is no pause: the next caller tries.
func (s *clientCredentials) pauseAfter(err *TokenError, now time.Time) {
	s.refusal = err
	switch {
	case err.Status == http.StatusTooManyRequests && err.RetryAfter > 0:
		s.pause = now.Add(err.RetryAfter)
	case s.goodAt(now):
		s.pause = now.Add(renewPause)
	case err.passing():
		s.pause = now.Add(min(firstPause<<s.failures, renewPause))
		s.failures = min(s.failures+1, 10)
	}
}

// fetch fetches a token. If a URL with a slash at its end is not found, it tries the URL
// without the slash.
func (s *clientCredentials) fetch(ctx context.Context) (fetched, *TokenError) {
	got, err := s.request(ctx, s.url)
	shorter, slash := strings.CutSuffix(s.url, "/")
	if err == nil || err.Status != http.StatusNotFound || !slash {
		return got, err
	}
	got, err = s.request(ctx, shorter)
	if err == nil || err.Status != 0 && err.Status != http.StatusNotFound {
		s.url = shorter
	}
	return got, err
}

// request makes a request, and another if an assertion was refused by an endpoint whose
// clock differs from ours, which may be the reason.
func (s *clientCredentials) request(ctx context.Context, address string) (fetched, *TokenError) {
	got, header, err := s.requestOnce(ctx, address)
	doubted := err != nil && (err.Status == http.StatusBadRequest || err.Status == http.StatusUnauthorized)
	if doubted && s.cfg.Method == AuthPrivateKeyJWT && s.setClock(header) {
		got, _, err = s.requestOnce(ctx, address)
	}
	return got, err
}

// setClock updates the difference of the clocks, and reports whether it changed.
func (s *clientCredentials) setClock(header http.Header) bool {
	date, ok := dateOf(header)
	ahead := date.Sub(time.Now().Round(0)) // without the monotonic reading, to compare clocks
	if !ok || (ahead-s.clock).Abs() <= clockTolerance {
		return false
	}
	s.clock = ahead
	return true
}

// requestOnce makes one request for a token (RFC 6749 section 4.4). It follows no redirect,
// which would send the client secret to another server.
func (s *clientCredentials) requestOnce(ctx context.Context, address string) (fetched, http.Header, *TokenError) {
	req, secrets, err := s.cfg.request(ctx, address, time.Now().Add(s.clock))
	if err != nil {
		return fetched{}, nil, &TokenError{Err: err, Permanent: true}
	}
	s.mu.Lock()
	s.sent = secrets
	s.mu.Unlock()
	dump := s.cfg.Network.begin(req, secrets)
	resp, err := s.transport.RoundTrip(req) //nolint:bodyclose // readBody closes it
	if err != nil {
		dump.end(ctx, nil, nil, err)
		return fetched{}, nil, &TokenError{Err: fmt.Errorf("POST %s: %w", address, secrets.err(withoutQuote(err)))}
	}
	body, err := readBody(resp, maxRecordBytes)
	dump.end(ctx, resp, body, err)
	e := &TokenError{
		Status: resp.StatusCode, RetryAfter: retryAfter(resp.StatusCode, resp.Header),
		Err: fmt.Errorf("POST %s", address),
	}
	if refusal := parseErrorBody(body, secrets); !isSuccess(resp.StatusCode) || refusal.title != "" {
		e.Code, e.Description, e.Permanent = refusal.title, refusal.message, isSuccess(resp.StatusCode)
		if len(body) > 0 && !json.Valid(body) {
			e.Description = answer{header: resp.Header, body: body, mask: secrets}.describe()
		}
		return fetched{}, resp.Header, e
	}
	e.Permanent = err == nil
	var got fetched
	if err == nil {
		got, err = readTokenAnswer(body, resp.Header)
	}
	if err != nil {
		e.Err = fmt.Errorf("POST %s: %w", address, secrets.err(withoutQuote(err)))
		return fetched{}, resp.Header, e
	}
	return got, resp.Header, nil
}

// readTokenAnswer reads a token (RFC 6749 section 5.1).
func readTokenAnswer(body []byte, header http.Header) (fetched, error) {
	var a struct {
		Token     string      `json:"access_token"`
		Type      string      `json:"token_type"`
		ExpiresIn json.Number `json:"expires_in"` // accepts a number in a string too, as some servers send it
		Scope     any         `json:"scope"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fetched{}, fmt.Errorf("its answer is not the expected JSON: %w", err)
	}
	token := NewSecret(a.Token)
	switch {
	case token.IsZero():
		return fetched{}, errors.New("there is no access_token in its answer")
	case a.Type != "" && !strings.EqualFold(a.Type, "Bearer") || !usableToken(token):
		return fetched{}, errors.New("it gave something that cannot be sent as a bearer token")
	}
	exp, scopes := jwtClaims(token)
	if scope, ok := a.Scope.(string); ok {
		scopes = strings.Fields(scope)
	}
	seconds, _ := a.ExpiresIn.Int64() // 0: missing
	life := time.Duration(min(seconds, 1<<31)) * time.Second
	if life <= 0 && !exp.IsZero() {
		life = exp.Sub(dateOrNow(header)) // by the server's clock, if known
	}
	return fetched{token: token, life: life, scopes: scopes}, nil
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
