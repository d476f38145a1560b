package webhooks

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/untrusted"
)

// Config configures a [Sender].
type Config struct {
	Endpoints []Endpoint
	UserAgent string
	Proxy     func(*url.URL) (*url.URL, error) // the proxy of a URL; nil, or returning nil: none
	RootCAs   *x509.CertPool                   // nil: the system's
}

const (
	// attemptTimeout bounds one attempt: the least that the scheme suggests.
	attemptTimeout = 15 * time.Second
	// longestAnswer and answerTimeout bound the body of an answer that is read, in bytes, so that
	// its connection can be used again: the status alone is of consequence.
	longestAnswer = 4 << 10
	answerTimeout = time.Second
	// longestHeader bounds an answer's header, in bytes.
	longestHeader = 64 << 10
	// idleConns and idleFor bound the idle connections of an endpoint: load balancers close
	// theirs after a minute.
	idleConns = 2
	idleFor   = 45 * time.Second
)

// Sender delivers to a tenant's endpoints. It is safe for concurrent use.
type Sender struct {
	endpoints []Endpoint
	receivers map[string]*receiver
	userAgent string
}

// receiver is an endpoint with connections of its own.
type receiver struct {
	endpoint Endpoint
	client   *http.Client
	rest     rest
}

// NewSender returns a sender to the endpoints. It does not connect.
func NewSender(c Config) (*Sender, error) {
	s := &Sender{endpoints: c.Endpoints, receivers: map[string]*receiver{}, userAgent: c.UserAgent}
	for _, e := range c.Endpoints {
		transport, err := newTransport(c, e)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
		s.receivers[e.Name] = &receiver{endpoint: e, client: &http.Client{
			Transport: transport,
			// The target of a redirect was not configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	}
	return s, nil
}

// newTransport returns a transport that connects to the endpoint's allowed addresses, or
// through its proxy, which then resolves the name and decides on addresses.
func newTransport(c Config, e Endpoint) (*http.Transport, error) {
	var through *url.URL
	if c.Proxy != nil {
		var err error
		if through, err = c.Proxy(e.url); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	allowed := e.allowed
	if through != nil {
		allowed = func(netip.Addr) bool { return true }
	}
	return &http.Transport{
		Proxy:                  http.ProxyURL(through),
		OnProxyConnectResponse: apiclient.ProxyConnected,
		DialContext:            newDial(allowed),
		TLSClientConfig:        trustOf(c.RootCAs),
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: longestHeader,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}, nil
}

// public reports whether an endpoint without allow_private may have the address.
var public = dnscheck.IsPublic

func (e Endpoint) allowed(addr netip.Addr) bool {
	switch {
	case e.url.Scheme == "http":
		return addr.IsLoopback()
	case e.allowPrivate:
		return true
	}
	return public(addr)
}

// Wanting returns the names of the endpoints that want events of the type, in the order of
// the file.
func (s *Sender) Wanting(eventType string) []string {
	var names []string
	for _, e := range s.endpoints {
		if e.Wants(eventType) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Entry identifies the settings of the endpoint of that name; "": there is none.
func (s *Sender) Entry(endpoint string) string {
	if r := s.receivers[endpoint]; r != nil {
		return r.endpoint.entry
	}
	return ""
}

// Close closes idle connections.
func (s *Sender) Close() {
	for _, r := range s.receivers {
		r.client.CloseIdleConnections()
	}
}

// eventID matches ids. The scheme signs an id followed by a full stop, so it contains none.
var (
	eventID    = regexp.MustCompile(`^[A-Za-z0-9_:|-]{1,255}$`)
	errEventID = errors.New("the event's id cannot be signed: want 1 to 255 of A-Z a-z 0-9 _ : | -")
)

// Deliver makes one attempt to deliver the body to the endpoint of that name. id is the
// event's, and the same if it is delivered again; at is the time of the attempt, which
// receivers compare with their own. The error is a *DeliveryError; nil: the receiver
// answered with a 2xx.
func (s *Sender) Deliver(ctx context.Context, endpoint, id string, at time.Time, body []byte) error {
	r, ok := s.receivers[endpoint]
	if !ok {
		// A worker that was started later may know it.
		return &DeliveryError{
			Endpoint: endpoint, Reason: "this worker has no endpoint of that name: is it in the file that --webhooks names?",
		}
	}
	request, secrets, err := r.request(id, at, body)
	if err != nil {
		return &DeliveryError{Endpoint: endpoint, Reason: err.Error(), Permanent: errors.Is(err, errEventID)}
	}
	request.Header.Set("User-Agent", s.userAgent)
	if wait := r.rest.begin(); wait > 0 {
		return &DeliveryError{Endpoint: endpoint, RetryAfter: wait, Unsent: true,
			Reason: "paused for a moment, since the last attempts failed"}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	failure := r.send(request.WithContext(ctx), cancel, r.endpoint.hide(secrets))
	r.rest.end(failure)
	if failure != nil {
		return failure
	}
	return nil
}

func (r *receiver) request(id string, at time.Time, body []byte) (*http.Request, []apiclient.Secret, error) {
	if !eventID.MatchString(id) {
		return nil, nil, fmt.Errorf("%w, got %s", errEventID, untrusted.Value(id))
	}
	secrets, err := r.endpoint.secrets()
	if err != nil {
		return nil, nil, err
	}
	signatures, err := sign(secrets, id, at, body)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequest(http.MethodPost, r.endpoint.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("the url is not usable")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	return request, secrets, nil
}

// sign returns the signatures of the header, one by each secret.
func sign(secrets []apiclient.Secret, id string, at time.Time, body []byte) (string, error) {
	var all []string
	for _, secret := range secrets {
		w, err := standardwebhooks.NewWebhook(secret.Reveal())
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		one, err := w.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		all = append(all, one)
	}
	return strings.Join(all, " "), nil
}

// send sends the request, and reads the answer. cancel ends the request.
func (r *receiver) send(request *http.Request, cancel func(), hide *strings.Replacer) *DeliveryError {
	answer, err := r.client.Do(request)
	if err != nil {
		return r.unanswered(request.Context(), err, hide)
	}
	defer answer.Body.Close()
	defer time.AfterFunc(answerTimeout, cancel).Stop()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer)) // a status counts even if its body does not end
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		return nil
	}
	return &DeliveryError{
		Endpoint: r.endpoint.Name, Status: answer.StatusCode, RetryAfter: apiclient.RetryAfter(answer.Header),
		Permanent: answer.StatusCode == http.StatusGone,
		Reason:    r.endpoint.Origin() + " answered " + explain(answer.StatusCode) + excerpt(string(text), hide),
	}
}

func explain(status int) string {
	text := strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	switch {
	case status == http.StatusGone:
		return text + ": the receiver wants no more events; remove the endpoint from the file"
	case status >= 300 && status <= 399:
		return text + ": redirects are not followed; put the new address into the file"
	}
	return text
}

// unanswered returns the error of an attempt without an answer. That of net/http has the
// whole URL before its cause. None is permanent, not even if each address was refused: a
// resolver's answer may have been wrong for a moment.
func (r *receiver) unanswered(ctx context.Context, err error, hide *strings.Replacer) *DeliveryError {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	reason := untrusted.Plain(hide.Replace(err.Error()), longestExcerpt) + trusted(err)
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		reason = fmt.Sprintf("no answer within %s", attemptTimeout)
	}
	return &DeliveryError{Endpoint: r.endpoint.Name, Reason: r.endpoint.Origin() + ": " + reason, cause: err}
}

// longestExcerpt is how much of an answer is shown, in code points.
const longestExcerpt = 200

// excerpt returns the beginning of an answer's text, quoted.
func excerpt(text string, hide *strings.Replacer) string {
	text = strings.TrimSpace(hide.Replace(text))
	if text == "" {
		return ""
	}
	return ": " + untrusted.Quote(text, longestExcerpt)
}

// hidden replaces a secret.
const hidden = "[hidden]"

// The shortest parts of a URL that are taken for tokens, in bytes: shorter ones are words of
// the path, or flags of the query.
const (
	shortestInPath  = 12
	shortestInQuery = 4
)

// hide returns a replacer for a receiver's text, which may repeat the secrets, or tokens in
// the URL's path and query.
func (e Endpoint) hide(secrets []apiclient.Secret) *strings.Replacer {
	var words []string
	for _, secret := range secrets {
		words = append(words, secret.Reveal(), strings.TrimPrefix(secret.Reveal(), secretPrefix))
	}
	if e.url.RawQuery != "" {
		words = append(words, e.url.RawQuery)
	}
	for _, values := range e.url.Query() {
		for _, value := range values {
			if len(value) >= shortestInQuery {
				words = append(words, value, url.QueryEscape(value))
			}
		}
	}
	for _, path := range []string{e.url.Path, e.url.EscapedPath()} {
		for part := range strings.SplitSeq(path, "/") {
			if len(part) >= shortestInPath {
				words = append(words, part)
			}
		}
	}
	var pairs []string
	for _, word := range words {
		pairs = append(pairs, word, hidden)
	}
	return strings.NewReplacer(pairs...)
}
