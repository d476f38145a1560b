package dnscheck_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// certifier is a certificate authority for tests.
type certifier struct {
	t     *testing.T
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func newCertifier(t *testing.T) certifier {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := certifier{t: t, key: key, roots: x509.NewCertPool()}
	a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, key)
	a.roots.AddCert(a.cert)
	return a
}

func (a certifier) sign(template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(1)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue returns a certificate for 127.0.0.1 and resolver.example, modified by change.
func (a certifier) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"resolver.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	return tls.Certificate{Certificate: [][]byte{a.sign(template, key).Raw}, PrivateKey: key}
}

// stream runs a server on loopback that handles each TCP connection.
func stream(t *testing.T, handle func(conn net.Conn)) dnscheck.Resolver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	connections := new(open)
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.add(conn)
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.close()
		running.Wait()
	})
	return dnscheck.Resolver{Addr: listener.Addr().(*net.TCPAddr).AddrPort(), Transport: "tcp"}
}

// posted is an HTTPS server that counts its connections.
type posted struct {
	*httptest.Server

	connections atomic.Int64
}

func postsTo(t *testing.T, cert tls.Certificate, http2 bool, handle http.HandlerFunc) (dnscheck.Resolver, *posted) {
	t.Helper()
	return postsOn(t, nil, cert, http2, handle)
}

// postsOn is postsTo with another listener than one on loopback.
func postsOn(t *testing.T, listener net.Listener, cert tls.Certificate, http2 bool,
	handle http.HandlerFunc) (dnscheck.Resolver, *posted) {
	t.Helper()
	p := &posted{Server: httptest.NewUnstartedServer(handle)}
	if listener != nil {
		_ = p.Listener.Close()
		p.Listener = listener
	}
	p.EnableHTTP2 = http2
	p.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // it logs each failed handshake
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.connections.Add(1)
		}
	}
	p.StartTLS()
	t.Cleanup(p.Close)
	addr := p.Listener.Addr().(*net.TCPAddr).AddrPort()
	return dnscheck.Resolver{Addr: addr, Transport: "https"}, p
}

func (z zone) post(w http.ResponseWriter, r *http.Request) {
	query, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/dns-message")
	_, _ = w.Write(z.packed(query))
}

// overHTTPS returns a resolver with a certificate of the authority that answers as the zone.
func (a certifier) overHTTPS(z zone) dnscheck.Resolver {
	a.t.Helper()
	r, _ := postsTo(a.t, a.issue(nil), true, z.post)
	return r
}

func (a certifier) checker(resolvers ...dnscheck.Resolver) *dnscheck.Checker {
	a.t.Helper()
	return build(a.t, dnscheck.Config{Resolvers: resolvers, Timeout: long, RootCAs: a.roots})
}

func TestResolverOverHTTPS(t *testing.T) {
	a := newCertifier(t)
	var queries counter
	z := zone(func(q *dns.Msg) *dns.Msg {
		queries.add(q)
		m := yes(q)
		m.AuthenticatedData = q.AuthenticatedData
		return m
	})
	resolver, server := postsTo(t, a.issue(nil), true, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Method != http.MethodPost || r.URL.Path != "/dns-query" || r.URL.RawQuery != "" ||
			r.Header.Get("Content-Type") != "application/dns-message" ||
			r.Header.Get("Accept") != "application/dns-message" || r.Header.Get("User-Agent") != "" || r.ContentLength%128 != 0 {
			t.Errorf("%s %s %s with %v and %d bytes", r.Proto, r.Method, r.URL, r.Header, r.ContentLength)
		}
		z.post(w, r)
	})
	const looks = 20
	for _, certified := range []string{"", "resolver.example"} {
		resolver.ServerName = certified
		c := a.checker(resolver)
		for range looks {
			v := look(t, c)
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
			if o := v.Observations[0]; o.Transport != "https" || !o.Authenticated {
				t.Errorf("answered over %s, authenticated %t; want https and AD", o.Transport, o.Authenticated)
			}
		}
	}
	if n := server.connections.Load(); n != 2 {
		t.Errorf("%d connections for %d looks, want one for each checker", n, looks)
	}
	for _, q := range queries.seen() {
		if q.Question[0].Name != host+"." || !q.RecursionDesired || !q.AuthenticatedData {
			t.Fatalf("query %v", q)
		}
	}
}

