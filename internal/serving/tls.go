package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

// TLS is a server's configuration with the certificate of two PEM files, which
// are read again when they change, by the clock now.
func TLS(certFile, keyFile string, log *slog.Logger, now func() time.Time) (*tls.Config, error) {
	load := func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
		}
		return &c, nil
	}
	certificate, err := Read(load, log, now, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.Get(), nil },
	}, nil
}
