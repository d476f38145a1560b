package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Bounds of an answer's body, in bytes after decompression: a record has some hundreds, a
// page of a hundred templates with certificates half a million.
const (
	maxRecordBytes  = 1 << 20
	maxErrorBytes   = 1 << 20
	maxPageBytes    = 16 << 20
	maxIgnoredBytes = 64 << 10 // read only so that the connection can be used again
)

// answer is an answer, as far as it was read.
type answer struct {
	token   Secret // of the request
	status  int
	header  http.Header
	body    []byte
	bodyErr error // why body is incomplete; nil: it is complete
	mask    mask  // the secrets that errors must not repeat from it
}

func isSuccess(status int) bool { return status >= 200 && status <= 299 }

// errTooLong is the error of a body that exceeds its bound.
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

// isPage reports whether the answer is HTML, which the API never sends. An empty body is
// no page, whatever its type.
func (a answer) isPage() bool {
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return len(bytes.TrimSpace(a.body)) > 0 && err == nil && (media == "text/html" || media == "application/xhtml+xml")
}

// describe returns type and beginning of an unexpected body.
func (a answer) describe() string {
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		media = "something without a type"
	}
	return fmt.Sprintf("%s beginning %s", Plain(a.mask.text(media), maxName), quoted(a.mask.text(string(a.body)), maxValue))
}

func (a answer) requestID() string {
	return Plain(a.mask.text(requestID(a.header)), maxName)
}

// requestID returns the request's id for the service's support: the first of the headers
// that services use.
func requestID(header http.Header) string {
	for _, name := range []string{"X-Request-Id", "X-Auth0-Requestid", "X-Correlation-Id"} {
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
// not specified, so all are accepted; the texts are masked, cut and on one line. A body
// that is no JSON object becomes the message.
func parseErrorBody(body []byte, m mask) errorBody {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return errorBody{message: quotedBeginning(body, m)}
	}
	text := func(name string, most int) string {
		return Plain(strings.TrimSpace(m.text(memberText(members[name]))), most)
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

// memberText returns the content of a string, or any other JSON unchanged.
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
