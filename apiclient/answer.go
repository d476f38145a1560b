package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Bounds of an answer's body, in bytes after decompression: a record has some hundreds, a
// page of a hundred templates with certificates half a million.
const (
	maxRecordBytes  = 1 << 20
	maxErrorBytes   = 1 << 20
	maxPageBytes    = 16 << 20
	maxIgnoredBytes = 64 << 10 // read only so that the connection can be used again
)

// maxServer bounds a header that names a server or its software in an error, in code points.
const maxServer = 40

// answer is an answer, as far as it was read.
type answer struct {
	token      Secret // of the request
	status     int
	header     http.Header
	retryAfter time.Duration // how long it asks to wait; 0: unknown
	body       []byte
	bodyErr    error  // why body is incomplete; nil: it is complete
	refusal    *Error // of a status other than 2xx
	mask       mask   // the secrets that errors must not repeat from it
}

func isSuccess(status int) bool { return status >= 200 && status <= 299 }

// isPassing reports whether the same request may succeed later, whatever sent the status.
func isPassing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

type errTooLong struct{ limit int64 }

func (e errTooLong) Error() string { return fmt.Sprintf("longer than %d bytes", e.limit) }

// readBody reads and closes the body, up to limit for a 2xx.
func readBody(resp *http.Response, limit int64) (body []byte, err error) {
	// The body was read; a failed close changes nothing.
	defer func() { _ = resp.Body.Close() }()
	switch {
	case !isSuccess(resp.StatusCode):
		limit = maxErrorBytes
	case limit == 0:
		limit = maxIgnoredBytes
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(body)) > limit {
		return body[:limit], errTooLong{limit}
	}
	return body, err
}

// isForeign reports whether something else than the API seems to have answered: a proxy,
// a firewall, a load balancer or a login portal. Its status says nothing of the request.
// The API sends no HTML, no redirects, and with each of its errors the JSON of
// specification 7; an empty 2xx is not foreign, whatever its type.
func (a answer) isForeign() bool {
	switch {
	case isSuccess(a.status):
		return a.isPage()
	case isPassing(a.status):
		return false // it is handled alike, from the API or not
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(a.body, &members) // nil: not an object
	// A gateway that changes the status leaves the statusCode as it was.
	return a.status < 400 || members["error"] == nil || members["message"] == nil ||
		memberText(members["statusCode"]) != strconv.Itoa(a.status)
}

func (a answer) stranger() error {
	text := "it is not the API's (check the base URL, and the proxy or firewall before the API) but " + a.describe()
	if a.header.Get("Location") != "" {
		text += ", a redirect"
	}
	return errors.New(text)
}

// isPage reports whether the body is HTML, which the API does not send.
func (a answer) isPage() bool {
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return len(bytes.TrimSpace(a.body)) > 0 && err == nil && (media == "text/html" || media == "application/xhtml+xml")
}

// meaning returns the status by which the gate and the token's health judge an answer of
// the API: 401 if it refuses the token, and 403 if the tenant may not have the operation, so that
// no such 404 proves that the operation works.
func (a answer) meaning() int {
	if a.refusal == nil {
		return a.status
	}
	switch FaultOf(a.refusal) {
	case FaultOfToken:
		return http.StatusUnauthorized
	case FaultOfScope, FaultOfOperation:
		return http.StatusForbidden
	default:
		return a.status
	}
}

// describe says what sort of body came instead of the API's, and names server and proxy. It
// quotes nothing of the body, in which anything may be.
func (a answer) describe() string {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")) // empty: invalid or missing
	text := "a body without a type"
	switch {
	case len(bytes.TrimSpace(a.body)) == 0:
		text = "an empty body"
	case media != "":
		text = "a body of type " + untrusted.Quote(a.mask.text(media), maxServer)
	}
	for _, name := range []string{"Server", "Via"} {
		if value := a.header.Get(name); value != "" {
			text += ", " + strings.ToLower(name) + " " + untrusted.Quote(a.mask.text(value), maxServer)
		}
	}
	return text
}

func (a answer) requestID() string {
	return untrusted.Plain(a.mask.text(requestID(a.header)), untrusted.MaxName)
}

// requestIDs are the headers in which services name a request. The Management API's documentation
// has none. Its answers have the third and the fourth: these are the ones that the recorder of the
// vendor's Go SDK took out of its recordings by name, before it took out all headers. The second is
// that of its login pages. The last may be no more than the id that the request carried.
var requestIDs = []string{
	"X-Request-Id", "X-Auth0-Requestid", "Ot-Baggage-Auth0-Request-Id", "Cf-Ray", "X-Correlation-Id",
}

// requestID returns the request's id for the service's support; "": the answer has none.
func requestID(header http.Header) string {
	for _, name := range requestIDs {
		if id := header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// errorBody is the content of an error's body (specification 7).
type errorBody struct {
	title, message, code string
}

// parseErrorBody reads the body of an answer that is not 2xx. The types of its members are
// not specified, so all are accepted; the texts are masked, cut and on one line. It is
// empty if the body is no JSON object or has none of the members.
func parseErrorBody(body []byte, m mask) errorBody {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members)
	text := func(name string, most int) string {
		return untrusted.Plain(strings.TrimSpace(m.text(memberText(members[name]))), most)
	}
	parsed := errorBody{
		title:   text("error", untrusted.MaxName),
		message: text("message", untrusted.MaxMessage),
		code:    text("errorCode", untrusted.MaxName),
	}
	if parsed.message == "" { // the shape of OAuth (RFC 6749 section 5.2), which gateways use too
		parsed.message = text("error_description", untrusted.MaxMessage)
	}
	return parsed
}

// memberText returns the content of a string, or any other JSON unchanged.
func memberText(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		return s // null too: ""
	}
	return string(raw)
}
