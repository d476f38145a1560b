package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// tokenTimeout bounds one fetch of a token as a whole.
	tokenTimeout = 30 * time.Second

	// renewMargin is how long before its end a token is renewed; of a short
	// token, a tenth of its life. The service's tokens last a day.
	renewMargin = 2 * time.Minute

	// renewPause is how long a token that is still good is used on after its
	// renewal did not succeed, before the next try.
	renewPause = 10 * time.Second

	// firstPause is how long an endpoint that is down or in trouble is left
	// alone where there is no token; it doubles up to renewPause. Callers get
	// the same error meanwhile, at once.
	firstPause = time.Second

	// clockTolerance is how far the endpoint's clock may be from ours before
	// assertions are dated by the former. Date has whole seconds, and an answer
	// takes its time.
	clockTolerance = assertionLead
)

// ClientCredentialsConfig is what the client credentials flow needs
// (specification 5). TokenURL, Audience and ClientID are required, and what
// Method wants.
type ClientCredentialsConfig struct {
	TokenURL string // https, or http on loopback; DefaultTokenURL makes it from the specification
	Audience string // as DefaultAudience makes it
	ClientID string
	Method   AuthMethod // empty: AuthBody

	// AuthBody and AuthBasic want one of these. The file is read again for
	// each fetch.
	ClientSecret     Secret
	ClientSecretFile string

	// AuthPrivateKeyJWT wants these. The file, a private key as PEM or JWK, is
	// read again for each fetch.
	KeyFile           string
	KeyAlgorithm      string // RS256, RS384, PS256 or ES256; empty: what the key says, or the first that fits it
	AssertionAudience string // as DefaultAssertionAudience makes it

	Network Network // not used where there is an HTTPClient

	// HTTPClient is what tokens are fetched with; its redirect policy is not
	// used, redirects are never followed. nil: one of its own, of a connection
	// a fetch.
	HTTPClient *http.Client
}

// DefaultTokenURL is the token endpoint of specification 5, its last slash
// included, below authURL.
func DefaultTokenURL(authURL string) string {
	return strings.TrimRight(authURL, "/") + "/oauth/token/"
}

// ClientCredentials fetches tokens by the OAuth 2.0 client credentials flow and
// keeps each until shortly before its end, by the time that has passed here and
// not by what clocks say. Callers that need one at the same time share one
// fetch; while a token is still good, it is renewed behind their backs, and used
// on where the endpoint is down. A token URL that ends in a slash and answers
// 404 is tried once without it, as the service has it in fact; what worked is
// remembered. An endpoint in trouble is asked again after a pause that grows;
// while its Retry-After to a 429 lasts, it is not asked.
func ClientCredentials(cfg ClientCredentialsConfig) TokenSource {
	httpClient := http.Client{Transport: cfg.Network.tokenTransport()}
	if cfg.HTTPClient != nil {
		httpClient = *cfg.HTTPClient
	}
	if httpClient.Timeout == 0 {
		httpClient.Timeout = tokenTimeout
	}
	if httpClient.Transport == nil {
		httpClient.Transport = cfg.Network.tokenTransport()
	}
	// Following one would hand the client secret to whoever it names.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &clientCredentials{cfg: cfg, http: httpClient, url: cfg.TokenURL}
}

// tokenTransport keeps no connection: there is one fetch a day. Nor is it worth
// HTTP/2, over which a request that was refused is sent again with its
// assertion, though that is for one use.
func (n Network) tokenTransport() http.RoundTripper {
	t := newTransport(n, defaultConnectTimeout, defaultHeaderTimeout, 1)
	t.DisableKeepAlives = true
	t.Protocols.SetHTTP2(false)
	return dumped(t, n.Dump)
}

type clientCredentials struct {
	cfg  ClientCredentialsConfig
	http http.Client

	mu       sync.Mutex
	url      string // TokenURL, or the same without its last slash once that was found
	current  Secret
	renewAt  time.Time     // from when on current is renewed; zero: its end is not known
	endsAt   time.Time     // when current ends; zero: not known
	running  *fetch        // nil: none
	pause    time.Time     // until when the endpoint is not asked
	refusal  *TokenError   // why
	failures int           // in a row, of those that a pause cures
	clock    time.Duration // what the endpoint's is ahead of ours; 0: near enough
	hidden   []Secret      // what was sent last to prove who we are
	past     TokenHealth   // how fetches went
}

// fetch is one request for a token, and those who wait for it.
type fetch struct {
	cancel  context.CancelFunc
	waiting int // guarded by the source's mu; at 0 nobody wants it any more; the source itself counts as one where it renews
	done    chan struct{}

	// Written before done is closed.
	token Secret
	err   *TokenError
}