func TestAuthenticatedNeedsAllAnswers(t *testing.T) {
	for _, test := range []struct{ first, last bool }{{true, true}, {true, false}, {false, true}} {
		v := look(t, checker(t, both(t, func(q *dns.Msg) *dns.Msg {
			if asksFor(q, "target.example") {
				m := yes(q)
				m.AuthenticatedData = test.last
				return m
			}
			m := answer(q, cname(host, "target.example"))
			m.AuthenticatedData = test.first
			return m
		})))
		if got, wanted := v.Observations[0].Authenticated, test.first && test.last; got != wanted {
			t.Errorf("%+v: authenticated %t, want %t", test, got, wanted)
		}
	}
}

func TestCertificatesThatDoNotHold(t *testing.T) {
	a, other := newCertifier(t), newCertifier(t)
	tests := []struct {
		name, serverName, part string
		cert                   tls.Certificate
	}{
		{"signed by somebody else", "", "unknown authority", other.issue(nil)},
		{
			"for another address", "", "127.0.0.1",
			a.issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }),
		},
		{"for no address", "", "127.0.0.1", a.issue(func(c *x509.Certificate) { c.IPAddresses = nil })},
		{"for another name", "dns.example", "dns.example", a.issue(nil)},
		{"for the name in its subject only", "dns.example", "dns.example",
			a.issue(func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "dns.example" })},
		{"expired", "", "expired", a.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })},
		{"not valid yet", "", "expired or is not yet valid",
			a.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })},
		{"for signing code", "", "incompatible key usage",
			a.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} })},
		{"with names to be printed", "", `\x1b`, a.issue(func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames, c.Subject.CommonName = nil, []string{"a\x1b[31m"}, "x"
		})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resolver, _ := postsTo(t, test.cert, true, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
			resolver.ServerName = test.serverName
			v := look(t, build(t, dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}, Timeout: long, RootCAs: a.roots}))
			want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)
			text := v.Observations[0].Err
			if test.part == `\x1b` {
				if strings.ContainsRune(text, 0x1b) {
					t.Errorf("error %q", text)
				}
			} else if !strings.Contains(text, "certificate is not valid") || !strings.Contains(text, test.part) {
				t.Errorf("error %q, want one about the certificate and %q", text, test.part)
			}
		})
	}
	t.Run("by the system's roots", func(t *testing.T) {
		want(t, look(t, checker(t, a.overHTTPS(yes))), dnscheck.Unknown, dnscheck.ReasonUnreachable)
	})
	t.Run("no TLS at all", func(t *testing.T) {
		resolver := stream(t, func(conn net.Conn) { _, _ = conn.Write(frame([]byte("no TLS, whatever comes"))) })
		resolver.Transport = "https"
		want(t, look(t, a.checker(resolver)), dnscheck.Unknown, dnscheck.ReasonUnreachable)
	})
}

func TestConnectionsThatBreak(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	t.Run("at each connection", func(t *testing.T) {
		var connections atomic.Int64
		resolver := stream(t, func(conn net.Conn) {
			connections.Add(1)
			_, _ = conn.Read(make([]byte, 1))
		})
		resolver.Transport = "https"
		want(t, look(t, a.checker(resolver)), dnscheck.Unknown, dnscheck.ReasonUnreachable)
		if n := connections.Load(); n != 2 {
			t.Errorf("%d connections, want 2: the query is tried once more", n)
		}
	})
	t.Run("TCP, which has a connection for each query", func(t *testing.T) {
		resolver := stream(t, func(conn net.Conn) {
			if query, err := readFrame(conn); err == nil {
				yes.tcp(query, conn)
			}
		})
		c := checker(t, resolver)
		for range 3 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		}
	})
	t.Run("HTTP at the second request", func(t *testing.T) {
		var asked atomic.Int64
		resolver, server := postsTo(t, cert, false, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 2 {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = conn.Close()
				}
				return
			}
			yes.post(w, r)
		})
		c := a.checker(resolver)
		for range 3 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		}
		if n := server.connections.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	t.Run("HTTP/2 hung up while idle", func(t *testing.T) {
		resolver, server := postsTo(t, cert, true, yes.post)
		c := a.checker(resolver)
		for range 3 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			server.CloseClientConnections()
		}
	})
}

