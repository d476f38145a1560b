package apiclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
)

// Network is how an API and its token endpoint are reached. The zero value goes
// there directly and trusts the system's certificate authorities.
type Network struct {
	Proxy   func(*url.URL) (*url.URL, error) // which proxy a URL is reached by; it may answer nil: none. nil: never one
	RootCAs *x509.CertPool                   // nil: the system's; see ReadRootCAs

	// Dump is told of every exchange at debug level, header and bodies, as far
	// as they have no secrets in them. nil: nobody is.
	Dump *slog.Logger
}

// ReadRootCAs are the system's certificate authorities and those of a PEM file.
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