func (s *clientCredentials) Token(ctx context.Context) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, &TokenError{Err: err}
	}
	token, f, err := s.haveOrJoin()
	if err != nil {
		return Secret{}, err
	}
	if f == nil {
		return token, nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		s.leave(f)
		return Secret{}, &TokenError{Err: fmt.Errorf("waiting for the token endpoint: %w", ctx.Err())}
	}
	if f.err != nil {
		return Secret{}, f.err.copied()
	}
	return f.token, nil
}

func (s *clientCredentials) Expire(refused Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Equal(refused) {
		s.current = Secret{}
	}
}

// renewed fetches a token unless used is too young. If the fetch fails, the current
// token serves on.
func (s *clientCredentials) renewed(ctx context.Context, used Secret) Secret {
	f, current := s.joinRenewal(used)
	if f == nil {
		return current
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		s.leave(f)
		return used
	}
	if f.err != nil {
		return used
	}
	return f.token
}

// joinRenewal returns the fetch to wait for, or the token that there is instead.
func (s *clientCredentials) joinRenewal(used Secret) (*fetch, Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.goodAt(now) && !s.current.Equal(used):
		return nil, s.current
	case now.Sub(s.past.GotAt) < scopesAge || now.Before(s.pause):
		return nil, used
	}
	if s.running == nil {
		s.start()
	}
	s.running.waiting++
	return s.running, Secret{}
}

// withheld: an API behind the same gateway might repeat what was sent there.
func (s *clientCredentials) withheld() []Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Secret{s.cfg.ClientSecret}, s.hidden...)
}

// haveOrJoin gives the current token, or the fetch to wait for.
func (s *clientCredentials) haveOrJoin() (Secret, *fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.goodAt(now) {
		if !s.renewAt.IsZero() && !now.Before(s.renewAt) && !now.Before(s.pause) && s.running == nil {
			s.start()
			s.running.waiting++
		}
		return s.current, nil, nil
	}
	if now.Before(s.pause) {
		e := s.refusal.copied()
		e.RetryAfter = s.pause.Sub(now)
		return Secret{}, nil, e
	}
	if s.running == nil {
		s.start()
	}
	s.running.waiting++
	return Secret{}, s.running, nil
}

func (s *clientCredentials) goodAt(now time.Time) bool {
	return !s.current.IsZero() && (s.endsAt.IsZero() || now.Before(s.endsAt))
}

// start begins a fetch that outlives the caller who needed it first, as long as
// anybody waits.
func (s *clientCredentials) start() {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	f := &fetch{cancel: cancel, done: make(chan struct{})}
	s.running = f
	go func() {
		defer cancel()
		got, err := s.fetch(ctx)
		s.finish(f, got, err)
	}()
}

func (s *clientCredentials) leave(f *fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if s.running == f { // who comes now must not wait for what was given up
		s.running = nil
	}
}

// fetched is a token with what is known of its end.
type fetched struct {
	token Secret
	life  time.Duration // from now on; 0 or less: not known
	scope []string
}

func (s *clientCredentials) finish(f *fetch, got fetched, err *TokenError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.done)
	f.token, f.err = got.token, err
	if s.running != f {
		return // given up by everybody
	}
	s.running = nil
	now := time.Now()
	s.past.note(got.scope, err, now)
	if err != nil {
		s.pauseAfter(err, now)
		return
	}
	s.current = got.token
	s.renewAt, s.endsAt = time.Time{}, time.Time{}
	s.pause, s.refusal, s.failures = time.Time{}, nil, 0
	// A new token that has ended already says that the clocks differ: then a
	// 401 tells when it is over, not every call a fetch.
	if got.life > 0 {
		s.endsAt = now.Add(got.life)
		s.renewAt = s.endsAt.Add(-min(renewMargin, got.life/10))
	}
}

// pauseAfter keeps an endpoint whose quota is spent, or that is in trouble, from
// being asked again and again. What only a person can cure is asked anew by
// whoever finds out whether it is cured.
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

// passing says whether the same request may be answered otherwise later.
func (e *TokenError) passing() bool {
	return e.Status < 300 || e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests
}

// copied: callers may hold an error as long as they like, and one is shared by
// all who waited.
func (e *TokenError) copied() *TokenError {
	c := *e
	return &c
}

// fetch asks the endpoint, and where it is not found under a URL that ends in a
// slash, the same without.
func (s *clientCredentials) fetch(ctx context.Context) (fetched, *TokenError) {
	s.mu.Lock()
	address := s.url
	s.mu.Unlock()
	got, err := s.ask(ctx, address)
	shorter, slash := strings.CutSuffix(address, "/")
	if err == nil || err.Status != http.StatusNotFound || !slash {
		return got, err
	}
	got, err = s.ask(ctx, shorter)
	if err == nil || err.Status != 0 && err.Status != http.StatusNotFound {
		s.mu.Lock()
		s.url = shorter
		s.mu.Unlock()
	}
	return got, err
}

