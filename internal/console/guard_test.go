package console_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/console"
	"orgops/internal/serving"
)

func basic(name, password string) change {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func from(addr string) change { return func(r *http.Request) { r.RemoteAddr = addr } }

func added(name, value string) change {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// byPassword returns the pages with alice as their user.
func byPassword(t *testing.T) pages {
	return newPages(t, func(c *console.Config) { c.Access.Users = newUsers(t, "alice:"+hash10) })
}

// byProxy returns the pages behind a proxy that names the user.
func byProxy(t *testing.T) pages {
	t.Helper()
	proxies, err := console.ParseProxyFrom([]string{"10.0.0.0/8", "2001:db8::1"})
	if err != nil {
		t.Fatal(err)
	}
	return newPages(t, func(c *console.Config) { c.Access.ProxyHeader, c.Access.ProxyFrom = "X-Forwarded-User", proxies })
}

func TestPassword(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		changes []change
		want    int
		logged  string
	}{
		{"none", nil, 401, ""},
		{"right", []change{basic("alice", right)}, 302, ""},
		{"wrong", []change{basic("alice", "wr0ng")}, 401, "reason=wrong_password remote=192.0.2.1:1234 user=alice"},
		{"of nobody", []change{basic("typed-by-mistake", "wr0ng")}, 401, "reason=wrong_password remote=192.0.2.1:1234 user=unknown"},
		{"empty", []change{basic("alice", "")}, 401, "reason=wrong_password"},
		{"of no name", []change{basic("", right)}, 401, "reason=wrong_password"},
		{"the hash", []change{basic("alice", hash10)}, 401, "reason=wrong_password"},
		{"in another case", []change{basic("Alice", right)}, 401, "user=unknown"},
		{"by another scheme", []change{header("Authorization", "Bearer wr0ng")}, 401, "reason=authorization_malformed"},
		{"not Base64", []change{header("Authorization", "Basic ?")}, 401, "reason=authorization_malformed"},
		{"twice", []change{basic("alice", right), added("Authorization", "Basic eA==")}, 401, "reason=authorization_malformed"},
		{"in a header of a proxy's", []change{header("X-Forwarded-User", "alice")}, 401, ""},
		{"by a query", []change{func(r *http.Request) { r.URL.RawQuery = "user=alice" }}, 401, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := byPassword(t)
			resp := p.do("GET", "/", test.changes...)
			if resp.StatusCode != test.want {
				t.Errorf("status %d, want %d", resp.StatusCode, test.want)
			}
			if got, want := resp.Header.Get("WWW-Authenticate") != "", test.want == 401; got != want {
				t.Errorf("asked for a password: %v, want %v", got, want)
			}
			if log := p.log.String(); !strings.Contains(log, test.logged) || test.logged == "" && log != "" {
				t.Errorf("log %q, want %q", log, test.logged)
			}
			for _, secret := range []string{"wr0ng", "typed-by-mistake", right, hash10} {
				if strings.Contains(p.log.String(), secret) {
					t.Errorf("%q is in the log %q", secret, p.log)
				}
			}
		})
	}
}

// TestEverythingIsBehindThePassword checks that every path and every method requires to sign
// in.
func TestEverythingIsBehindThePassword(t *testing.T) {
	p := byPassword(t)
	p.enqueue(t, "domain:verify", `{}`)
	for _, path := range []string{"/", "/runs", "/static/ops.css", "/static/ops.js", "/monitor/", "/monitor/api/queues", "/missing", "/healthz", "/metrics"} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			resp := p.do(method, path)
			if body := text(t, resp); resp.StatusCode != 401 || strings.Contains(body, "default.dns") {
				t.Errorf("%s %s: %d, want 401", method, path, resp.StatusCode)
			}
		}
	}
}

