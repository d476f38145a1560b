package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// dumpRead bounds what is kept of a body to be dumped, in bytes: a page
	// of a hundred domains has some 40 KiB. A longer one is only counted, since
	// half of it cannot be read, and so not be freed of secrets.
	dumpRead = 256 << 10

	// dumpShown bounds what is shown of it, in characters.
	dumpShown = 8 << 10

	// partShown is how much of a verification token is shown, in characters:
	// enough to tell two apart, too little to put into anybody's DNS.
	partShown = 4

	hiddenText = "[hidden]"
)

// dumpHeaders are the headers whose values are shown. Of all others only that
// they are there: whoever adds one to an API does not ask us whether it is a
// secret.
var dumpHeaders = map[string]bool{
	"Accept": true, "Allow": true, "Cache-Control": true, "Content-Length": true, "Content-Type": true, "Date": true,
	"Location": true, "Retry-After": true, "Server": true, "User-Agent": true, "Via": true, "Www-Authenticate": true,
	"X-Auth0-Requestid": true, "X-Correlation-Id": true, "X-Ratelimit-Limit": true, "X-Ratelimit-Remaining": true,
	"X-Ratelimit-Reset": true, "X-Request-Id": true,
}

// dumped has every exchange of base told to a logger.
func dumped(base http.RoundTripper, logger *slog.Logger) http.RoundTripper {
	if logger == nil {
		return base
	}
	return &dumpTransport{base: base, logger: logger}
}

type dumpTransport struct {
	base   http.RoundTripper
	logger *slog.Logger
}

func (t *dumpTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close() // it is in memory
		if err != nil {
			return nil, err
		}
		// The rest stays as it is: that of a POST cannot be had twice.
		req = req.WithContext(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	m := maskOf(req.Context())
	t.logger.LogAttrs(req.Context(), slog.LevelDebug, "http request",
		slog.String("method", req.Method), slog.String("url", m.shown(req.URL.String())),
		slog.String("header", m.header(req.Header)), slog.String("body", m.sent(req.Header, body)))
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		t.logger.LogAttrs(req.Context(), slog.LevelDebug, "http request got no answer",
			slog.String("method", req.Method), slog.String("url", m.shown(req.URL.String())), slog.String("error", m.shown(err.Error())))
		return nil, err
	}
	resp.Body = &dumpBody{ReadCloser: resp.Body, tell: func(body []byte, cut bool) {
		t.logger.LogAttrs(req.Context(), slog.LevelDebug, "http answer",
			slog.String("method", req.Method), slog.String("url", m.shown(req.URL.String())), slog.String("protocol", resp.Proto),
			slog.Int("status", resp.StatusCode), slog.String("header", m.header(resp.Header)), slog.String("body", m.body(resp.Header, body, cut)))
	}}
	return resp, nil
}

// dumpBody keeps what is read through it, and tells it when it is closed.
type dumpBody struct {
	io.ReadCloser

	kept bytes.Buffer
	cut  bool
	once sync.Once
	tell func(body []byte, cut bool)
}

func (b *dumpBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.kept.Len()+n > dumpRead {
		b.cut = true
	} else {
		b.kept.Write(p[:n])
	}
	return n, err
}

func (b *dumpBody) Close() error {
	b.once.Do(func() { b.tell(b.kept.Bytes(), b.cut) })
	return b.ReadCloser.Close()
}

// shown is a text as a log may have it.
func (m mask) shown(text string) string { return plain(m.text(text), dumpShown) }

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

// sent is what may be shown of a body that is ours: JSON or a form.
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

// body is what may be shown of one: JSON without its secrets; of anything else
// how much there is, for what is no form reads as one too.
func (m mask) body(h http.Header, body []byte, cut bool) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // empty: not said, and then not shown
	switch {
	case cut:
		return fmt.Sprintf("[more than %d bytes]", dumpRead)
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
	if v != nil && isSecret(name) { // all that is below it
		return hiddenText
	}
	if members, ok := v.(map[string]any); ok {
		for member, value := range members {
			members[member] = redactedTree(member, value)
		}
	}
	return v
}

// redacted is a member's value, by what its name says of it.
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

// isSecret says whether what a member of that name holds is not for a log: secrets,
// and what customers keep of their own.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	if name == "token_type" {
		return false
	}
	for _, word := range []string{"token", "secret", "assertion", "password", "authorization", "cookie", "credential", "key", "jwt", "signature", "metadata"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
