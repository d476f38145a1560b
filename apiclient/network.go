package apiclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Network configures the connections to an API and its token endpoint. The zero value
// connects directly and trusts the system's certificate authorities.
type Network struct {
	Proxy   func(*url.URL) (*url.URL, error) // returns the proxy for a URL, or nil for none; may be nil
	RootCAs *x509.CertPool                   // nil: the system's; see ReadRootCAs

	// Exchanges logs a line for each exchange at debug level, without headers and bodies. It
	// may be nil.
	Exchanges *slog.Logger
}

// log logs an exchange: resp is nil if there was no answer, for the reason err. secrets are
// those of the request.
func (n Network) log(req *http.Request, resp *http.Response, err error, started time.Time, secrets mask) {
	if n.Exchanges == nil {
		return
	}
	shown := func(text string) string { return untrusted.Plain(secrets.text(text), untrusted.MaxMessage) }
	line := []any{"method", req.Method, "path", shown(req.URL.Path), "took", time.Since(started)}
	if resp != nil {
		line = append(line, "status", resp.StatusCode, "request_id", shown(requestID(resp.Header)))
	}
	if err != nil {
		line = append(line, "error", shown(withoutQuote(err).Error()))
	}
	n.Exchanges.DebugContext(req.Context(), "http exchange", line...)
}

// ReadRootCAs returns the system's certificate authorities and those of a PEM file.
func ReadRootCAs(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificate authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New(path + ": it has no certificate: want PEM, BEGIN CERTIFICATE")
	}
	return pool, nil
}

// parseEndpoint parses an address to which secrets are sent, so it must be encrypted or
// loopback. name begins its errors, which contain no credentials.
func parseEndpoint(name, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The text of err has the whole address in it.
		return nil, fmt.Errorf("%s: not a URL: want https://HOST/…", name)
	}
	host := u.Hostname()
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%s: must not contain a user or password", name)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s: want https://HOST/…, got the scheme %s", name, untrusted.Value(u.Scheme))
	case host == "" || u.Opaque != "":
		return nil, fmt.Errorf("%s: no host in it: want https://HOST/…", name)
	case u.Scheme == "http" && !untrusted.IsLoopback(host):
		return nil, fmt.Errorf("%s: http is for loopback addresses only, and %s is none: want https",
			name, untrusted.Value(host))
	case u.Port() != "" && !isPort(u.Port()):
		return nil, fmt.Errorf("%s: want a port of 1 to 65535, got %s", name, untrusted.Value(u.Port()))
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("%s: must not contain a query", name)
	case u.Fragment != "" || strings.Contains(address, "#"):
		return nil, fmt.Errorf("%s: must not contain a fragment", name)
	}
	return u, nil
}

func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
