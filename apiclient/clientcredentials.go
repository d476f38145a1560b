package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
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
// that may pass the endpoint is called again after a growing pause, and after a 429 when its
// Retry-After has passed. A refusal that only a person can correct makes no pause.
func ClientCredentials(cfg ClientCredentialsConfig) TokenSource {
	if cfg.Transport == nil {
		cfg.Transport = cfg.Network.tokenTransport()
	}
	return &clientCredentials{cfg: cfg, url: cfg.TokenURL}
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
	cfg     ClientCredentialsConfig
	fetches singleflight.Group // one fetch at a time

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
	return s.other(ctx, Secret{})
}

// renewed returns a token other than used, or used if that is too young or the fetch
// fails: used is valid for other operations.
func (s *clientCredentials) renewed(ctx context.Context, used Secret) Secret {
	token, err := s.other(ctx, used)
	if err != nil {
		return used
	}
	return token
}

// other returns the current token, or a fetched one if that is used or not good. If the
// endpoint must not be called it returns used; without a used one, why.
func (s *clientCredentials) other(ctx context.Context, used Secret) (Secret, error) {
	// Decide under the lock: use a token, fail while the endpoint must not be called, or join the
	// fetch that is in progress.
	s.mu.Lock()
	now := time.Now()
	current := s.current
	paused := now.Before(s.pause)
	var fetch <-chan singleflight.Result
	var err error
	switch good := s.goodAt(now) && !current.Equal(used); {
	case good && !paused && !s.renewAt.IsZero() && !now.Before(s.renewAt):
		s.join() // in the background
	case good:
	case !used.IsZero() && (paused || now.Sub(s.past.GotAt) < scopesAge):
		current = used
	case paused:
		e := *s.refusal
		e.RetryAfter = s.pause.Sub(now)
		current = Secret{}
		err = &e
	default:
		fetch = s.join()
	}
	s.mu.Unlock()
	if fetch == nil {
		return current, err
	}

	// Wait for the fetch without the lock, no longer than the caller.
	select {
	case r := <-fetch:
		token, _ := r.Val.(Secret)
		return token, r.Err
	case <-ctx.Done():
		return Secret{}, &TokenError{Err: fmt.Errorf("waiting for the token endpoint: %w", ctx.Err())}
	}
}

func (s *clientCredentials) Expire(refused Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Equal(refused) {
		s.current = Secret{}
	}
}

// lastSent returns the secrets of the last token request: an API behind the same gateway
// as the endpoint might repeat them.
func (s *clientCredentials) lastSent() mask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
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

type fetched struct {
	token  Secret
	life   time.Duration // from now; 0 or less: unknown
	scopes []string
}

// finish stores the result of a fetch. After an error it pauses the calls of an endpoint whose
// quota is used up, that is in trouble, or that was not asked, but not if it has refused the
// request: a person's next try is answered at once.
func (s *clientCredentials) finish(got fetched, err *TokenError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.past.note(got.scopes, err, now)
	switch s.refusal = err; {
	case err == nil:
		s.current = got.token
		s.renewAt = time.Time{}
		s.endsAt = time.Time{}
		s.pause = time.Time{}
		s.failures = 0
		// If a new token seems to have ended already, the clocks differ: it is used until a
		// 401 instead of fetching one for every call.
		if got.life > 0 {
			s.endsAt = now.Add(got.life)
			s.renewAt = s.endsAt.Add(-min(renewMargin, got.life/10))
		}
	case err.Status == http.StatusTooManyRequests && err.RetryAfter > 0:
		s.pause = now.Add(err.RetryAfter)
	case s.goodAt(now):
		s.pause = now.Add(renewPause)
	case err.Status < 300 || isPassing(err.Status):
		s.pause = now.Add(min(firstPause<<s.failures, renewPause))
		s.failures = min(s.failures+1, 10)
	}
}

