package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is an answer whose status is not 2xx, a redirect included: none is
// followed. What the API wrote in it is cut, on one line and free of secrets.
type Error struct {
	Operation  string // one of the Op constants
	Method     string
	Path       string // below the base URL, without the query
	Status     int
	Title      string        // the body's "error", such as "Not Found"; may be empty
	Message    string        // the body's "message"; where it is not the JSON of the specification, its quoted beginning or the status text
	Code       string        // the body's "errorCode", such as "insufficient_scope"; may be empty
	RequestID  string        // as the answer's headers name it; may be empty
	RetryAfter time.Duration // from Retry-After, or on a 429 the bucket's reset by the server's own clock; 0: unknown
}

// Error names the operation, the request, the status and what the API said.
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

// LacksScope reports whether the API refused the request because the token does not have
// the scope for it.
func (e *Error) LacksScope() bool {
	return e.Status == http.StatusForbidden && (e.Code == "insufficient_scope" || strings.HasPrefix(e.Message, "Insufficient scope"))
}

// AnswerError is a 2xx that does not answer the question: it cannot be read,
// lacks required members (specification 2.1), or is of another record than the
// one asked for. A change that was asked for may well have been made.
type AnswerError struct {
	Operation string
	Method    string
	Path      string // below the base URL, without the query
	Status    int
	RequestID string // may be empty
	Err       error  // what is wrong with it
}

// Error names the operation, the request, and what is wrong with the answer.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: %s %s: the answer %d cannot be used: %s%s", e.Operation, e.Method, e.Path, e.Status,
		plain(e.Err.Error(), maxMessage), notes("", e.RequestID))
}

// Unwrap gives what is wrong with the answer.
func (e *AnswerError) Unwrap() error { return e.Err }

// TransportError says that there was no answer, or not the whole of it in time.
// errors.Is finds context.Canceled and context.DeadlineExceeded in it only when
// the caller's own context has ended; a limit of the client's own is Timeout.
type TransportError struct {
	Operation string
	Method    string
	Path      string // below the base URL, without the query
	Sent      bool   // false only if surely nothing of the request was sent
	Err       error
}

// Error names the operation, the request, and why there is no answer.
func (e *TransportError) Error() string {
	state := "nothing was sent"
	if e.Sent {
		state = "the request may have arrived"
	}
	return fmt.Sprintf("%s: %s %s: no answer (%s): %s", e.Operation, e.Method, e.Path, state, plain(e.Err.Error(), maxMessage))
}

// Unwrap gives the reason.
func (e *TransportError) Unwrap() error { return e.Err }

// Timeout reports whether time ran out: the caller's or the client's own.
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

// flatError is the text of another error whose chain is not to be reached.
type flatError struct {
	text    string
	timeout bool
}

func (e *flatError) Error() string { return e.text }

// Timeout reports whether the original was a timeout.
func (e *flatError) Timeout() bool { return e.timeout }

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// ownReason makes errors.Is(err, context.…) say what it seems to say: net and
// net/http call their own time limits context.DeadlineExceeded as well, and a
// caller's context may end with a cause that names neither.
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

// withoutQuote cuts what net/http quotes of an answer that is not HTTP: a piece
// from the middle of a repeated request may be a piece of a secret, and no mask
// would know it.
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

// errorBody is what an error's body says (specification 7).
type errorBody struct {
	title, message, code string
}

// parseErrorBody reads the body of an answer that is not 2xx. The types of its
// members are not specified, so whatever is there is taken; the texts come back
// masked, cut and on one line. What is no JSON object becomes a message.
func parseErrorBody(body []byte, m mask) errorBody {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return errorBody{message: quotedBeginning(body, m)}
	}
	text := func(name string, most int) string {
		return plain(strings.TrimSpace(m.text(memberText(members[name]))), most)
	}
	parsed := errorBody{
		title:   text("error", maxName),
		message: text("message", maxMessage),
		code:    text("errorCode", maxName),
	}
	if parsed.message == "" { // the shape of OAuth (RFC 6749 section 5.2), which gateways use too
		parsed.message = text("error_description", maxMessage)
	}
	if parsed == (errorBody{}) {
		parsed.message = quotedBeginning(body, m)
	}
	return parsed
}

// memberText is a string's content, or any other JSON as it stands.
func memberText(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		return s // null too: ""
	}
	return string(raw)
}

func quotedBeginning(body []byte, m mask) string {
	text := m.text(string(bytes.TrimSpace(body)))
	if text == "" {
		return ""
	}
	return quoted(text, maxMessage)
}