// TestPasswordIsCached checks that repeated requests cost one comparison, and that the cached
// result holds for that password of that name only.
func TestPasswordIsCached(t *testing.T) {
	t.Parallel()
	users := newUsers(t, "alice:"+hash10+"\nbob:$2a$10$"+strings.Repeat("x", 53))
	rounds := users.CountRounds()
	p := newPages(t, func(c *console.Config) { c.Access.Users = users })
	for range 5 {
		if resp := p.do("GET", "/", basic("alice", right)); resp.StatusCode != 302 {
			t.Fatalf("status %d, want 302", resp.StatusCode)
		}
	}
	if rounds() != 1<<10 {
		t.Errorf("%d rounds, want those of one comparison", rounds())
	}
	for name, wrong := range map[string]change{"another's name": basic("bob", right), "another password": basic("alice", right+" ")} {
		if resp := p.do("GET", "/", wrong, from("192.0.2.2:1")); resp.StatusCode != 401 {
			t.Errorf("%s: status %d, want 401", name, resp.StatusCode)
		}
	}
	if resp := p.do("GET", "/", basic("alice", right)); resp.StatusCode != 302 {
		t.Errorf("after others' wrong ones: status %d, want 302", resp.StatusCode)
	}
}

func TestProxyHeader(t *testing.T) {
	const name = "X-Forwarded-User"
	trusted := from("10.1.2.3:4444")
	tests := []struct {
		name    string
		changes []change
		want    int
		reason  string
	}{
		{"from the proxy", []change{trusted, header(name, "alice@example.com")}, 302, ""},
		{"from the proxy, mapped", []change{from("[::ffff:10.1.2.3]:1"), header(name, "alice")}, 302, ""},
		{"from the proxy by IPv6", []change{from("[2001:db8::1]:1"), header(name, "Jürgen")}, 302, ""},
		{"from elsewhere", []change{from("192.0.2.9:1"), header(name, "alice")}, 403, "not_by_the_proxy"},
		{"from this machine", []change{from("127.0.0.1:1"), header(name, "alice")}, 403, "not_by_the_proxy"},
		{"from nowhere", []change{from("@"), header(name, "alice")}, 403, "not_by_the_proxy"},
		{"from elsewhere that says it is the proxy", []change{from("192.0.2.9:1"), header(name, "alice"), header("X-Forwarded-For", "10.1.2.3"), header("X-Real-IP", "10.1.2.3"), header("Forwarded", "for=10.1.2.3")}, 403, "not_by_the_proxy"},
		{"without it", []change{trusted}, 403, "no_user"},
		{"empty", []change{trusted, header(name, "")}, 403, "no_user"},
		{"twice", []change{trusted, header(name, "alice"), added(name, "mallory")}, 403, "no_user"},
		{"by another spelling", []change{trusted, func(r *http.Request) { r.Header["X_Forwarded_User"] = []string{"alice"} }}, 403, "no_user"},
		{"with a control character", []change{trusted, header(name, "al\x1b[31mice")}, 403, "no_user"},
		{"not UTF-8", []change{trusted, header(name, "al\xffice")}, 403, "no_user"},
		{"too long", []change{trusted, header(name, strings.Repeat("a", 257))}, 403, "no_user"},
		{"a password instead", []change{trusted, basic("alice", right)}, 403, "no_user"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := byProxy(t)
			resp := p.do("GET", "/", test.changes...)
			if resp.StatusCode != test.want {
				t.Errorf("status %d, want %d", resp.StatusCode, test.want)
			}
			if test.reason != "" && !strings.Contains(p.log.String(), "reason="+test.reason) {
				t.Errorf("log %q, want %s", p.log, test.reason)
			}
			if body := text(t, resp); strings.Contains(body, "\x1b") || strings.Contains(body, "\xff") {
				t.Errorf("the answer %q repeats what was sent", body)
			}
		})
	}
	t.Run("without the proxy's addresses nobody is believed", func(t *testing.T) {
		p := newPages(t, func(c *console.Config) { c.Access.ProxyHeader = name })
		if resp := p.do("GET", "/", trusted, header(name, "alice")); resp.StatusCode != 403 {
			t.Errorf("status %d, want 403", resp.StatusCode)
		}
	})
}

func TestHostsOfTheSettings(t *testing.T) {
	hosts, err := console.ParseHosts([]string{"Ops.Example.com.", "[2001:db8::5]"})
	if err != nil {
		t.Fatal(err)
	}
	p := newPages(t, func(c *console.Config) { c.Access.Hosts = hosts })
	for name, want := range map[string]int{
		"ops.example.com": 302, "OPS.example.com:8443": 302, "[2001:db8::5]:80": 302, "localhost": 302,
		"evil.example": 403, "ops.example.com.evil.example": 403, "x.ops.example.com": 403, "example.com": 403, "[2001:db8::6]": 403,
	} {
		if resp := p.do("GET", "/", host(name)); resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", name, resp.StatusCode, want)
		}
	}
}