// fetch fetches a token. It repeats the request without the slash at the URL's end if that
// is not found, and with another date if an assertion was refused by an endpoint whose
// clock differs from ours, which may be the reason.
func (s *clientCredentials) fetch(ctx context.Context) (got fetched, err *TokenError) {
	address := s.url
	for range 3 {
		var header http.Header
		got, header, err = s.request(ctx, address)
		if err == nil {
			s.url = address
			return got, nil
		}
		shorter, slash := strings.CutSuffix(address, "/")
		switch status := err.Status; {
		case status == http.StatusNotFound && slash:
			address = shorter
			continue
		case status != 0 && status != http.StatusNotFound:
			s.url = address
		}
		doubted := err.Status == http.StatusBadRequest || err.Status == http.StatusUnauthorized
		if !doubted || s.cfg.Method != AuthPrivateKeyJWT || !s.setClock(header) {
			break
		}
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

// request makes one request for a token (RFC 6749 section 4.4).
func (s *clientCredentials) request(ctx context.Context, address string) (fetched, http.Header, *TokenError) {
	config, secret, err := s.cfg.config(address, time.Now().Add(s.clock))
	if err != nil {
		return fetched{}, nil, &TokenError{Err: err}
	}
	x := &tokenExchange{source: s, answer: answer{mask: mask{secret}}}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: x}))
	if err == nil {
		var got fetched
		if got, err = x.read(token); err == nil {
			return got, x.header, nil
		}
	}
	e := &TokenError{Asked: true, Status: x.status, RetryAfter: retryAfter(x.status, x.header)}
	if _, refused := errors.AsType[*oauth2.RetrieveError](err); refused {
		parsed := parseErrorBody(x.body, x.mask)
		if len(x.body) > 0 && !json.Valid(x.body) {
			parsed.message = x.describe()
		}
		e.Code = parsed.title
		e.Description = parsed.message
		e.Err = fmt.Errorf("POST %s", address)
		return fetched{}, x.header, e
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without its quoted URL
	}
	// The timeout of the fetch is not that of a caller.
	err = ownReason(context.Background(), x.mask.err(withoutQuote(err)))
	e.Err = fmt.Errorf("POST %s: %w", address, err)
	return fetched{}, x.header, e
}

// tokenExchange is the transport of one token request, and its answer. Package oauth2 sees
// of an answer the status and the body, which it takes for JSON: it would follow the
// Location of a redirect, with the secret, to another server.
type tokenExchange struct {
	answer

	source *clientCredentials
}

func (x *tokenExchange) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header.Set("Accept", jsonType)
	if basic, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Basic "); ok {
		x.mask = append(x.mask, NewSecret(basic))
	}
	s := x.source
	s.mu.Lock()
	s.sent = x.mask
	s.mu.Unlock()
	started := time.Now()
	resp, err := s.cfg.Transport.RoundTrip(req)
	if err != nil {
		s.cfg.Network.log(req, nil, err, started, x.mask)
		return nil, err
	}
	x.status = resp.StatusCode
	x.header = resp.Header
	x.body, x.bodyErr = readBody(resp, maxRecordBytes)
	s.cfg.Network.log(req, resp, x.bodyErr, started, x.mask)
	if isSuccess(x.status) && x.bodyErr != nil {
		return nil, x.bodyErr
	}
	body := x.body
	if isSuccess(x.status) {
		if body, err = wholeLifetime(x.body); err != nil {
			return nil, err
		}
	}
	return &http.Response{
		StatusCode: x.status, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// wholeLifetime returns the body of a token with expires_in as whole seconds, which package oauth2
// wants: it is any JSON number (RFC 6749 section 5.1), and some servers write 3599.5, 3.6e3 or
// "3600". Another value is an error that names the member.
func wholeLifetime(body []byte) ([]byte, error) {
	const name = "expires_in"
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil { // package oauth2 says why
		return body, nil
	}
	value := string(members[name])
	if value == "" || value == "null" {
		return body, nil
	}
	seconds, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
	if err != nil || math.IsNaN(seconds) {
		return nil, fmt.Errorf("its member %s is no number of seconds", name)
	}
	seconds = min(max(seconds, math.MinInt32), math.MaxInt32)
	members[name] = strconv.AppendInt(nil, int64(seconds), 10)
	return json.Marshal(members)
}

func (x *tokenExchange) read(token *oauth2.Token) (fetched, error) {
	got := fetched{token: NewSecret(token.AccessToken), life: time.Until(token.Expiry)}
	if token.Type() != "Bearer" || !usableToken(got.token) {
		return fetched{}, errors.New("it gave something that cannot be sent as a bearer token")
	}
	var exp time.Time
	exp, got.scopes = jwtClaims(got.token)
	if scope, ok := token.Extra("scope").(string); ok {
		got.scopes = strings.Fields(scope)
	}
	if got.life <= 0 && !exp.IsZero() {
		got.life = exp.Sub(dateOrNow(x.header)) // by the server's clock, if known
	}
	return got, nil
}

func (s *clientCredentials) health() TokenHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.past
	h.ExpiresAt = s.endsAt
	if h.LastErr != nil && !s.goodAt(time.Now()) {
		h.Err = h.LastErr
		if s.endsAt.After(h.Since) { // the renewals failed before
			h.Since = s.endsAt
		}
	}
	return h
}
