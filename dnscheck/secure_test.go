package dnscheck_test

import (
	"bytes"
	"context"
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
		Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
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

// onStream handles the n-th connection, counted from 1.
type onStream func(conn net.Conn, n int)

// streams runs a server on loopback, over TLS if cert is not nil, and counts its connections.
func streams(t *testing.T, cert *tls.Certificate, handle onStream) (dnscheck.Resolver, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	resolver := dnscheck.Resolver{Addr: listener.Addr().(*net.TCPAddr).AddrPort(), Transport: "tcp"}
	if cert != nil {
		listener, resolver.Transport = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*cert}}), "tls"
	}
	return resolver, streamsOn(t, listener, handle)
}

func streamsOn(t *testing.T, listener net.Listener, handle onStream) *atomic.Int64 {
	t.Helper()
	var running sync.WaitGroup
	count, connections := new(atomic.Int64), new(open)
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.add(conn)
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn, int(count.Add(1)))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.close()
		running.Wait()
	})
	return count
}

// answering answers every query on a connection.
func answering(z zone) onStream {
	return func(conn net.Conn, _ int) {
		for {
			query, err := readFrame(conn)
			if err != nil {
				return
			}
			z.tcp(query, conn)
		}
	}
}

// posted is an HTTPS server that counts its connections.
type posted struct {
	*httptest.Server

	connections atomic.Int64
}

func postsTo(t *testing.T, cert tls.Certificate, http2 bool, handle http.HandlerFunc) (dnscheck.Resolver, *posted) {
	t.Helper()
	p := &posted{Server: httptest.NewUnstartedServer(handle)}
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

func (a certifier) checker(resolvers ...dnscheck.Resolver) *dnscheck.Checker {
	a.t.Helper()
	return build(a.t, dnscheck.Config{Resolvers: resolvers, Timeout: long, RootCAs: a.roots})
}

func TestSecureTransports(t *testing.T) {
	a := newCertifier(t)
	var queries counter
	lengths := map[int]bool{}
	z := zone(func(q *dns.Msg) *dns.Msg {
		queries.add(q)
		m := yes(q)
		m.AuthenticatedData = q.AuthenticatedData
		return m
	})
	cert := a.issue(nil)
	overTLS, connectionsTLS := streams(t, &cert, func(conn net.Conn, _ int) {
		for {
			query, err := readFrame(conn)
			if err != nil {
				return
			}
			lengths[len(query)] = true
			z.tcp(query, conn)
		}
	})
	overHTTPS, server := postsTo(t, cert, true, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Method != http.MethodPost || r.URL.Path != "/dns-query" || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/dns-message" ||
			r.Header.Get("Accept") != "application/dns-message" || r.Header.Get("User-Agent") != "" || r.ContentLength%128 != 0 {
			t.Errorf("%s %s %s with %v and %d bytes", r.Proto, r.Method, r.URL, r.Header, r.ContentLength)
		}
		z.post(w, r)
	})
	const looks = 20
	for name, resolver := range map[string]dnscheck.Resolver{"tls": overTLS, "https": overHTTPS} {
		for _, certified := range []string{"", "resolver.example"} {
			resolver.ServerName = certified
			c := a.checker(resolver)
			for range looks {
				v := look(t, c)
				want(t, v, dnscheck.Present, dnscheck.ReasonFound)
				if o := v.Observations[0]; o.Transport != name || !o.Authenticated {
					t.Errorf("answered over %s, authenticated %t; want %s and AD", o.Transport, o.Authenticated, name)
				}
			}
		}
	}
	if tls, https := connectionsTLS.Load(), server.connections.Load(); tls != 2 || https != 2 {
		t.Errorf("%d connections over TLS and %d over HTTPS for %d looks, want one for each checker", tls, https, looks)
	}
	for length := range lengths {
		if length%128 != 0 {
			t.Errorf("a query of %d bytes: it is not padded", length)
		}
	}
	for _, q := range queries.seen() {
		if q.Question[0].Name != host+"." || !q.RecursionDesired || !q.AuthenticatedData {
			t.Fatalf("query %v", q)
		}
	}
}

