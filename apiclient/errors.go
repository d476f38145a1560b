package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Error is an error that the API answered, or a 408, 429 or 5xx from any sender. Its
// texts are cut, on one line and free of secrets.
type Error struct {
	Operation  string // one of the Op constants
	Method     string
	Path       string // below the base URL, without the query
	Status     int
	Title      string        // the body's "error", such as "Not Found"; may be empty
	Message    string        // the body's "message"; if it has none, what body came instead, or the status text
	Code       string        // the body's "errorCode", such as "insufficient_scope"; may be empty
	Page       bool          // the body is HTML, of something before the API
	RequestID  string        // from the answer's headers; may be empty
	RetryAfter time.Duration // from Retry-After, or on a 429 the bucket's reset by the server's own clock; 0: unknown
}

func (e *Error) Error() string {
	title := cmp.Or(e.Title, http.StatusText(e.Status))
	text := fmt.Sprintf("%s: %s %s: %d", e.Operation, e.Method, e.Path, e.Status)
	if title != "" {
		text += " " + title
	}
	if e.Message != "" && e.Message != title {
		text += ": " + e.Message
	}
	return text + notes(e.Code, e.RequestID)
}

// AnswerError is an answer that cannot be used: one that is not the API's but seems to be
// the page of a proxy, firewall or portal, or a 2xx whose body cannot be read, lacks
// required members (specification 2.1), or is of another record than the requested one.
// The API may have made the change.
type AnswerError struct {
	Operation string
	Method    string
	Path      string // below the base URL, without the query
	Status    int
	RequestID string // may be empty
	Foreign   bool   // it is a page of something before the API, and no answer of the API's
	Err       error  // the fault of the answer
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: %s %s: the answer %d cannot be used: %s%s", e.Operation, e.Method, e.Path, e.Status,
		untrusted.Plain(e.Err.Error(), untrusted.MaxMessage), notes("", e.RequestID))
}

func (e *AnswerError) Unwrap() error { return e.Err }

// TransportError says that there was no answer, or not all of it in time. errors.Is finds
// context.Canceled and context.DeadlineExceeded in it only if the caller's context has
// ended; after a timeout of the client only Timeout is true.
type TransportError struct {
	Operation string
	Method    string
	Path      string // below the base URL, without the query
	Sent      bool   // false only if certainly nothing of the request was sent
	Err       error
}

func (e *TransportError) Error() string {
	state := "nothing was sent"
	if e.Sent {
		state = "the request may have arrived"
	}
	return fmt.Sprintf("%s: %s %s: no answer (%s): %s", e.Operation, e.Method, e.Path, state,
		untrusted.Plain(e.Err.Error(), untrusted.MaxMessage))
}

func (e *TransportError) Unwrap() error { return e.Err }

// Timeout reports whether a timeout of the caller or of the client has passed.
func (e *TransportError) Timeout() bool { return isTimeout(e.Err) }

func notes(code, requestID string) string {
	if requestID != "" {
		requestID = "request id " + requestID
	}
	notes := strings.Trim(code+", "+requestID, ", ")
	if notes == "" {
		return ""
	}
	return " (" + notes + ")"
}

// flatError has the text of another error, without its chain.
type flatError struct {
	text    string
	timeout bool
}

func (e *flatError) Error() string { return e.text }

func (e *flatError) Timeout() bool { return e.timeout }

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// ownReason returns err so that errors.Is(err, context.…) is true only if the caller's
// context has ended: net and net/http use context.DeadlineExceeded for their own timeouts
// too, and a context may end with a cause that is neither.
func ownReason(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		if errors.Is(err, ended) {
			return err
		}
		return fmt.Errorf("%w: %w", ended, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &flatError{text: err.Error(), timeout: isTimeout(err) || errors.Is(err, context.DeadlineExceeded)}
	}
	return err
}

// withoutQuote removes the part of an answer that net/http quotes if it is not HTTP: it may
// be a middle part of a repeated secret, which a mask does not recognise.
func withoutQuote(err error) error {
	if err == nil {
		return nil
	}
	text, _, quotes := strings.Cut(err.Error(), `"`)
	if !quotes {
		return err
	}
	return &flatError{text: text + "(left out)", timeout: isTimeout(err)}
}

// timedOut is the cause of the client's own timeout, which differs from the end of the
// caller's context.
func timedOut(after time.Duration) error {
	return &flatError{text: fmt.Sprintf("timed out: no whole answer within %v", after), timeout: true}
}

// ProxyError is the refusal of a proxy to connect to a server. It is in the chain of a
// [TransportError] or a [TokenError].
type ProxyError struct {
	Host   string // of the proxy
	Status int
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s refused to connect: %d %s", e.Host, e.Status, http.StatusText(e.Status))
}

// ProxyConnected is the OnProxyConnectResponse of a transport whose errors name the proxy that
// refused to connect: those of net/http have its status alone, and read as the server's.
func ProxyConnected(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return &ProxyError{Host: proxy.Host, Status: resp.StatusCode}
	}
	return nil
}

// TokenError says why there is no token. It contains no secret. errors.Is finds
// context.Canceled and context.DeadlineExceeded in it only if the caller's context has ended.
type TokenError struct {
	Status      int           // of the token endpoint's answer; 0: there was none, or no request
	Code        string        // OAuth's "error", such as "access_denied"; may be empty
	Description string        // OAuth's "error_description", or what body came instead
	RetryAfter  time.Duration // that the endpoint requests; 0: unknown
	Asked       bool          // the endpoint was called, or tried; false: there was nothing to call it with
	Err         error         // the source, and the reason; may be nil
}

func (e *TokenError) Error() string {
	parts := []string{"no token"}
	if e.Err != nil {
		parts = append(parts, untrusted.Plain(e.Err.Error(), untrusted.MaxMessage))
	}
	if e.Status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("the token endpoint answered %d %s", e.Status,
			http.StatusText(e.Status))))
	}
	for _, s := range []string{e.Code, e.Description} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func (e *TokenError) Unwrap() error { return e.Err }

// err returns e if its text contains no secret, otherwise an error of the masked text.
func (m mask) err(e error) error {
	if e == nil {
		return nil
	}
	text := e.Error()
	masked := m.text(text)
	if masked == text {
		return e
	}
	return &flatError{text: masked, timeout: isTimeout(e)}
}
