package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"orgops/internal/untrusted"
)

// Request is a request that needs a permit.
type Request struct {
	Operation string // one of the Op constants
	Class     int    // that of the client: see [Binding]
	// Again says that the permit replaces an earlier one of the same request, whose token had
	// expired, was refused, or had to be fetched.
	Again bool
}

// Intent is called when a request that changes something has its permit and token and is about to
// be sent, each time that it is. If it fails nothing is sent, and its error is returned wrapped. It
// stores what a later execution must know of a request whose answer is lost. One without a permit
// leaves no intent. nil: none.
type Intent func(context.Context) error

// Gate paces requests. It must be safe for concurrent use.
type Gate interface {
	// Wait is called before every request to the API, including each page of a list and
	// each repetition, but not for token requests. It returns when the request may be
	// sent. Its error is returned to the caller wrapped, and nothing is sent.
	Wait(ctx context.Context, r Request) error

	// Answered is called once for each Wait that returned nil: when the answer was read or,
	// of a 408, 429 or 5xx, as soon as its header has arrived. status is 0 and header nil if
	// nothing was sent or the API did not answer, but a proxy, a firewall or nobody; it is
	// 401 for each answer that refuses the token. after is how long the answer asks to wait, at
	// most a day; 0: it does not say, or less than a second. ctx is not cancelled with the
	// caller's, so that a 429 is reported even if the caller has given up; the implementation
	// bounds its own work.
	Answered(ctx context.Context, operation string, status int, header http.Header, after time.Duration)
}

// Config configures a [Client]. BaseURL and Tokens are required.
type Config struct {
	BaseURL string // passes CheckBaseURL, such as "https://tenant.example/api/v2"
	Tokens  TokenSource
	Gate    Gate // nil: requests are not paced
	Network Network
	Body    BodyFormat // empty: BodyJSON

	UserAgent string // empty: "orgops"

	Timeout  time.Duration // of one request including the answer's body; 0: 30 s
	MaxConns int           // idle connections that stay open, one for each request in progress; 0: 64

	// Observe is called after each request that was sent, with status 0 if there was no
	// answer; took excludes the wait for a permit or a token. It may be nil, and must be
	// safe for concurrent use.
	Observe func(operation string, status int, took time.Duration)

	// Trace is called before each request, which is sent with the context that it returns.
	// The returned function is called after the answer was read, with status 0 if there
	// was none. It may be nil, and must be safe for concurrent use.
	Trace func(ctx context.Context, operation, method string) (context.Context, func(status int))

	// Failed is called for each request that did not end in a 2xx, with the error that its
	// caller gets. It may be nil, and must be safe for concurrent use.
	Failed func(operation string, err error)

	Logger *slog.Logger // one line a request at debug level; nil: none
}

// Defaults of [Config].
const (
	defaultUserAgent = "orgops"
	defaultTimeout   = 30 * time.Second
	defaultMaxConns  = 64
)

// Client calls the Management API of one tenant. It is safe for concurrent use.
type Client struct {
	*shared

	binding Binding
}

// shared is the part that a client has in common with those that are bound to work.
type shared struct {
	cfg       Config // complete
	transport *http.Transport
	refused   refusals
	unknown   sync.Once // logs a status
}

// Binding is the piece of work for which a client makes its requests, such as the execution of a
// row: every request of that client has these, also those of calls that are added later.
type Binding struct {
	// Class is the class of the requests, by which the [Gate] orders them.
	Class int
	// Before is called when a request has its permit and token and is about to be sent, each page
	// of a list and each repetition. If it fails nothing is sent, and its error is returned
	// wrapped. A permit can take long, and only the caller knows whether the request is still
	// wanted after the wait. nil: not called.
	Before func(context.Context) error
	// Changed is called after the 2xx of a request that changes something: see [Writes]. nil: not
	// called.
	Changed func(context.Context, Change)
}

// Change is a request by which the API has changed something.
type Change struct {
	Operation string // one of the Op constants
	Method    string
	Path      string // below the base URL
	Status    int
	// RequestID is the API's id of the request, by which its support finds it; "": it gave none.
	RequestID string
	// CorrelationID is the id that the request carried, which the tenant's log has: see
	// [WithCorrelationID]. "": none.
	CorrelationID string
}

// For returns the client of a piece of work. It shares connections, token and gate with c, whose
// own binding it does not have.
func (c *Client) For(b Binding) *Client { return &Client{shared: c.shared, binding: b} }

// New checks the settings and returns a client. It connects to nothing.
func New(cfg Config) (*Client, error) {
	if err := CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, fmt.Errorf("api client: %w", err)
	}
	cfg.UserAgent = cmp.Or(cfg.UserAgent, defaultUserAgent)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Gate == nil {
		cfg.Gate = openGate{}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, int, time.Duration) {}
	}
	if cfg.Trace == nil {
		cfg.Trace = func(ctx context.Context, _, _ string) (context.Context, func(int)) { return ctx, func(int) {} }
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, error) {}
	}
	transport := newTransport(cfg.Network, cmp.Or(cfg.MaxConns, defaultMaxConns))
	return &Client{shared: &shared{cfg: cfg, transport: transport}}, nil
}

// Timeout returns the longest duration of one request. The API may act on a request whose
// answer was lost for about as long.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// CloseIdle closes the connections without a request in progress.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

type openGate struct{}

func (openGate) Wait(context.Context, Request) error                               { return nil }
func (openGate) Answered(context.Context, string, int, http.Header, time.Duration) {}

// apiPrefix is the API's version in its path (specification 1 and 9).
const apiPrefix = "/api/v2"

// CheckBaseURL checks the address of a Management API: https, or http on the loopback
// interface only; no credentials, query or fragment; a path that ends in /api/v2. The
// error contains no credentials.
func CheckBaseURL(baseURL string) error {
	if baseURL == "" {
		return errors.New("base URL: missing: want https://HOST/api/v2")
	}
	u, err := parseEndpoint("base URL", baseURL)
	if err != nil {
		return err
	}
	switch {
	case strings.HasSuffix(u.Path, apiPrefix+"/"):
		return fmt.Errorf("base URL: want a path that ends in %s, got %s: leave the last / out",
			apiPrefix, untrusted.Value(u.Path))
	case !strings.HasSuffix(u.Path, apiPrefix):
		return fmt.Errorf("base URL: want a path that ends in %s, got %s", apiPrefix, untrusted.Value(u.Path))
	case u.RawPath != "" || path.Clean(u.Path) != u.Path:
		return fmt.Errorf("base URL: want a plain path, got %s", untrusted.Value(u.EscapedPath()))
	}
	return nil
}

// DefaultAudience returns the audience of tokens for the API at baseURL: its scheme and
// host with the path /api/v2/, including the last slash.
func DefaultAudience(baseURL string) (string, error) {
	if err := CheckBaseURL(baseURL); err != nil {
		return "", err
	}
	u, _ := url.Parse(baseURL) // it was checked
	return u.Scheme + "://" + u.Host + apiPrefix + "/", nil
}
