package apiclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
)

// Network configures the connections to an API and its token endpoint. The zero value
// connects directly and trusts the system's certificate authorities.
type Network struct {
	Proxy   func(*url.URL) (*url.URL, error) // returns the proxy for a URL, or nil for none; may be nil
	RootCAs *x509.CertPool                   // nil: the system's; see ReadRootCAs

	// Dump logs every exchange at debug level, headers and bodies without their secrets. It
	// may be nil.
	Dump *slog.Logger
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
