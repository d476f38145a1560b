package dnscheck_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// secureUnbound runs an Unbound with a record of its own, that answers over TLS and HTTPS with that certificate.
func secureUnbound(t *testing.T, cert tls.Certificate) map[string]dnscheck.Resolver {
	t.Helper()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(unboundAddr), port) }
	plain, overTLS, overHTTPS := freePort(t), freePort(t), freePort(t)
	start53(t, "unbound", dir, fmt.Sprintf(`server:
  interface: %s@%d
  interface: %s@%d
  interface: %s@%d
  tls-port: %d
  https-port: %d
  tls-service-pem: "cert"
  tls-service-key: "key"
  username: ""
  chroot: ""
  directory: %q
  pidfile: ""
  use-syslog: no
  num-threads: 1
  module-config: "iterator"
  local-zone: "example.com." static
  local-data: "%s. 60 TXT %s"
remote-control:
  control-enable: no
`, unboundAddr, plain, unboundAddr, overTLS, unboundAddr, overHTTPS, overTLS, overHTTPS, dir, host, token), "-d", "-p", "-c")
	await(t, at(plain).String(), host, dns.TypeTXT, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	return map[string]dnscheck.Resolver{
		"tls":   {Addr: at(overTLS), Transport: "tls"},
		"https": {Addr: at(overHTTPS), Transport: "https"},
	}
}

// isUnbound gives the certificate the address that Unbound is at here.
func isUnbound(cert *x509.Certificate) { cert.IPAddresses = []net.IP{net.ParseIP(unboundAddr)} }

// TestUnboundOverTLSAndHTTPS asks over both, and counts the connections: one does for a look after the other.
func TestUnboundOverTLSAndHTTPS(t *testing.T) {
	a := newCertifier(t)
	for transport, resolver := range secureUnbound(t, a.issue(isUnbound)) {
		for name, called := range map[string]string{"by its address": "", "by its name": "resolver.example"} {
			t.Run(transport+" "+name, func(t *testing.T) {
				resolver.ServerName = called
				var dials atomic.Int64
				c := a.over(t, resolver, &dials)
				for range 5 {
					v := look(t, c)
					want(t, v, dnscheck.Present, dnscheck.ReasonFound)
					if o := v.Observations[0]; o.Transport != transport {
						t.Errorf("transport %s", o.Transport)
					}
					v, err := c.Look(t.Context(), "_gone.example.com", token)
					wantReal(t, "a name that is not there", v, err, dnscheck.Absent, dnscheck.ReasonNoName)
				}
				if got := dials.Load(); got != 1 {
					t.Errorf("%d connections for 10 looks one after the other, want 1", got)
				}
				var looking sync.WaitGroup
				for range 100 {
					looking.Go(func() { want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound) })
				}
				looking.Wait()
				if got := dials.Load(); got > 20 {
					t.Errorf("%d connections for 100 looks at once", got)
				}
			})
		}
	}
}

// TestUnboundUnderAnotherName is one whose certificate is not for who was meant: nothing is heard, and nothing asked in the clear.
func TestUnboundUnderAnotherName(t *testing.T) {
	a, stranger := newCertifier(t), newCertifier(t)
	for transport, resolver := range secureUnbound(t, a.issue(isUnbound)) {
		for name, test := range map[string]struct {
			by     certifier
			called string
			says   string
		}{
			"another name":      {a, "other.example", "not other.example"},
			"another authority": {stranger, "", "unknown authority"},
		} {
			t.Run(transport+" "+name, func(t *testing.T) {
				resolver.ServerName = test.called
				v := look(t, test.by.over(t, resolver, new(atomic.Int64)))
				want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
				if o := v.Observations[0]; !strings.Contains(o.Err, test.says) || o.Transport != transport {
					t.Errorf("error %q over %s, want %q in it", o.Err, o.Transport, test.says)
				}
			})
		}
	}
}

// over asks the resolver, and counts the connections.
func (a certifier) over(t *testing.T, resolver dnscheck.Resolver, dials *atomic.Int64) *dnscheck.Checker {
	t.Helper()
	c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}, RootCAs: a.roots}, func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
