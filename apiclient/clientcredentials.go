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
)

// ClientCredentialsConfig is what the client credentials flow needs
// (specification 5). All but HTTPClient is required.
type ClientCredentialsConfig struct {
	TokenURL     string // https, or http on loopback; DefaultTokenURL makes it from the specification
	Audience     string // as DefaultAudience makes it
	ClientID     string
	ClientSecret Secret

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

// ClientCredentials fetches tokens by the OAuth 2.0 client credentials flow, the
// secret in the form, and keeps each until shortly before its end. Callers that
// need one at the same time share one fetch. A token URL that ends in a slash
// and answers 404 is tried once without it, as the service has it in fact; what
// worked is remembered. While the endpoint's Retry-After to a 429 lasts, it is
// not asked.
func ClientCredentials(cfg ClientCredentialsConfig) TokenSource {
	httpClient := http.Client{Transport: tokenTransport()}
	if cfg.HTTPClient != nil {
		httpClient = *cfg.HTTPClient
	}
	if httpClient.Timeout == 0 {
		httpClient.Timeout = tokenTimeout
	}
	if httpClient.Transport == nil {
		httpClient.Transport = tokenTransport()
	}
	// Following one would hand the client secret to whoever it names.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &clientCredentials{cfg: cfg, http: httpClient, url: cfg.TokenURL}
}

// tokenTransport keeps no connection: there is one fetch a day.
func tokenTransport() *http.Transport {
	t := newTransport(defaultConnectTimeout, defaultHeaderTimeout, 1)
	t.DisableKeepAlives = true
	return t
}

type clientCredentials struct {
	cfg  ClientCredentialsConfig
	http http.Client

	mu      sync.Mutex
	url     string // TokenURL, or the same without its last slash once that was found
	current Secret
	renewAt time.Time // from when on current is renewed; zero: its end is not known
	endsAt  time.Time // when current ends; zero: not known
	running *fetch    // nil: none
	pause   time.Time // until when the endpoint is not asked
	refusal *TokenError
}

// fetch is one request for a token, and those who wait for it.
type fetch struct {
	cancel  context.CancelFunc
	waiting int // guarded by the source's mu; at 0 nobody wants it any more
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
	if f.err == nil {
		return f.token, nil
	}
	if token := s.stillGood(); !token.IsZero() {
		return token, nil
	}
	return Secret{}, f.err.copied()
}

func (s *clientCredentials) Expire(refused Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Equal(refused) {
		s.current = Secret{}
	}
}

// withheld: an API behind the same gateway might repeat the secret.
func (s *clientCredentials) withheld() []Secret { return []Secret{s.cfg.ClientSecret} }

// haveOrJoin gives the current token, or the fetch to wait for.
func (s *clientCredentials) haveOrJoin() (Secret, *fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.current.IsZero() && (s.renewAt.IsZero() || now.Before(s.renewAt)) {
		return s.current, nil, nil
	}
	if now.Before(s.pause) {
		if s.goodAt(now) {
			return s.current, nil, nil
		}
		if s.refusal != nil {
			e := s.refusal.copied()
			e.RetryAfter = s.pause.Sub(now)
			return Secret{}, nil, e
		}
	}
	if s.running == nil {
		s.start()
	}
	s.running.waiting++
	return Secret{}, s.running, nil
}

func (s *clientCredentials) stillGood() Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goodAt(time.Now()) {
		return s.current
	}
	return Secret{}
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

// fetched is a token with what it says about its own end.
type fetched struct {
	token  Secret
	endsAt time.Time // zero: not known
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
	if err != nil {
		s.pauseAfter(err, now)
		return
	}
	s.current, s.endsAt = got.token, time.Time{}
	s.renewAt, s.pause, s.refusal = time.Time{}, time.Time{}, nil
	// A new token that has ended already says that the clocks differ: then a
	// 401 tells when it is over, not every call a fetch.
	if life := got.endsAt.Sub(now); life > 0 {
		s.endsAt = got.endsAt
		s.renewAt = s.endsAt.Add(-min(renewMargin, life/10))
	}
}

// pauseAfter keeps the endpoint's quota from being asked again and again while
// it is spent, and a good token in use while its renewal does not succeed.
func (s *clientCredentials) pauseAfter(err *TokenError, now time.Time) {
	switch {
	case err.Status == http.StatusTooManyRequests && err.RetryAfter > 0:
		s.pause, s.refusal = now.Add(err.RetryAfter), err
	case s.goodAt(now):
		s.pause, s.refusal = now.Add(renewPause), nil
	}
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

func (s *clientCredentials) ask(ctx context.Context, address string) (fetched, *TokenError) {
	if err := s.cfg.check(); err != nil {
		return fetched{}, &TokenError{Err: err}
	}
	answer := &tokenAnswer{base: s.http.Transport}
	client := s.http
	client.Transport = answer
	flow := clientcredentials.Config{
		ClientID:       s.cfg.ClientID,
		ClientSecret:   s.cfg.ClientSecret.Reveal(),
		TokenURL:       address,
		EndpointParams: url.Values{"audience": {s.cfg.Audience}},
		AuthStyle:      oauth2.AuthStyleInParams,
	}
	token, err := flow.Token(context.WithValue(ctx, oauth2.HTTPClient, &client))
	if err != nil {
		return fetched{}, s.tokenError(address, answer, err)
	}
	got := fetched{token: NewSecret(token.AccessToken), endsAt: token.Expiry}
	if !strings.EqualFold(token.Type(), "Bearer") || !usableToken(got.token) {
		e := errors.New("it gave something that cannot be sent as a bearer token")
		return fetched{}, &TokenError{Status: answer.status, Err: fmt.Errorf("POST %s: %w", address, e)}
	}
	if got.endsAt.IsZero() {
		got.endsAt = jwtExpiry(got.token)
	}
	return got, nil
}

// CheckTokenURL checks the address of a token endpoint: https, or http on the
// loopback interface only; no credentials, query or fragment.
func CheckTokenURL(tokenURL string) error {
	_, err := parseEndpoint("token URL", tokenURL)
	return err
}

func (cfg ClientCredentialsConfig) check() error {
	if err := CheckTokenURL(cfg.TokenURL); err != nil {
		return err
	}
	switch {
	case cfg.ClientID == "":
		return errors.New("no client id was set")
	case cfg.ClientSecret.IsZero():
		return errors.New("no client secret was set")
	case cfg.Audience == "":
		return errors.New("no audience was set")
	}
	return nil
}

// tokenError takes from err only what is no secret: oauth2's own error holds
// the whole exchange.
func (s *clientCredentials) tokenError(address string, answer *tokenAnswer, err error) *TokenError {
	m := newMask(s.cfg.ClientSecret)
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
