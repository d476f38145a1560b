package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/untrusted"
)

type request struct {
	operation string
	method    string
	path      string     // below the base URL, its parts already checked
	query     url.Values // nil: none
	body      any        // encoded as JSON or as a form; nil: none
	limit     int64      // of a 2xx's body, in bytes; 0: the body is ignored
	invalid   error      // the *ValidationError; nil: none
	intent    Intent     // nil: none
	again     bool       // it had a permit before: see [Request]
}

// do sends k unless it is invalid, repeats it with a fresh token if the API refused the
// first one, and returns the 2xx. All else is an error of the types of the package comment.
func (c *Client) do(ctx context.Context, k request) (_ answer, err error) {
	if k.invalid != nil {
		return answer{}, fmt.Errorf("%s: %w", k.operation, k.invalid)
	}
	defer func() {
		if err != nil {
			c.cfg.Failed(k.operation, err)
		}
	}()

	// The request, and once more with a fresh token if the API refused the first one.
	a, err := c.attempts(ctx, k)
	if err != nil {
		return answer{}, err
	}
	fresh, err := c.fresher(ctx, a)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %s %s: the API refused the token, and there is no other: %w",
			k.operation, k.method, k.path, err)
	}
	if !fresh.Equal(a.token) {
		k.again = true
		if a, err = c.attempts(ctx, k); err != nil {
			return answer{}, err
		}
	}

	// The answer.
	c.refused.answered(a.meaning())
	if a.refusal != nil {
		return answer{}, a.refusal
	}
	if c.binding.Changed != nil && schema.Writes(k.operation) {
		c.binding.Changed(ctx, Change{
			Operation: k.operation, Method: k.method, Path: k.path, Status: a.status,
			RequestID: a.requestID(), CorrelationID: correlationID(ctx),
		})
	}
	if a.bodyErr != nil && k.limit > 0 {
		return answer{}, k.unread(ctx, a)
	}
	return a, nil
}

// fresher returns the token to repeat a request with, or that of its answer if it is not
// repeated.
func (c *Client) fresher(ctx context.Context, a answer) (Secret, error) {
	switch {
	case a.refusal == nil:
	case FaultOf(a.refusal) == FaultOfToken:
		c.cfg.Tokens.Expire(a.token)
		return c.cfg.Tokens.Token(ctx)
	case FaultOf(a.refusal) == FaultOfScope:
		// The token is valid, but a scope that was granted since takes effect with the next
		// one.
		if s, ok := c.cfg.Tokens.(interface {
			renewed(ctx context.Context, used Secret) Secret
		}); ok {
			return s.renewed(ctx, a.token), nil
		}
	}
	return a.token, nil
}

// mostResends bounds the repetitions of one request. A server that loses as many is in
// trouble, and the caller decides.
const mostResends = 3

// attempts calls attempt, and repeats it where net/http would have repeated k by itself, or
// a POST if the API has certainly not processed it: each time with a permit of its own, and
// on a new connection, since the API may have closed all idle ones. After a request that may
// have arrived, the error reports that.
func (c *Client) attempts(ctx context.Context, k request) (answer, error) {
	a, err := c.attempt(ctx, k)
	for range mostResends {
		lost, ok := errors.AsType[*TransportError](err)
		if !ok || !errors.Is(lost, errResend) {
			break
		}
		c.transport.CloseIdleConnections()
		a, err = c.attempt(ctx, k)
		if again, ok := errors.AsType[*TransportError](err); lost.Sent && err != nil && (!ok || !again.Sent) {
			return answer{}, lost // this one may have arrived
		}
	}
	return a, err
}

// attempt waits for a permit, gets the token, which may have been renewed meanwhile, has the
// intent stored, asks whether k is still wanted, and sends it once.
func (c *Client) attempt(ctx context.Context, k request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, k.transportError(false, ownReason(ctx, context.Cause(ctx)))
	}
	token, err := c.permitted(ctx, k)
	if err == nil {
		if err = c.ready(ctx, k, token); err != nil {
			c.unanswered(ctx, k)
		}
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s: %s %s: %w", k.operation, k.method, k.path, err)
	}
	return c.send(ctx, k, token)
}

