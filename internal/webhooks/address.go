package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// connectTimeout is how long connecting may take, of an attempt's whole time.
const connectTimeout = 10 * time.Second

// errRefused refuses one address, and errAddress a host all of whose addresses are refused.
var errRefused = errors.New("it is loopback, link-local, private or reserved")
var errAddress = errors.New(
	"all addresses of the host are loopback, link-local, private or reserved: set allow_private to permit them (for http: only loopback)")

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// newDial returns one, and resolver resolves its names; nil: the system's. Tests replace them.
var (
	newDial  = dial
	resolver *net.Resolver
)

// dial returns a dialer to allowed addresses. Each is checked when its socket is about to be
// connected, so a later answer of DNS cannot replace it. The error is errAddress if every
// address was refused.
func dial(allowed func(netip.Addr) bool) dialer {
	names := resolver
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var refused, taken atomic.Int64
		d := net.Dialer{
			Timeout: connectTimeout, KeepAlive: 15 * time.Second, Resolver: names,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				at, err := netip.ParseAddrPort(address)
				if err != nil || !allowed(at.Addr()) {
					refused.Add(1)
					return errRefused
				}
				taken.Add(1)
				return nil
			},
		}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil && refused.Load() > 0 && taken.Load() == 0 {
			return nil, errAddress
		}
		return conn, err
	}
}

// Reach connects to the endpoint as a delivery without a proxy does, by TLS if it has an https URL,
// and sends nothing. The receiver's certificate must be of one of the authorities; nil: the
// system's. The error has no part of the URL but the host.
func (e Endpoint) Reach(ctx context.Context, roots *x509.CertPool) error {
	port := map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	conn, err := newDial(e.allowed)(ctx, "tcp", net.JoinHostPort(e.url.Hostname(), cmp.Or(e.url.Port(), port)))
	if err != nil {
		return err
	}
	if e.url.Scheme == "https" {
		settings := trustOf(roots)
		settings.ServerName = e.url.Hostname()
		conn = tls.Client(conn, settings)
		err = conn.(*tls.Conn).HandshakeContext(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, trusted(err))
	}
	return errors.Join(err, conn.Close())
}

// trusted returns which authorities count, to be added to an error that refuses a receiver's
// certificate; "" for another error.
func trusted(err error) string {
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
		return ""
	}
	return "; the authorities that count are the system's (SSL_CERT_FILE, SSL_CERT_DIR) and those of --ca-file"
}

// trustOf returns the settings of TLS to receivers whose certificate is of one of the authorities.
func trustOf(roots *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
}