// TestMethods checks that methods without a page are refused before the handler.
func TestMethods(t *testing.T) {
	h := console.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for method, want := range map[string]int{
		"GET": 418, "HEAD": 418, "POST": 418, "DELETE": 418,
		"OPTIONS": 405, "TRACE": 405, "CONNECT": 405, "PUT": 405, "PATCH": 405, "PROPFIND": 405, "get": 405,
	} {
		r := httptest.NewRequest(method, "/", nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || (w.Header().Get("Allow") != "") != (want == 405) || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %d with %v, want %d", method, w.Code, w.Header(), want)
		}
	}
}

// TestActionsNameTheUser checks that the log names the user of each request that may change
// something.
func TestActionsNameTheUser(t *testing.T) {
	p := byPassword(t)
	p.do("POST", "/monitor/api/queues/x%0aevil:pause", basic("alice", right), header("Sec-Fetch-Site", "same-origin"))
	if log := p.log.String(); !strings.Contains(log, `msg="action requested" user=alice method=POST`) || strings.Count(log, "\n") != 1 {
		t.Errorf("log %q, want one line of the action", log)
	}
	p.log.Reset()
	p.do("GET", "/", basic("alice", right))
	p.do("POST", "/", basic("alice", right), header("Sec-Fetch-Site", "cross-site"))
	if log := p.log.String(); strings.Contains(log, "action requested") || !strings.Contains(log, "reason=cross_origin") {
		t.Errorf("log %q, want the refusal and no action", log)
	}
}

// raw sends request to a server as it is, and returns the response.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // the connection may be reset before all is read
	return string(answer)
}

// TestTraversal checks that no form of path serves other files than those of static/.
func TestTraversal(t *testing.T) {
	addr, _ := serve(t, newPages(t))
	for _, path := range []string{
		"/static/../guard.go", "/static/../../../../etc/passwd", "/static/%2e%2e/site.go", "/static/..%2fsite.go", "/static/%2e%2e%2fsite.go",
		"/static/%252e%252e%252fsite.go", `/static/..\site.go`, "/static/..%5csite.go", "/static/....//site.go", "/static//etc/passwd", "/static/%00", "/static/ops.css%00.html",
		"/monitor/../../../../etc/passwd", "/monitor/%2e%2e/%2e%2e/etc/passwd", "/monitor/static/%2e%2e/%2e%2e/index.html", "/monitor/static/..%2f..%2f..%2fetc%2fpasswd", `/monitor/static/..\..\etc\passwd`,
		"//evil.example/", "/%2f%2fevil.example", `/\evil.example`, "/templates/layout.html", "/static/../templates/layout.html",
	} {
		answer := raw(t, addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
		if err != nil {
			t.Fatalf("%s: %v in %q", path, err, answer)
		}
		body := text(t, resp)
		if strings.Contains(body, "root:") || strings.Contains(body, "package console") || strings.Contains(body, "{{") {
			t.Errorf("%s: served %.100q", path, body)
		}
		if to := resp.Header.Get("Location"); strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) || strings.Contains(to, "://") {
			t.Errorf("%s: led to %s", path, to)
		}
		if resp.StatusCode == 200 && !strings.Contains(body, "FLAG_ROOT_PATH") { // asynqmon serves its index at the path of each view
			t.Errorf("%s: 200 with %.100q", path, body)
		}
	}
}

// TestListings checks that files are served and directories are not listed.
func TestListings(t *testing.T) {
	p := newPages(t)
	if resp := p.do("GET", "/static/"); resp.StatusCode != 404 {
		t.Errorf("GET /static/: %d, want 404", resp.StatusCode)
	}
}

