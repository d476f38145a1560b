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

// secureServers maps the name of a resolver to its program. Each serves the token itself, over
// HTTPS.
var secureServers = map[string]struct {
	program string
	args    []string
	conf    func(dir string, plain, overHTTPS netip.AddrPort) string
}{
	"Unbound": {"unbound", []string{"-d", "-p", "-c"}, func(dir string, plain, overHTTPS netip.AddrPort) string {
		return fmt.Sprintf(`server:
  interface: %s@%d
  interface: %s@%d
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
`, plain.Addr(), plain.Port(), overHTTPS.Addr(), overHTTPS.Port(), overHTTPS.Port(), dir, host, token)
	}},
	"BIND": {"named", []string{"-g", "-n", "1", "-c"}, func(dir string, plain, overHTTPS netip.AddrPort) string {
		return fmt.Sprintf(`tls own { cert-file "cert"; key-file "key"; };
options {
	directory %q;
	listen-on port %d { %s; };
	listen-on port %d tls own http default { %s; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	lock-file none;
	dnssec-validation no;
	recursion yes;
	notify no;
};
controls { };
zone "example.com" { type primary; file "zone"; };
`, dir, plain.Port(), plain.Addr(), overHTTPS.Port(), overHTTPS.Addr())
	}},
}

// secured runs one of the secureServers with the certificate.
func secured(t *testing.T, by string, cert tls.Certificate) dnscheck.Resolver {
	t.Helper()
	s := secureServers[by]
	daemon(t, s.program)
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"zone": []byte(zoneFile{
			zone: "example.com", records: "@ NS a.nic\na.nic A 127.0.0.1\n" + host + ". TXT " + token + "\n",
		}.text(1)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func() netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), freePort(t)) }
	plain, overHTTPS := at(), at()
	start53(t, s.program, dir, s.conf(dir, plain, overHTTPS), s.args...)
	await(t, plain.String(), host, dns.TypeTXT, 1, func(m *dns.Msg) bool { return len(m.Answer) > 0 })
	return dnscheck.Resolver{Addr: overHTTPS, Transport: "https"}
}

// TestRealResolversOverHTTPS checks that consecutive checks share one connection.
func TestRealResolversOverHTTPS(t *testing.T) {
	t.Parallel()
	for by := range secureServers {
		t.Run(by, func(t *testing.T) {
			a := newCertifier(t)
			resolver := secured(t, by, a.issue(nil))
			for name, called := range map[string]string{"by its address": "", "by its name": "resolver.example"} {
				t.Run(name, func(t *testing.T) {
					resolver.ServerName = called
					a.asksOften(t, resolver)
				})
			}
		})
	}
}

func (a certifier) asksOften(t *testing.T, resolver dnscheck.Resolver) {
	t.Helper()
	var dials atomic.Int64
	c := a.over(t, resolver, &dials)
	for range 5 {
		v := look(t, c)
		want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		if o := v.Observations[0]; o.Transport != resolver.Transport {
			t.Errorf("transport %s", o.Transport)
		}
		v, err := c.Check(t.Context(), "_gone.example.com", token)
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
}

// TestRealResolversProveTogether makes a proof with all of the resolvers.
func TestRealResolversProveTogether(t *testing.T) {
	t.Parallel()
	a := newCertifier(t)
	config := dnscheck.Config{RootCAs: a.roots}
	for by := range secureServers {
		config.Resolvers = append(config.Resolvers, secured(t, by, a.issue(nil)))
	}
	config.Quorum = len(config.Resolvers)
	c := build(t, config)
	want(t, prove(t, c), dnscheck.Present, dnscheck.ReasonFound)
	v, err := c.Prove(t.Context(), host, other)
	wantReal(t, "another value", v, err, dnscheck.Absent, dnscheck.ReasonOtherValue)
}

// TestRealResolversUnderAnotherName checks that a resolver with another certificate is
// unreachable, and not queried in the clear.
func TestRealResolversUnderAnotherName(t *testing.T) {
	t.Parallel()
	for by := range secureServers {
		t.Run(by, func(t *testing.T) {
			a, stranger := newCertifier(t), newCertifier(t)
			resolver := secured(t, by, a.issue(nil))
			for name, test := range map[string]struct {
				by     certifier
				called string
				says   string
			}{
				"another name":      {a, "other.example", "not other.example"},
				"another authority": {stranger, "", "unknown authority"},
			} {
				t.Run(name, func(t *testing.T) {
					resolver.ServerName = test.called
					v := look(t, test.by.over(t, resolver, new(atomic.Int64)))
					want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
					if o := v.Observations[0]; !strings.Contains(o.Err, test.says) || o.Transport != "https" {
						t.Errorf("error %q over %s, want %q in it", o.Err, o.Transport, test.says)
					}
				})
			}
		})
	}
}

// over returns a Checker of the resolver that counts its connections.
func (a certifier) over(t *testing.T, resolver dnscheck.Resolver, dials *atomic.Int64) *dnscheck.Checker {
	t.Helper()
	c, err := dnscheck.NewOver(dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}, RootCAs: a.roots},
		func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