// ready returns why k is not sent although it has its permit; nil: it is sent next.
func (c *Client) ready(ctx context.Context, k request, token Secret) error {
	if !usableToken(token) {
		return &TokenError{Err: errors.New("the token source gave a token that a header cannot carry")}
	}
	if k.intent != nil {
		if err := k.intent(ctx); err != nil {
			return err
		}
	}
	if c.binding.Before != nil {
		return c.binding.Before(ctx)
	}
	return nil
}

// freshPermit is how long after its permit a request may be sent. Otherwise requests that
// have permits and wait for one token would all be sent at the same moment.
const freshPermit = 100 * time.Millisecond

// permitted waits for a permit, then gets the token. If that took a fetch, it gives up the
// permit and waits for another with the token in hand: a source may be slow each time. The
// permit comes first because a blocked operation must not fetch tokens either.
func (c *Client) permitted(ctx context.Context, k request) (Secret, error) {
	if err := c.permit(ctx, k); err != nil {
		return Secret{}, err
	}
	began := time.Now()
	token, err := c.cfg.Tokens.Token(ctx)
	if err == nil && time.Since(began) < freshPermit {
		return token, nil
	}
	c.unanswered(ctx, k)
	if err == nil {
		k.again = true
		err = c.permit(ctx, k)
	}
	return token, err
}

func (c *Client) permit(ctx context.Context, k request) error {
	if err := c.cfg.Gate.Wait(ctx, Request{Operation: k.operation, Class: c.binding.Class, Again: k.again}); err != nil {
		return fmt.Errorf("no permit to send: %w", err)
	}
	return nil
}

// unanswered reports to the gate that the API has not answered for a permit.
func (c *Client) unanswered(ctx context.Context, k request) {
	c.cfg.Gate.Answered(context.WithoutCancel(ctx), k.operation, 0, nil, 0)
}

// send makes one exchange and reports it to the gate, the traces and the metrics.
func (c *Client) send(ctx context.Context, k request, token Secret) (a answer, err error) {
	ctx, traced := c.cfg.Trace(ctx, k.operation, k.method)
	defer func() { traced(a.status) }()
	started := time.Now()
	m := mask{token}
	if s, ok := c.cfg.Tokens.(interface{ lastSent() mask }); ok {
		m = append(m, s.lastSent()...)
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, timedOut(c.cfg.Timeout))
	defer cancel()

	var sent sending
	watched, end := sent.watch(limited)
	defer end()
	req, err := c.newRequest(watched, k, token)
	if err != nil {
		c.unanswered(ctx, k)
		return answer{}, k.transportError(false, m.err(err))
	}
	// The transport is used without an http.Client, which would follow redirects, store
	// cookies and put the whole URL into errors.
	resp, err := c.transport.RoundTrip(req) //nolint:bodyclose // readBody closes it
	if err != nil {
		c.cfg.Network.log(req, nil, err, started, m)
		c.unanswered(ctx, k)
		c.observed(ctx, k, 0, nil, started)
		mayHaveArrived, resent := sent.result()
		if certain := unprocessed.MatchString(err.Error()); certain || resent {
			return answer{}, k.transportError(!certain, errResend)
		}
		return answer{}, k.transportError(mayHaveArrived, ownReason(ctx, m.err(withoutQuote(err))))
	}
	a = answer{token: token, status: resp.StatusCode, header: resp.Header, mask: m,
		retryAfter: retryAfter(resp.StatusCode, resp.Header)}
	early := isPassing(a.status)
	if early {
		c.cfg.Gate.Answered(context.WithoutCancel(ctx), k.operation, a.status, a.header, a.retryAfter)
	}
	a.body, a.bodyErr = readBody(resp, k.limit)
	c.cfg.Network.log(req, resp, a.bodyErr, started, m)
	a.bodyErr = m.err(withoutQuote(a.bodyErr))
	c.observed(ctx, k, a.status, a.header, started)
	if a.isForeign() {
		c.unanswered(ctx, k)
		if a.bodyErr != nil {
			return a, k.unread(ctx, a)
		}
		return a, k.foreign(a)
	}
	if !isSuccess(a.status) {
		a.refusal = k.refused(a)
	}
	if !early {
		c.cfg.Gate.Answered(context.WithoutCancel(ctx), k.operation, a.meaning(), a.header, a.retryAfter)
	}
	return a, nil
}

