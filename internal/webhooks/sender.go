package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
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
)

// Config is what a sender is made of.
type Config struct {
	Endpoints []Endpoint
	UserAgent string
	Proxy     func(*url.URL) (*url.URL, error) // which proxy a URL is reached by; nil, or an answer of nil: none
	RootCAs   *x509.CertPool                   // nil: the system's
	Resolver  *net.Resolver                    // nil: the system's
	Timeout   time.Duration                    // of one attempt; 0: 15 s, the least that the scheme suggests
}

const (
	defaultTimeout = 15 * time.Second
	// longestAnswer is how much of an answer is read, in bytes, so that its
	// connection can be used again. What it says is of no account.
	longestAnswer = 64 << 10
	// longestHeader bounds an answer's header, in bytes.
	longestHeader = 64 << 10
	// idleConns and idleFor bound the connections that are kept of an endpoint;
	// load balancers close theirs after a minute.
	idleConns = 2
	idleFor   = 45 * time.Second
)

// Sender delivers to a tenant's endpoints. It may be used from any goroutine.
type Sender struct {
	endpoints []Endpoint
	receivers map[string]*receiver
	timeout   time.Duration
	userAgent string
}

// receiver is an endpoint with connections of its own: what one allows, or keeps
// waiting, is none of another's business.
type receiver struct {
	endpoint Endpoint
	client   *http.Client
	rest     rest
}