func TestAuthenticatedIsWhatAllAnswersSay(t *testing.T) {
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
		{"for another address", "", "127.0.0.1", a.issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} })},
		{"for no address", "", "127.0.0.1", a.issue(func(c *x509.Certificate) { c.IPAddresses = nil })},
		{"for another name", "dns.example", "dns.example", a.issue(nil)},
		{"for the name in its subject only", "dns.example", "dns.example", a.issue(func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "dns.example" })},
		{"expired", "", "expired", a.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })},
		{"not valid yet", "", "expired or is not yet valid", a.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })},
		{"for signing code", "", "incompatible key usage", a.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} })},
		{"with names to be printed", "", `\x1b`, a.issue(func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames, c.Subject.CommonName = nil, []string{"a\x1b[31m"}, "x"
		})},
	}
	for _, test := range tests {
		overTLS, _ := streams(t, &test.cert, func(conn net.Conn, _ int) {
			if query, err := readFrame(conn); err == nil {
				t.Errorf("%s: a query came: %q", test.name, query)
			}
		})
		overHTTPS, _ := postsTo(t, test.cert, true, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request came", test.name) })
		for _, resolver := range []dnscheck.Resolver{overTLS, overHTTPS} {
			t.Run(test.name+"/"+resolver.Transport, func(t *testing.T) {
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
	}
	t.Run("by the system's roots", func(t *testing.T) {
		cert := a.issue(nil)
		resolver, _ := streams(t, &cert, answering(yes))
		want(t, look(t, checker(t, resolver)), dnscheck.Unknown, dnscheck.ReasonUnreachable)
	})
	t.Run("no TLS at all", func(t *testing.T) {
		resolver, _ := streams(t, nil, func(conn net.Conn, _ int) { _, _ = conn.Write(frame([]byte("no TLS, whatever comes"))) })
		for _, transport := range []string{"tls", "https"} {
			resolver.Transport = transport
			want(t, look(t, a.checker(resolver)), dnscheck.Unknown, dnscheck.ReasonUnreachable)
		}
	})
}

func TestDamagedRepliesOverOpenConnections(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			resolver, connections := streams(t, &cert, func(conn net.Conn, _ int) {
				for {
					query, err := readFrame(conn)
					if err != nil {
						return
					}
					_, _ = conn.Write(frame(d.make(yes.packed(query))))
					_, _ = conn.Write(frame(noValue.packed(query)))
				}
			})
			c := a.checker(resolver)
			for range 3 {
				want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonOtherValue)
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

// lookAtOnce checks n hosts concurrently and expects the token at each.
func lookAtOnce(t *testing.T, c *dnscheck.Checker, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			v, err := c.Check(t.Context(), fmt.Sprintf("h%d.example.com", i), fmt.Sprintf("token of h%d.example.com.", i))
			if err != nil || v.State != dnscheck.Present {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	all.Wait()
}

var ownToken = zone(func(q *dns.Msg) *dns.Msg {
	name := q.Question[0].Name
	return answer(q, txt(name, "token of "+strings.ToLower(name)))
})

func TestRepliesInAnyOrder(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	const n = 50
	resolver, connections := streams(t, &cert, func(conn net.Conn, _ int) {
		var queries [][]byte
		for range n {
			query, err := readFrame(conn)
			if err != nil {
				return
			}
			queries = append(queries, query)
		}
		for i := range n {
			ownToken.tcp(queries[n-1-i], conn)
		}
		answering(ownToken)(conn, 0)
	})
	c := a.checker(resolver)
	lookAtOnce(t, c, n)
	lookAtOnce(t, c, n)
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestEachQueryHasATLSRecordOfItsOwn relies on Read of a tls.Conn to return the data of one
// record.
func TestEachQueryHasATLSRecordOfItsOwn(t *testing.T) {
	const n = 3
	a := newCertifier(t)
	cert := a.issue(nil)
	resolver, connections := streams(t, &cert, func(conn net.Conn, _ int) {
		var records [][]byte
		for range n {
			buffer := make([]byte, 1<<15)
			size, err := conn.Read(buffer)
			if err != nil {
				return
			}
			records = append(records, buffer[:size])
		}
		for i, record := range records {
			if query := record[2:]; !bytes.Equal(record, frame(query)) || new(dns.Msg).Unpack(query) != nil {
				t.Errorf("record %d holds %q, want one query", i, record)
			}
			ownToken.tcp(record[2:], conn)
		}
		answering(ownToken)(conn, 0)
	})
	lookAtOnce(t, a.checker(resolver), n)
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestOneConnectionForManyQueries(t *testing.T) {
	const n = 1000
	var all sync.WaitGroup
	all.Add(n)
	gate := make(chan struct{})
	go func() {
		all.Wait()
		close(gate)
	}()
	resolver, connections := streams(t, nil, func(conn net.Conn, _ int) {
		var writing sync.Mutex
		var under sync.WaitGroup
		defer under.Wait()
		for {
			query, err := readFrame(conn)
			if err != nil {
				return
			}
			all.Done()
			under.Go(func() {
				<-gate // until all queries have arrived
				writing.Lock()
				defer writing.Unlock()
				ownToken.tcp(query, conn)
			})
		}
	})
	lookAtOnce(t, checker(t, resolver), n)
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	a := newCertifier(t)
	cert := a.issue(nil)
	once := func(conn net.Conn, _ int) {
		if query, err := readFrame(conn); err == nil {
			yes.tcp(query, conn)
		}
		_, _ = readFrame(conn) // and closes after the second query
	}
	t.Run("at the second query, each", func(t *testing.T) {
		resolver, connections := streams(t, &cert, once)
		c := a.checker(resolver)
		for range 5 {
			want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
		}
		if n := connections.Load(); n != 5 {
			t.Errorf("%d connections for 5 looks, want 5", n)
		}
	})
	t.Run("at each query", func(t *testing.T) {
		resolver, connections := streams(t, &cert, func(conn net.Conn, _ int) { _, _ = readFrame(conn) })
		want(t, look(t, a.checker(resolver)), dnscheck.Unknown, dnscheck.ReasonUnreachable)
		if n := connections.Load(); n != 2 {
			t.Errorf("%d connections, want 2: the query is tried once more", n)
		}
	})
	t.Run("in the middle of a reply", func(t *testing.T) {
		resolver, _ := streams(t, &cert, func(conn net.Conn, n int) {
			query, err := readFrame(conn)
			if err != nil {
				return
			}
			if n == 1 {
				_, _ = conn.Write(frame(yes.packed(query))[:30])
				return
			}
			yes.tcp(query, conn)
		})
		want(t, look(t, a.checker(resolver)), dnscheck.Present, dnscheck.ReasonFound)
	})
	t.Run("with many queries on it", func(t *testing.T) {
		const n = 40
		resolver, connections := streams(t, &cert, func(conn net.Conn, number int) {
			if number > 1 {
				answering(ownToken)(conn, number)
				return
			}
			for range n {
				_, _ = readFrame(conn)
			}
		})
		lookAtOnce(t, a.checker(resolver), n)
		if got := connections.Load(); got != 2 {
			t.Errorf("%d connections, want 2: all go over to the new one", got)
		}
	})
	t.Run("a stream in the clear", func(t *testing.T) {
		resolver, _ := streams(t, nil, once)
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

// TestLateReplyOnAnOpenConnection has the answer to a canceled check arrive during the next
// check of the same name.
func TestLateReplyOnAnOpenConnection(t *testing.T) {
	asked := make(chan struct{}, 1)
	var late []byte
	resolver, connections := streams(t, nil, func(conn net.Conn, _ int) {
		first, err := readFrame(conn)
		if err != nil {
			return
		}
		asked <- struct{}{}
		second, err := readFrame(conn)
		if err != nil {
			return
		}
		late = first
		yes.tcp(late, conn)
		noValue.tcp(second, conn)
		answering(noValue)(conn, 0)
	})
	c := checker(t, resolver)
	abandon(t, c, asked)
	for range 3 {
		want(t, look(t, c), dnscheck.Absent, dnscheck.ReasonOtherValue)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
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
		{"type with a parameter", typed("Application/DNS-Message; charset=x", yes.packed), dnscheck.Present, dnscheck.ReasonFound, ""},
		{"404", status(404), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 404"},
		{"429", status(429), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 429"},
		{"500", status(500), dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 500"},
		{"204 without anything", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, dnscheck.Unknown, dnscheck.ReasonRefused, "HTTP 204"},
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
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
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
	t.Run("while TLS is waited for", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		resolver, _ := streams(t, &cert, func(conn net.Conn, _ int) {
			_, _ = readFrame(conn)
			asked <- struct{}{}
			_, _ = readFrame(conn)
		})
		abandon(t, a.checker(resolver), asked)
	})
	t.Run("in the middle of a handshake", func(t *testing.T) {
		for _, transport := range []string{"tls", "https"} {
			asked := make(chan struct{}, 1)
			resolver, _ := streams(t, nil, func(conn net.Conn, _ int) {
				_, _ = conn.Read(make([]byte, 1))
				asked <- struct{}{}
				unanswered(conn)
			})
			resolver.Transport = transport
			abandon(t, a.checker(resolver), asked)
		}
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
	gone := make(chan struct{}, 100)
	overTLS, _ := streams(t, &cert, func(conn net.Conn, n int) {
		answering(yes)(conn, n)
		_ = conn.Close()
		gone <- struct{}{}
	})
	asked := make(chan struct{}, 1)
	hangs, _ := streams(t, &cert, func(conn net.Conn, _ int) {
		_, _ = readFrame(conn)
		asked <- struct{}{}
		unanswered(conn)
		_ = conn.Close()
		gone <- struct{}{}
	})
	overHTTPS, server := postsTo(t, cert, true, yes.post)
	before := sockets(t)
	for range 10 {
		c, err := dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{overTLS, overHTTPS}, Quorum: 2, Timeout: long, RootCAs: a.roots})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Prove(t.Context(), host, token); err != nil || v.State != dnscheck.Present {
			t.Errorf("%+v, %v", v, err)
		}
		c.Close()
		c.Close() // a second Close is a no-op
		<-gone
		v, err := c.Check(t.Context(), host, token)
		if err != nil {
			t.Fatal(err)
		}
		want(t, v, dnscheck.Unknown, dnscheck.ReasonUnreachable)

		c, err = dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{hangs}, Timeout: long, RootCAs: a.roots})
		if err != nil {
			t.Fatal(err)
		}
		abandon(t, c, asked)
		c.Close()
		<-gone
	}
	server.CloseClientConnections()
	// The server closes its connections with a delay; leaked connections stay open.
	after := sockets(t)
	for end := time.Now().Add(time.Minute); after > before && time.Now().Before(end); after = sockets(t) {
		runtime.Gosched()
	}
	if after > before {
		t.Errorf("%d sockets before, %d after", before, after)
	}
}

// TestCloseEndsChecks checks that Close ends a running check, although callers should not do
// this.
func TestCloseEndsChecks(t *testing.T) {
	asked := make(chan struct{}, 1)
	resolver, _ := streams(t, nil, func(conn net.Conn, _ int) {
		_, _ = readFrame(conn)
		asked <- struct{}{}
		unanswered(conn)
	})
	c := checker(t, resolver)
	done := make(chan dnscheck.Verdict)
	go func() {
		v, err := c.Check(context.Background(), host, token) //nolint:usetesting // it is not the test's end that ends it
		if err != nil {
			t.Error(err)
		}
		done <- v
	}()
	<-asked
	c.Close()
	want(t, <-done, dnscheck.Unknown, dnscheck.ReasonUnreachable)
}

func TestResolverNamedTwiceByOtherMeans(t *testing.T) {
	at := func(port uint16, transport string) dnscheck.Resolver {
		return dnscheck.Resolver{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), Transport: transport}
	}
	_, err := dnscheck.New(dnscheck.Config{Resolvers: []dnscheck.Resolver{at(53, "udp"), at(853, "tls")}})
	if err == nil || !strings.Contains(err.Error(), "resolver tls://192.0.2.1:853 is named twice") {
		t.Errorf("error %v", err)
	}
}