func (c *Client) observed(ctx context.Context, k request, status int, header http.Header, started time.Time) {
	took := time.Since(started)
	c.cfg.Observe(k.operation, status, took)
	c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "api request",
		slog.String("operation", k.operation), slog.String("method", k.method), slog.String("path", k.path),
		slog.Int("status", status), slog.Duration("took", took),
		slog.String("request_id", untrusted.Plain(requestID(header), untrusted.MaxName)),
		slog.String("correlation_id", correlationID(ctx)))
}

func (c *Client) newRequest(ctx context.Context, k request, token Secret) (*http.Request, error) {
	address := c.cfg.BaseURL + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	var body io.Reader
	var mediaType string
	if k.body != nil {
		var encoded []byte
		var err error
		encoded, mediaType, err = c.cfg.Body.encode(k.body)
		if err != nil {
			return nil, fmt.Errorf("encoding the body: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, err
	}
	if k.method == http.MethodPost {
		// Without it net/http cannot send the body a second time.
		req.GetBody = nil
	}
	req.Header.Set("Accept", jsonType)
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	if id := correlationID(ctx); id != "" {
		req.Header.Set("X-Correlation-ID", id)
	}
	if body != nil {
		req.Header.Set("Content-Type", mediaType)
	}
	return req, nil
}

// call sends k and decodes the JSON of the 2xx, which must pass the check. If it cannot be
// decoded or fails the check, the error is an *AnswerError.
func call[T any](ctx context.Context, c *Client, k request, check func(T, answer) error) (v T, a answer, err error) {
	if a, err = c.do(ctx, k); err != nil {
		return v, a, err
	}
	switch err = json.Unmarshal(a.body, &v); {
	case len(bytes.TrimSpace(a.body)) == 0:
		err = errors.New("its body is empty, want JSON")
	case err != nil:
		err = fmt.Errorf("its body is not the expected JSON but %s: %w", a.describe(), err)
	default:
		err = check(v, a)
	}
	if err != nil {
		var none T
		return none, a, k.answerError(a, err)
	}
	return v, a, nil
}

func (k request) transportError(sent bool, err error) error {
	return &TransportError{Operation: k.operation, Method: k.method, Path: k.path, Sent: sent, Err: err}
}

func (k request) answerError(a answer, err error) error {
	return &AnswerError{
		Operation: k.operation, Method: k.method, Path: k.path,
		Status: a.status, RequestID: a.requestID(), Err: a.mask.err(err),
	}
}

// foreign returns the error of an answer that is not the API's.
func (k request) foreign(a answer) error {
	return &AnswerError{
		Operation: k.operation, Method: k.method, Path: k.path,
		Status: a.status, RequestID: a.requestID(), Foreign: true, Err: a.stranger(),
	}
}

// unread returns the error of an answer whose body is incomplete: a *TransportError after a
// timeout or the end of the caller's context, otherwise an *AnswerError.
func (k request) unread(ctx context.Context, a answer) error {
	if ctx.Err() != nil || isTimeout(a.bodyErr) {
		return k.transportError(true, ownReason(ctx, a.bodyErr))
	}
	return k.answerError(a, fmt.Errorf("reading its body: %w", a.bodyErr))
}

func (k request) refused(a answer) *Error {
	parsed := parseErrorBody(a.body, a.mask)
	switch {
	case parsed == (errorBody{}) && len(bytes.TrimSpace(a.body)) > 0:
		parsed.message = a.describe()
	case parsed.message == "":
		parsed.message = http.StatusText(a.status)
	}
	return &Error{
		Operation: k.operation, Method: k.method, Path: k.path,
		Status: a.status, Title: parsed.title, Message: parsed.message, Code: parsed.code, Page: a.isPage(),
		RequestID:  a.requestID(),
		RetryAfter: a.retryAfter,
	}
}