func TestResponsesThatAreNoAnswer(t *testing.T) {
	a := newCertifier(t)
	typed := func(kind string, body func(query []byte) []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			query, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			w.Header()["Content-Type"] = []string{kind}
			_, _ = w.Write(body(query))
		}
	}
	elsewhere, reached := postsTo(t, a.issue(nil), true, func(w http.ResponseWriter, r *http.Request) {
		t.Error("a redirect was followed")
		yes.post(w, r)
	})
	_ = elsewhere
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			query, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			w.Header().Set("Content-Type", "application/dns-message")
			w.Header().Set("Location", reached.URL+"/dns-query")
			w.WriteHeader(code)
			_, _ = w.Write(yes.packed(query))
		}
	}
	const message = "application/dns-message"
	cut := func(n int) func([]byte) []byte { return func(query []byte) []byte { return yes.packed(query)[:n] } }
	tests := []struct {
		name   string
		handle http.HandlerFunc
		state  dnscheck.State
		reason dnscheck.Reason
		part   string
	}{
		{"type with a parameter", typed("Application/DNS-Message; charset=x", yes.packed), dnscheck.Present,
			dnscheck.ReasonFound, ""},
		{"404", status(404), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 404"},
		{"429", status(429), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 429"},
		{"500", status(500), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 500"},
		{"204 without anything", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, dnscheck.Unknown,
			dnscheck.ReasonRefused, "HTTP 204"},
		{"203", status(203), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 203"},
		{"redirect 302", status(302), dnscheck.Unknown, dnscheck.ReasonRefused, "redirects are not followed"},
		{"redirect 307", status(307), dnscheck.Unknown, dnscheck.ReasonRefused, "redirects are not followed"},
		{"redirect 308", status(308), dnscheck.Unknown, dnscheck.ReasonRefused, "redirects are not followed"},
		{"HTML", typed("text/html", yes.packed), dnscheck.Unknown, dnscheck.ReasonMalformed, `type "text/html"`},
		{"JSON", typed("application/dns-json", yes.packed), dnscheck.Unknown, dnscheck.ReasonMalformed, "dns-json"},
		{"no type", typed("", yes.packed), dnscheck.Unknown, dnscheck.ReasonMalformed, `type ""`},
		{"empty body", typed(message, cut(0)), dnscheck.Unknown, dnscheck.ReasonMalformed, "0 bytes"},
		{"cut", typed(message, cut(40)), dnscheck.Unknown, dnscheck.ReasonMalformed, ""},
		{"body without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", message)
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, dnscheck.Unknown, dnscheck.ReasonMalformed, "more than the 65535 bytes"},
		{"another id", typed(message, func(query []byte) []byte {
			return append([]byte{1, 2}, yes.packed(query)[2:]...)
		}), dnscheck.Unknown, dnscheck.ReasonMalformed, "another id"},
		{"the query itself", typed(message, bytes.Clone), dnscheck.Unknown, dnscheck.ReasonMalformed, "a query"},
		{"truncated", typed(message, zone(func(q *dns.Msg) *dns.Msg {
			m := yes(q)
			m.Truncated = true
			return m
		}).packed), dnscheck.Unknown, dnscheck.ReasonMalformed, "truncated"},
		{"another question", typed(message, zone(func(q *dns.Msg) *dns.Msg {
			m := yes(q)
			m.Question[0].Name = "example.com."
			return m
		}).packed), dnscheck.Unknown, dnscheck.ReasonMalformed, "another question"},
		{"SERVFAIL", typed(message, servfail.packed), dnscheck.Unknown, dnscheck.ReasonServFail, ""},
		{"bogus", typed(message, bogus.packed), dnscheck.Unknown, dnscheck.ReasonDNSSEC, ""},
		{"NXDOMAIN", typed(message, noName.packed), dnscheck.Absent, dnscheck.ReasonNoName, ""},
	}
	for _, test := range tests {
		for _, http2 := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", test.name, http2), func(t *testing.T) {
				resolver, _ := postsTo(t, a.issue(nil), http2, test.handle)
				v := look(t, build(t, dnscheck.Config{Resolvers: []dnscheck.Resolver{resolver}, Timeout: long, RootCAs: a.roots}))
				want(t, v, test.state, test.reason)
				if text := v.Observations[0].Err; !strings.Contains(text, test.part) {
					t.Errorf("error %q, want one with %q", text, test.part)
				}
			})
		}
	}
}

