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

	// renewMargin is how long before its end a token is renewed; of a short
	// token, a tenth of its life. The service's tokens last a day.
	renewMargin = 2 * time.Minute

	// renewPause is how long a token that is still good is used on after its
	// renewal failed, before the next try.
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

	Network Network // not used where there is a Transport

	Transport http.RoundTripper // of token requests; nil: one of its own, of a connection a fetch
	Timeout   time.Duration     // for one fetch of a token as a whole; 0: 30 s
}

// DefaultTokenURL is the token endpoint of specification 5, its last slash
// included, below authURL.
func DefaultTokenURL(authURL string) string {
	return strings.TrimRight(authURL, "/") + "/oauth/token/"
}

// CheckTokenURL checks the address of a token endpoint: https, or http on the
// loopback interface only; no credentials, query or fragment.
func CheckTokenURL(tokenURL string) error {
	_, err := parseEndpoint("token URL", tokenURL)
	return err
}

// ClientCredentials fetches tokens by the OAuth 2.0 client credentials flow and
// keeps each until shortly before its end, by the time that has passed here and
// not by what clocks say. Callers that need one at the same time share one
// fetch; while a token is still good, it is renewed in the background, and used
// on where the endpoint is down. A token URL that ends in a slash and answers
// 404 is tried once without it, as the service has it in fact; what worked is
// kept. An endpoint in trouble is asked again after a pause that grows;
// while its Retry-After to a 429 lasts, it is not asked.
func ClientCredentials(cfg ClientCredentialsConfig) TokenSource {
	s := &clientCredentials{cfg: cfg, transport: cfg.Transport, url: cfg.TokenURL}
	if s.transport == nil {
		s.transport = cfg.Network.tokenTransport()
	}
	return s
}

// tokenTransport keeps no connection: there is one fetch a day. Nor is it worth
// HTTP/2, over which a request that was refused is sent again with its
// assertion, though that is for one use.
func (n Network) tokenTransport() http.RoundTripper {
	t := newTransport(n, defaultConnectTimeout, defaultHeaderTimeout, 1)
	t.DisableKeepAlives = true
	t.Protocols.SetHTTP2(false)
	return t
}

type clientCredentials struct {
	cfg       ClientCredentialsConfig
	transport http.RoundTripper
	fetches   singleflight.Group // one fetch at a time

	// Only the fetch that is running uses these.
	url   string        // TokenURL, or the same without its last slash once that was found
	clock time.Duration // how far the endpoint's is ahead of ours; 0: near enough

	mu       sync.Mutex
	fetching bool
	current  Secret
	renewAt  time.Time   // from when on current is renewed; zero: its end is not known
	endsAt   time.Time   // when current ends; zero: not known
	pause    time.Time   // until when the endpoint is not asked
	refusal  *TokenError // why
	failures int         // in a row, of those that a pause cures
	sent     mask        // the secrets in the last request
	past     TokenHealth // how fetches went
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
// fails: it serves other operations.
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

// haveOrRenew returns the token that there is, or the fetch to wait for.
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

// lastSent returns what an API behind the same gateway as the endpoint might repeat.
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
		if !paused && !s.fetching && !s.renewAt.IsZero() && !now.Before(s.renewAt) {
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

// join starts a fetch, or joins the one that is running. It goes on when its callers
// leave. The caller holds mu.
func (s *clientCredentials) join() <-chan singleflight.Result {
	s.fetching = true
	return s.fetches.DoChan("", func() (any, error) {
		limit := cmp.Or(s.cfg.Timeout, tokenTimeout)
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errTimeout{limit})
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
	life   time.Duration // from now on; 0 or less: not known
	scopes []string
}

func (s *clientCredentials) finish(got fetched, err *TokenError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching = false
	now := time.Now()
	s.past.note(got.scopes, err, now)
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
// the next caller.
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

// passing reports whether the same request may be answered otherwise later.
func (e *TokenError) passing() bool {
	return e.Status < 300 || e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests
}

// fetch asks the endpoint, and where it is not found under a URL that ends in a
// slash, the same without.
func (s *clientCredentials) fetch(ctx context.Context) (fetched, *TokenError) {
	got, err := s.ask(ctx, s.url)
	shorter, slash := strings.CutSuffix(s.url, "/")
	if err == nil || err.Status != http.StatusNotFound || !slash {
		return got, err
	}
	got, err = s.ask(ctx, shorter)
	if err == nil || err.Status != 0 && err.Status != http.StatusNotFound {
		s.url = shorter
	}
	return got, err
}

// ask makes a request, and another where an assertion was refused by an endpoint
// whose clock is not ours: then that may be why.
func (s *clientCredentials) ask(ctx context.Context, address string) (fetched, *TokenError) {
	got, header, err := s.askOnce(ctx, address)
	doubted := err != nil && (err.Status == http.StatusBadRequest || err.Status == http.StatusUnauthorized)
	if doubted && s.cfg.Method == AuthPrivateKeyJWT && s.setClock(header) {
		got, _, err = s.askOnce(ctx, address)
	}
	return got, err
}

// setClock reports whether the endpoint's clock is another than was thought.
func (s *clientCredentials) setClock(header http.Header) bool {
	date, ok := dateOf(header)
	ahead := date.Sub(time.Now().Round(0)) // without the monotonic reading: the clocks are what differs
	if !ok || (ahead-s.clock).Abs() <= clockTolerance {
		return false
	}
	s.clock = ahead
	return true
}

// askOnce makes one request for a token (RFC 6749 section 4.4). It follows no redirect:
// that would give the client secret to whoever it names.
func (s *clientCredentials) askOnce(ctx context.Context, address string) (fetched, http.Header, *TokenError) {
	req, secrets, err := s.cfg.request(ctx, address, time.Now().Add(s.clock))
	if err != nil {
		return fetched{}, nil, &TokenError{Err: err}
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
	said := parseErrorBody(body, secrets)
	if !isSuccess(resp.StatusCode) || said.title != "" {
		e.Code, e.Description = said.title, said.message
		return fetched{}, resp.Header, e
	}
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
		ExpiresIn json.Number `json:"expires_in"` // which reads a number in a string too, as some servers send it
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
	if said, ok := a.Scope.(string); ok {
		scopes = strings.Fields(said)
	}
	seconds, _ := a.ExpiresIn.Int64() // 0: not said
	life := time.Duration(min(seconds, 1<<31)) * time.Second
	if life <= 0 && !exp.IsZero() {
		life = exp.Sub(dateOrNow(header)) // by the clock of the server that made it, if known
	}
	return fetched{token: token, life: life, scopes: scopes}, nil
}