// TestMalformedRequests checks that requests which proxies and servers could parse differently
// are refused, and that their connection is closed.
func TestMalformedRequests(t *testing.T) {
	addr, _ := serve(t, newPages(t))
	const hidden = "GET /monitor/api/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for name, head := range map[string]string{
		"length and chunks twice": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"two lengths":             "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\n",
		"a length with a sign":    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\n\r\n",
		"another coding":          "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"a blank before a colon":  "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
		"a folded line":           "GET / HTTP/1.1\r\n folded\r\nHost: localhost\r\n\r\n",
		"two hosts":               "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
		"no host":                 "GET / HTTP/1.1\r\n\r\n",
		"a zero in a header":      "GET / HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
		"another protocol":        "GET / HTTP/3.7\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer := raw(t, addr, head+hidden)
			status, _, _ := strings.Cut(answer, "\r\n")
			if !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.1 5") {
				t.Errorf("answer %q, want a refusal", status)
			}
			if n := strings.Count(answer, "HTTP/1.1 "); n != 1 {
				t.Errorf("%d answers, want 1: %q", n, answer)
			}
		})
	}
}

// TestSlowClients checks that the server closes the connection of a client that does not
// complete its request.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, newPages(t))
	if answer := raw(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow"); strings.Contains(answer, "302") {
		t.Errorf("answer %q, want none", answer)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	var read int64
	var err error
	h := console.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { read, err = io.Copy(io.Discard, r.Body) }))
	r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 2<<20)))
	r.Host = "localhost"
	h.ServeHTTP(httptest.NewRecorder(), r)
	if err == nil || read > 1<<20 {
		t.Errorf("read %d bytes, error %v; want an error after 1 MiB", read, err)
	}
}

// TestTLSOfThePages checks HTTP/2 and Strict-Transport-Security. The header is not sent for
// localhost, where it would apply to every port.
func TestTLSOfThePages(t *testing.T) {
	own := httptest.NewUnstartedServer(nil) // for its certificate
	own.StartTLS()
	certificate := &tls.Config{Certificates: own.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	pool := x509.NewCertPool()
	pool.AddCert(own.Certificate())
	own.Close()
	p := newPages(t, func(c *console.Config) { c.Access.Hosts = []string{"ops.example.com"} })
	addr, stop, err := serving.Serve(t.Context(), "127.0.0.1:0", certificate, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got := map[string]string{}
	for _, name := range []string{"ops.example.com", "localhost", "127.0.0.1", "evil.example"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got[name] = resp.Proto + " " + resp.Header.Get("Strict-Transport-Security")
	}
	want := map[string]string{"ops.example.com": "HTTP/2.0 max-age=31536000", "localhost": "HTTP/2.0 ", "127.0.0.1": "HTTP/2.0 ", "evil.example": "HTTP/2.0 max-age=31536000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("protocol and header (-want +got):\n%s", diff)
	}
	if answer := raw(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.0 400") {
		t.Errorf("without TLS: %q, want 400", answer)
	}
	transport.CloseIdleConnections()
	if err := stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestReadsFromOtherSites checks that pages of other sites cannot read here, and that their
// links work.
func TestReadsFromOtherSites(t *testing.T) {
	p := newPages(t)
	for _, test := range []struct {
		site, mode, dest string
		want             int
	}{
		{"", "", "", 200},
		{"none", "navigate", "document", 200},
		{"same-origin", "cors", "empty", 200},
		{"cross-site", "navigate", "document", 200},
		{"cross-site", "navigate", "iframe", 403},
		{"cross-site", "no-cors", "image", 403},
		{"same-site", "no-cors", "script", 403},
		{"same-site", "cors", "empty", 403},
		{"cross-site", "", "", 403},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			p.log.Reset()
			set := header("Sec-Fetch-Site", test.site)
			if test.site == "" {
				set = func(*http.Request) {}
			}
			resp := p.do(method, "/monitor/api/queues", set, header("Sec-Fetch-Mode", test.mode), header("Sec-Fetch-Dest", test.dest))
			if refused := resp.StatusCode == 403; refused != (test.want == 403) || method == "GET" && resp.StatusCode != test.want || strings.Contains(p.log.String(), "reason=cross_origin") != (test.want == 403) {
				t.Errorf("%s by %+v: %d, log %q", method, test, resp.StatusCode, p.log)
			}
		}
	}
}