// NewSender returns a sender to the endpoints. It connects to nobody.
func NewSender(c Config) (*Sender, error) {
	s := &Sender{endpoints: c.Endpoints, receivers: map[string]*receiver{}, timeout: c.Timeout, userAgent: c.UserAgent}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	for _, e := range c.Endpoints {
		transport, err := newTransport(c, e)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
		s.receivers[e.Name] = &receiver{endpoint: e, client: &http.Client{
			Transport: transport,
			// The receiver of a redirect is not the one that was configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	}
	return s, nil
}

// newTransport reaches the endpoint through its proxy, which then is who resolves
// the name and has to keep away from addresses, or directly, to allowed ones.
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
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  http.ProxyURL(through),
		DialContext:            newDial(c.Resolver, allowed),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: longestHeader,
		DisableCompression:     true, // an answer is never unpacked
		Protocols:              protocols,
	}, nil
}

// public is what an endpoint may be connected to at without allow_private.
var public = dnscheck.IsPublic

// allowed says whether the endpoint may be at that address.
func (e Endpoint) allowed(addr netip.Addr) bool {
	switch {
	case e.url.Scheme == "http":
		return addr.IsLoopback()
	case e.allowPrivate:
		return true
	}
	return public(addr)
}

// Wanting are the names of the endpoints that are told of events of that type, in
// the order of the file.
func (s *Sender) Wanting(eventType string) []string {
	var names []string
	for _, e := range s.endpoints {
		if e.Wants(eventType) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Has says whether there is an endpoint of that name.
func (s *Sender) Has(endpoint string) bool { return s.receivers[endpoint] != nil }

// Close closes the connections that are kept.
func (s *Sender) Close() {
	for _, r := range s.receivers {
		r.client.CloseIdleConnections()
	}
}

// DeliveryError says why an attempt did not deliver. It has nothing of the
// endpoint's secrets, nor of its URL beyond the host.
type DeliveryError struct {
	Endpoint   string
	Status     int           // of the answer; 0: there was none
	RetryAfter time.Duration // what the receiver asks to wait, at most a day; 0: nothing
	Permanent  bool          // another attempt would not do either
	Unsent     bool          // no attempt was made: the receiver is left alone for RetryAfter

	reason string
	cause  error
}

func (e *DeliveryError) Error() string {
	return fmt.Sprintf("webhook endpoint %s: %s", e.Endpoint, e.reason)
}

// AskedToWait is RetryAfter, by the name that the queue knows.
func (e *DeliveryError) AskedToWait() time.Duration { return e.RetryAfter }

// Final is Permanent.
func (e *DeliveryError) Final() bool { return e.Permanent }

// NotSent is Unsent.
func (e *DeliveryError) NotSent() bool { return e.Unsent }

// Unwrap is what is below: for errors.Is, not to be shown.
func (e *DeliveryError) Unwrap() error { return e.cause }

// eventID is what may be in the webhook-id: the scheme signs it in front of a
// full stop, so there must be none in it.
var (
	eventID    = regexp.MustCompile(`^[A-Za-z0-9_:|-]{1,255}$`)
	errEventID = errors.New("the event's id cannot be signed: want 1 to 255 of A-Z a-z 0-9 _ : | -")
)

// Deliver makes one attempt to deliver body, as it is, to the endpoint of that
// name. id names the event, and stays when it is delivered again; at is the time
// of the attempt, which receivers compare with their own. The error is a
// *DeliveryError; nil: the receiver has answered with a 2xx.
func (s *Sender) Deliver(ctx context.Context, endpoint, id string, at time.Time, body []byte) error {
	r, ok := s.receivers[endpoint]
	if !ok {
		// A worker that was started later may know it.
		return &DeliveryError{Endpoint: endpoint, reason: "this worker has no endpoint of that name: is it in the file that --webhooks names?"}
	}
	request, secrets, err := r.request(id, at, body)
	if err != nil {
		return &DeliveryError{Endpoint: endpoint, reason: err.Error(), Permanent: errors.Is(err, errEventID)}
	}
	request.Header.Set("User-Agent", s.userAgent)
	if wait := r.rest.begin(); wait > 0 {
		return &DeliveryError{Endpoint: endpoint, RetryAfter: wait, Unsent: true, reason: "paused for a moment, since the last attempts failed"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	failure := r.send(request.WithContext(ctx), s.timeout, r.endpoint.hide(secrets))
	r.rest.end(failure)
	if failure != nil {
		return failure
	}
	return nil
}

// request is what is sent, without what the sender has for all, and the secrets
// that it is signed with.
func (r *receiver) request(id string, at time.Time, body []byte) (*http.Request, []apiclient.Secret, error) {
	if !eventID.MatchString(id) {
		return nil, nil, fmt.Errorf("%w, got %.80q", errEventID, id)
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

// sign is the header's signatures, one by each secret: the scheme's own library
// makes them.
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

// send sends the request, and reads what came of it.
func (r *receiver) send(request *http.Request, timeout time.Duration, hide *strings.Replacer) *DeliveryError {
	answer, err := r.client.Do(request)
	if err != nil {
		return r.unanswered(request.Context(), err, timeout, hide)
	}
	defer answer.Body.Close()
	// An answer whose end does not come is an answer.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		return nil
	}
	return &DeliveryError{
		Endpoint: r.endpoint.Name, Status: answer.StatusCode, RetryAfter: apiclient.RetryAfter(answer.Header),
		Permanent: answer.StatusCode == http.StatusGone,
		reason:    r.endpoint.Origin() + " answered " + explain(answer.StatusCode) + excerpt(string(text), hide),
	}
}

// explain is a status in words, with what to do where that is known.
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

// unanswered tells of an attempt that had no answer. net/http's error has the
// whole URL in front of its cause. None is permanent, not even where each address
// was refused: a resolver may have answered in a zone's stead for a moment.
func (r *receiver) unanswered(ctx context.Context, err error, timeout time.Duration, hide *strings.Replacer) *DeliveryError {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	failure := &DeliveryError{Endpoint: r.endpoint.Name, cause: err}
	what := inOneLine(hide.Replace(err.Error()))
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		what = fmt.Sprintf("no answer within %s", timeout)
	}
	failure.reason = r.endpoint.Origin() + ": " + what
	return failure
}

// longestExcerpt is how much of an answer is shown, in code points.
const longestExcerpt = 200

// excerpt is the beginning of an answer's text, quoted, for whoever looks for the
// reason.
func excerpt(text string, hide *strings.Replacer) string {
	text = strings.TrimSpace(hide.Replace(text))
	if text == "" {
		return ""
	}
	return ": " + strconv.Quote(beginning(text, longestExcerpt))
}

// inOneLine is what a library says, with what a stranger may have put into it
// escaped.
func inOneLine(text string) string {
	quoted := strconv.Quote(beginning(text, longestExcerpt))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// beginning is the first most code points of s, with an ellipsis behind them
// where there are more.
func beginning(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// hidden stands where something was left out.
const hidden = "[hidden]"

// The least lengths, in bytes, of what is taken for a token: what is shorter is a
// word of the path, or a flag of the query.
const (
	shortestInPath  = 12
	shortestInQuery = 4
)

// hide takes out of a receiver's text what it may repeat of the request, or know
// by itself: the secrets, and the URL's path and query, where some carry a token.
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
	pairs := make([]string, 0, 2*len(words))
	for _, word := range words {
		pairs = append(pairs, word, hidden)
	}
	return strings.NewReplacer(pairs...)
}