// TestNoProxyIsUsed checks that proxy variables of the environment do not apply to HTTPS
// resolvers.
func TestNoProxyIsUsed(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the proxy was asked")
	}))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	a := newCertifier(t)
	resolver, _ := postsTo(t, a.issue(nil), true, func(w http.ResponseWriter, r *http.Request) {
		if name, _, err := net.SplitHostPort(r.Host); err != nil || name != "resolver.example" {
			t.Errorf("host %q", r.Host)
		}
		yes.post(w, r)
	})
	resolver.ServerName = "resolver.example" // the environment's proxy never applies to loopback addresses
	want(t, look(t, a.checker(resolver)), dnscheck.Present, dnscheck.ReasonFound)
}

func TestContextEndsOverOpenConnections(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	t.Run("in the middle of a handshake", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		resolver := stream(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			asked <- struct{}{}
			unanswered(conn)
		})
		resolver.Transport = "https"
		abandon(t, a.checker(resolver), asked)
	})
	t.Run("while HTTPS is waited for", func(t *testing.T) {
		asked, done := make(chan struct{}, 1), make(chan struct{})
		resolver, _ := postsTo(t, cert, true, func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
			close(done)
		})
		abandon(t, a.checker(resolver), asked)
		<-done // the server sees the cancellation
	})
	t.Run("in the middle of a body", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		resolver, _ := postsTo(t, cert, true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/dns-message")
			_, _ = w.Write([]byte{0})
			_ = http.NewResponseController(w).Flush()
			asked <- struct{}{}
			<-r.Context().Done()
		})
		abandon(t, a.checker(resolver), asked)
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts sockets in /proc")
	}
	a := newCertifier(t)
	cert := a.issue(nil)
	asked := make(chan struct{}, 1)
	hangs, _ := postsTo(t, cert, true, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	one, server := postsTo(t, cert, true, yes.post)
	two, second := postsTo(t, cert, false, yes.post)
	before := sockets(t)
	for range 10 {
		c, err := dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{one, two}, Quorum: 2,
			Timeout: long, RootCAs: a.roots})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Prove(t.Context(), host, token); err != nil || v.State != dnscheck.Present {
			t.Errorf("%+v, %v", v, err)
		}
		c.Close()
		c.Close() // a second Close is a no-op
		c, err = dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{hangs}, Timeout: long, RootCAs: a.roots})
		if err != nil {
			t.Fatal(err)
		}
		abandon(t, c, asked)
		c.Close()
	}
	for _, s := range []*posted{server, second} {
		s.CloseClientConnections()
	}
	// The server closes its connections with a delay; leaked connections stay open.
	after := sockets(t)
	for end := time.Now().Add(time.Minute); after > before && time.Now().Before(end); after = sockets(t) {
		runtime.Gosched()
	}
	if after > before {
		t.Errorf("%d sockets before, %d after", before, after)
	}
}

func TestResolverNamedTwiceByOtherMeans(t *testing.T) {
	at := func(port uint16, transport string) dnscheck.Resolver {
		return dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), Transport: transport}
	}
	_, err := dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{at(53, "udp"), at(443, "https")}})
	if err == nil || !strings.Contains(err.Error(), "resolver https://192.0.2.1:443/dns-query is named twice") {
		t.Errorf("error %v", err)
	}
}