// ask makes a request, and another where an assertion was refused by an endpoint
// whose clock is not ours: then that may be why.
func (s *clientCredentials) ask(ctx context.Context, address string) (fetched, *TokenError) {
	answer := &tokenAnswer{base: s.http.Transport}
	got, err := s.askOnce(ctx, address, answer)
	doubted := err != nil && (err.Status == http.StatusBadRequest || err.Status == http.StatusUnauthorized)
	if doubted && s.cfg.Method == AuthPrivateKeyJWT && s.setClock(answer.header) {
		return s.askOnce(ctx, address, answer)
	}
	return got, err
}

// setClock reports whether the endpoint's clock is another than was thought.
func (s *clientCredentials) setClock(header http.Header) bool {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead := date.Sub(time.Now().Round(0)) // without the monotonic reading: the clocks are what differs
	if (ahead - s.clock).Abs() <= clockTolerance {
		return false
	}
	s.clock = ahead
	return true
}

func (s *clientCredentials) askOnce(ctx context.Context, address string, answer *tokenAnswer) (fetched, *TokenError) {
	p, err := s.prove()
	if err != nil {
		return fetched{}, &TokenError{Err: err}
	}
	p.form.Set("audience", s.cfg.Audience)
	client := s.http
	client.Transport = answer
	flow := clientcredentials.Config{
		ClientID:       s.cfg.ClientID,
		ClientSecret:   p.secret.Reveal(),
		TokenURL:       address,
		EndpointParams: p.form,
		AuthStyle:      p.style,
	}
	*answer = tokenAnswer{base: answer.base}
	token, err := flow.Token(context.WithValue(ctx, oauth2.HTTPClient, &client))
	if err != nil {
		return fetched{}, tokenError(address, answer, err, mask{p.hidden})
	}
	got := fetched{token: NewSecret(token.AccessToken)}
	got.scope = scopesOf(token.Extra("scope"), got.token)
	if !strings.EqualFold(token.Type(), "Bearer") || !usableToken(got.token) {
		e := errors.New("it gave something that cannot be sent as a bearer token")
		return fetched{}, &TokenError{Status: answer.status, Err: fmt.Errorf("POST %s: %w", address, e)}
	}
	if got.life = time.Until(token.Expiry); token.Expiry.IsZero() {
		got.life = jwtLife(got.token, answer.header)
	}
	return got, nil
}

// prove makes the proof of the next request, and keeps what of it must not be
// repeated.
func (s *clientCredentials) prove() (proof, error) {
	if err := s.cfg.check(); err != nil {
		return proof{}, err
	}
	s.mu.Lock()
	ahead := s.clock
	s.mu.Unlock()
	p, err := s.cfg.proof(time.Now().Add(ahead))
	if err != nil {
		return proof{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = []Secret{p.hidden}
	return p, nil
}

// jwtLife is how long a token that has just come will last, by the clock of
// whoever made it where that is told; 0 or less: not known.
func jwtLife(token Secret, header http.Header) time.Duration {
	exp := jwtExpiry(token)
	if exp.IsZero() {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return exp.Sub(date)
	}
	return time.Until(exp)
}

// CheckTokenURL checks the address of a token endpoint: https, or http on the
// loopback interface only; no credentials, query or fragment.
func CheckTokenURL(tokenURL string) error {
	_, err := parseEndpoint("token URL", tokenURL)
	return err
}

// tokenError takes from err only what is no secret: oauth2's own error holds
// the whole exchange.
func tokenError(address string, answer *tokenAnswer, err error, m mask) *TokenError {
	e := &TokenError{
		Status:     answer.status,
		RetryAfter: retryAfter(answer.status, answer.header),
		Err:        fmt.Errorf("POST %s", address),
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		e.Code = plain(m.text(refused.ErrorCode), maxName)
		e.Description = plain(m.text(refused.ErrorDescription), maxMessage)
		if e.Code == "" && e.Description == "" {
			e.Description = quotedBeginning(refused.Body, m)
		}
		return e
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the address, which is there already
	}
	e.Err = fmt.Errorf("POST %s: %w", address, m.err(withoutQuote(err)))
	return e
}

// tokenAnswer remembers the status and header of the answer, which oauth2 does
// not tell of an answer that it cannot read.
type tokenAnswer struct {
	base   http.RoundTripper
	status int
	header http.Header
}

// RoundTrip hands the answer on without its Location: nothing is to follow it,
// and http.Client fails on one that it cannot parse.
func (a *tokenAnswer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a.status, a.header = resp.StatusCode, resp.Header
	resp.Header.Del("Location")
	return resp, nil
}
