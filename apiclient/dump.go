package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// dumpRead bounds a body that is logged, in bytes: a page of a hundred domains has some
	// 40 KiB.
	dumpRead = 256 << 10

	// dumpShown bounds a logged text, in characters.
	dumpShown = 8 << 10

	// partShown is how many characters of a verification token are logged: enough to
	// distinguish two, too few to publish.
	partShown = 4

	hiddenText = "[hidden]"
)

// dumpHeaders are the headers whose values are logged. Of others only the name is: a header
// that a gateway adds may be a secret.
var dumpHeaders = map[string]bool{
	"Accept": true, "Allow": true, "Cache-Control": true, "Content-Length": true, "Content-Type": true, "Date": true,
	"Location": true, "Retry-After": true, "Server": true, "User-Agent": true, "Via": true, "Www-Authenticate": true,
	"X-Auth0-Requestid": true, "X-Correlation-Id": true, "X-Ratelimit-Limit": true, "X-Ratelimit-Remaining": true,
	"X-Ratelimit-Reset": true, "X-Request-Id": true,
}

// dump logs one exchange at debug level, without its secrets. A nil dump logs nothing.
type dump struct {
	logger  *slog.Logger // with method and URL of the request
	secrets mask         // of the request, which the answer may repeat
}

// begin logs a request before it is sent. Its body is in memory.
func (n Network) begin(req *http.Request, secrets mask) *dump {
	if n.Dump == nil {
		return nil
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	logger := n.Dump.With("method", req.Method, "url", secrets.shown(req.URL.String()))
	logger.DebugContext(req.Context(), "http request", "header", secrets.header(req.Header), "body", secrets.sent(req.Header, body))
	return &dump{logger: logger, secrets: secrets}
}

// end logs the answer, or why there is none. Of a body that was cut it logs the length.
func (d *dump) end(ctx context.Context, resp *http.Response, body []byte, err error) {
	switch {
	case d == nil:
	case resp == nil:
		d.logger.DebugContext(ctx, "http request got no answer", "error", d.secrets.shown(err.Error()))
	default:
		_, cut := errors.AsType[errTooLong](err)
		d.logger.DebugContext(ctx, "http answer", "protocol", resp.Proto, "status", resp.StatusCode,
			"header", d.secrets.header(resp.Header), "body", d.secrets.body(resp.Header, body, cut))
	}
}

// shown returns a text that may be logged.
func (m mask) shown(text string) string { return Plain(m.text(text), dumpShown) }

func (m mask) header(h http.Header) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := hiddenText
		if dumpHeaders[http.CanonicalHeaderKey(name)] {
			value = strings.Join(h[name], ", ")
		}
		lines = append(lines, name+": "+value)
	}
	return m.shown(strings.Join(lines, "; "))
}

// sent returns the text of a request's body, JSON or a form, without its secrets.
func (m mask) sent(h http.Header, body []byte) string {
	form, err := url.ParseQuery(string(body))
	if err != nil || h.Get("Content-Type") != formType {
		return m.body(h, body, false)
	}
	for name, values := range form {
		for i := range values {
			values[i] = redacted(name, values[i])
		}
	}
	return m.shown(form.Encode())
}

// body returns the text of a JSON body without its secrets, and the length and type of any
// other body.
func (m mask) body(h http.Header, body []byte, cut bool) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // empty: unknown, and not logged
	switch {
	case len(body) > dumpRead || cut:
		return fmt.Sprintf("[more than %d bytes]", min(len(body), dumpRead))
	case len(body) == 0:
		return ""
	case strings.HasSuffix(media, "json"):
		if text, ok := redactedJSON(body); ok {
			return m.shown(text)
		}
	}
	return m.shown(fmt.Sprintf("[%d bytes of %q]", len(body), media))
}

func redactedJSON(body []byte) (text string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return "", false
	}
	redacted, err := json.Marshal(redactedTree("", v))
	return string(redacted), err == nil
}

func redactedTree(name string, v any) any {
	switch v := v.(type) {
	case string:
		return redacted(name, v)
	case []any:
		for i := range v {
			v[i] = redactedTree(name, v[i])
		}
		return v
	}
	if v != nil && isSecret(name) { // with everything below it
		return hiddenText
	}
	if members, ok := v.(map[string]any); ok {
		for member, value := range members {
			members[member] = redactedTree(member, value)
		}
	}
	return v
}

// redacted returns a member's value as far as its name permits to log it.
func redacted(name, value string) string {
	if strings.Contains(strings.ToLower(name), "verification_txt") {
		if utf8.RuneCountInString(value) <= 2*partShown {
			return hiddenText
		}
		return string([]rune(value)[:partShown]) + "…"
	}
	if isSecret(name) {
		return hiddenText
	}
	return value
}

// isSecret reports whether a member of that name must not be logged: secrets, and
// metadata, which customers fill.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	if name == "token_type" {
		return false
	}
	for _, part := range []string{"token", "secret", "assertion", "password", "authorization", "cookie", "credential", "key", "jwt", "signature", "metadata"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
