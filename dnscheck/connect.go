package dnscheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// connector opens connections to one address. The end of life closes them and cancels
// dials. The end of the check that caused a dial does not: the next check uses the
// connection.
type connector struct {
	dialer
	life    context.Context
	timeout time.Duration
	addr    string
	config  *tls.Config // nil: TCP without TLS
}

func (c connector) open() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.life, c.timeout)
	defer cancel()
	raw, err := c.DialContext(ctx, transportTCP, c.addr)
	if err != nil {
		return nil, err
	}
	conn := boundConn{raw, context.AfterFunc(c.life, func() { _ = raw.Close() })}
	if c.config == nil {
		return conn, nil
	}
	secure := tls.Client(conn, c.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, handshakeError(err)
	}
	return secure, nil
}

// boundConn is a connection that the end of the connector's life closes.
type boundConn struct {
	net.Conn

	unbind func() bool
}

// Close closes the connection.
func (c boundConn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// tlsConfig requires a certificate for the resolver's name or address (RFC 8310, strict
// profile); nothing falls back to cleartext. roots: nil means the system's.
func tlsConfig(r Resolver, roots *x509.CertPool, protocols ...string) *tls.Config {
	return &tls.Config{ServerName: r.certified(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: protocols}
}

// ErrCertificate is in the error of a resolver whose certificate is not valid for its name.
var ErrCertificate = errors.New("the resolver's certificate is not valid")

// handshakeError quotes the error of a certificate, whose names are foreign text.
func handshakeError(err error) error {
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &exchangeError{ReasonUnreachable, fmt.Errorf("%w: %s", ErrCertificate, shown(invalid.Err.Error(), 200))}
	}
	return err
}
