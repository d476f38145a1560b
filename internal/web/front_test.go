package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/web"
)

// front has routes of each sort: one for readers and operators, one for operators, one of nobody,
// one of all tenants, and an open one. They answer with the user's name and role.
func front(t *testing.T, changes ...func(*web.Front)) (http.Handler, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	who := func(w http.ResponseWriter, r *http.Request) {
		u := web.Of(r.Context()).User
		_, _ = io.WriteString(w, u.Name+" "+string(u.Role))
	}
	f := web.Front{
		Routes: []web.Route{
			{Pattern: "GET /{$}", Roles: []web.Role{web.Reader, web.Operator, web.Support, web.Submitter}, Serve: who},
			{Pattern: "POST /act", Roles: []web.Role{web.Operator}, Serve: who},
			{Pattern: "GET /nobody", Serve: who},
			{Pattern: "GET /all", Roles: []web.Role{web.Reader}, Everywhere: true, Serve: who},
			{Pattern: "GET /open", Roles: []web.Role{web.Anybody}, Serve: who},
			{Pattern: "GET /panic", Roles: []web.Role{web.Reader},
				Serve: func(http.ResponseWriter, *http.Request) { panic("broken") }},
			{Pattern: "GET /cut", Roles: []web.Role{web.Reader}, Serve: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half")
				panic("broken")
			}},
			{Pattern: "POST /read", Roles: []web.Role{web.Reader}, Serve: func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if _, large := errors.AsType[*http.MaxBytesError](err); !large || n > 1<<10 {
					w.WriteHeader(http.StatusTeapot)
				}
			}},
		},
		Pages: true, Unsigned: web.Reader, MaxBody: 1 << 10, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Refuse: func(w http.ResponseWriter, _ *http.Request, why *web.Refusal) { http.Error(w, why.Text, why.Status) },
	}
	for _, change := range changes {
		change(&f)
	}
	return f.Handler(), log
}

type change func(*http.Request)

func with(name string, values ...string) change {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func host(name string) change { return func(r *http.Request) { r.Host = name } }

func from(addr string) change { return func(r *http.Request) { r.RemoteAddr = addr } }

func basic(token string) change { return func(r *http.Request) { r.SetBasicAuth("any", token) } }

func do(h http.Handler, method, path string, changes ...change) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8080"
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// entries has alice, an operator, robin, a reader of one tenant, and crm, which submits rows.
func entries() string {
	return "- {name: alice, role: operator, tenants: ['*'], sha256: " + hashOf(tokenOf("a")) + "}\n" +
		"- {name: robin, role: reader, tenants: [acme], sha256: " + hashOf(tokenOf("b")) + "}\n" +
		"- {name: crm, role: submitter, tenants: ['*'], kinds: ['*'], sha256: " + hashOf(tokenOf("c")) + "}\n"
}

// TestSignIn checks what gets a user in, on pages and at the intake, and that no token reaches the
// log.
func TestSignIn(t *testing.T) {
	unknown := tokenOf("d")
	tests := []struct {
		name       string
		give       []change
		pages      string // the answer, or the status
		intake     string
		challenges string // of the intake
	}{
		{"nothing", nil, "401", "401", `Bearer realm="orgops"`},
		{"a token as password", []change{basic(tokenOf("a"))}, "alice operator", "401", `Bearer realm="orgops"`},
		{"a token as bearer", []change{with("Authorization", "Bearer "+tokenOf("a"))}, "401", "alice operator", ""},
		{"in another case", []change{with("Authorization", "bearer "+tokenOf("c"))}, "401", "crm submitter", ""},
		{"an unknown one as password", []change{basic(unknown)}, "401", "401", `Bearer realm="orgops"`},
		{"an unknown one as bearer", []change{with("Authorization", "Bearer "+unknown)}, "401", "401",
			`Bearer realm="orgops", error="invalid_token"`},
		{"no token at all", []change{basic("")}, "401", "401", `Bearer realm="orgops"`},
		{"an empty bearer", []change{with("Authorization", "Bearer ")}, "401", "401",
			`Bearer realm="orgops", error="invalid_token"`},
		{"only a scheme", []change{with("Authorization", "Bearer")}, "401", "401", `Bearer realm="orgops"`},
		{"the hash", []change{with("Authorization", "Bearer "+hashOf(tokenOf("a")))}, "401", "401",
			`Bearer realm="orgops", error="invalid_token"`},
		{"not Base64", []change{with("Authorization", "Basic ?")}, "401", "401", `Bearer realm="orgops"`},
		{"twice", []change{with("Authorization", "Bearer "+tokenOf("a"), "Bearer "+tokenOf("c"))}, "401", "401",
			`Bearer realm="orgops"`},
		{
			"a password twice", []change{basic(tokenOf("a")), func(r *http.Request) {
				r.Header.Add("Authorization", "Basic eA==")
			}}, "401", "401", `Bearer realm="orgops"`,
		},
		{"a proxy's header", []change{with("X-Forwarded-User", "alice")}, "401", "401",
			`Bearer realm="orgops"`},
		{"a query", []change{func(r *http.Request) { r.URL.RawQuery = "token=" + tokenOf("a") }}, "401", "401",
			`Bearer realm="orgops"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for pages, want := range map[bool]string{true: test.pages, false: test.intake} {
				h, log := front(t, func(f *web.Front) { f.Access, f.Pages = readAccess(t, entries()), pages })
				got := do(h, "GET", "/", test.give...)
				answer := got.Body.String()
				if got.Code != http.StatusOK {
					answer = http.StatusText(got.Code)
					want = strings.Replace(want, "401", "Unauthorized", 1)
				}
				challenge := got.Header().Get("WWW-Authenticate")
				if pages && (got.Code == 401) != (challenge == `Basic realm="orgops", charset="UTF-8"`) ||
					!pages && challenge != test.challenges {
					t.Errorf("pages %v: challenge %q", pages, challenge)
				}
				if answer != want {
					t.Errorf("pages %v: %q, want %q", pages, answer, want)
				}
				if strings.Contains(log.String(), "orgops_") {
					t.Errorf("a token is in the log:\n%s", log)
				}
			}
		})
	}
}

// TestRoutesAreDenied checks that nothing is served to a role that the route does not name, and
// that only a signed-in user learns which paths there are.
func TestRoutesAreDenied(t *testing.T) {
	h, log := front(t, func(f *web.Front) { f.Access = readAccess(t, entries()) })
	own := with("Origin", "http://127.0.0.1:8080")
	tests := []struct {
		method, path, token string
		want                int
		allow               string
	}{
		{"GET", "/", tokenOf("b"), 200, ""},
		{"HEAD", "/", tokenOf("b"), 200, ""},
		{"POST", "/act", tokenOf("a"), 200, ""},
		{"POST", "/act", tokenOf("b"), 403, ""},
		{"GET", "/nobody", tokenOf("a"), 403, ""},
		{"GET", "/all", tokenOf("b"), 403, ""}, // of one tenant
		{"GET", "/missing", tokenOf("a"), 404, ""},
		{"POST", "/", tokenOf("a"), 405, "GET, HEAD"},
		{"BREW", "/act", tokenOf("a"), 405, "POST"},
		{"GET", "/open", "", 200, ""},
		{"GET", "/", "", 401, ""},
		{"POST", "/act", "", 401, ""},
		{"GET", "/nobody", "", 401, ""},
		{"GET", "/missing", "", 401, ""},
		{"BREW", "/act", "", 401, ""},
		{"GET", "//nobody", "", 401, ""},
	}
	for _, test := range tests {
		changes := []change{own}
		if test.token != "" {
			changes = append(changes, basic(test.token))
		}
		got := do(h, test.method, test.path, changes...)
		if got.Code != test.want || got.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s with %.8q: %d, Allow %q; want %d, %q", test.method, test.path, test.token, got.Code,
				got.Header().Get("Allow"), test.want, test.allow)
		}
	}
	if !strings.Contains(log.String(), `route="POST /act" status=200`) ||
		!strings.Contains(log.String(), "user=robin reason=role") {
		t.Errorf("the log names neither who acted nor who was refused:\n%s", log)
	}
}

// TestAdmitted changes the access file during a request that lasts.
func TestAdmitted(t *testing.T) {
	entry := func(name string, role web.Role, letter string) string {
		return fmt.Sprintf("- {name: %s, role: %s, tenants: ['*'], sha256: %s}\n", name, role, hashOf(tokenOf(letter)))
	}
	other := entry("other", web.Reader, "b")
	for _, test := range []struct {
		name string
		then string // the file's content
		want bool
	}{
		{"as before", entry("alice", web.Reader, "a") + other + "# more\n", true},
		{"removed", other, false},
		{"another user of the token", entry("mallory", web.Reader, "a") + other, false},
		{"another role", entry("alice", web.Operator, "a") + other, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, now := accessFile(t, entry("alice", web.Reader, "a")+other), time.Now()
			access, err := web.ReadAccess(file, quiet, func() time.Time { return now })
			if err != nil {
				t.Fatal(err)
			}
			h, _ := front(t, func(f *web.Front) {
				f.Access = access
				lasting := func(_ http.ResponseWriter, r *http.Request) {
					it := web.Of(r.Context())
					if !it.Admitted() {
						t.Error("not admitted at first")
					}
					if err := os.WriteFile(file, []byte(test.then), 0o600); err != nil {
						t.Fatal(err)
					}
					now = now.Add(time.Minute)
					if got := it.Admitted(); got != test.want {
						t.Errorf("admitted %v, want %v", got, test.want)
					}
				}
				f.Routes = []web.Route{{Pattern: "GET /lasting", Roles: []web.Role{web.Reader}, Serve: lasting}}
			})
			if got := do(h, "GET", "/lasting", basic(tokenOf("a"))); got.Code != http.StatusOK {
				t.Errorf("%d, want 200", got.Code)
			}
		})
	}
}

// TestParseProxy has settings that would let clients name themselves.
func TestParseProxy(t *testing.T) {
	for _, test := range []struct {
		name   string
		header string
		role   string
		from   []string
		want   string // of the error; empty: none
	}{
		{"no proxy", "", "", nil, ""},
		{"a header", "X-Forwarded-User", "", nil, ""},
		{"addresses", "X-Forwarded-User", "", []string{"10.1.2.3", "2001:db8::/32"}, ""},
		{"a role", "X-Forwarded-User", "X-Forwarded-Role", nil, ""},
		{"a role alone", "", "X-Forwarded-Role", nil, "without ops-proxy-header"},
		{"one header for name and role", "X-Forwarded-User", "x-forwarded-user", nil, "another header than ops-proxy-header"},
		{"a role in a header of clients", "X-Forwarded-User", "cookie", nil, "a header that only the proxy sets"},
		{"addresses alone", "", "", []string{"10.1.2.3"}, "without ops-proxy-header"},
		{"a header of clients", "authorization", "", nil, "a header that only the proxy sets"},
		{"no name of a header", "X User", "", nil, "a header that only the proxy sets"},
		{"no address", "X-Forwarded-User", "", []string{"proxy"}, "want addresses or networks"},
		{"every address", "X-Forwarded-User", "", []string{"0.0.0.0/0"}, "contains every address"},
		{"an address in two forms", "X-Forwarded-User", "", []string{"::ffff:10.1.2.3"}, "want it written as IPv4"},
	} {
		_, err := web.ParseProxy(test.header, test.role, test.from)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestProxyHeader checks who a request is by the headers of a proxy: the name gives no role,
// whatever its characters.
func TestProxyHeader(t *testing.T) {
	const name, role = "X-Forwarded-User", "X-Forwarded-Role"
	trusted := from("10.1.2.3:4444")
	tests := []struct {
		name    string
		changes []change
		want    string // the answer, or the reason of the refusal
	}{
		{"from the proxy", []change{trusted, with(name, "alice@example.com")}, "alice@example.com reader"},
		{"with a role", []change{trusted, with(name, "alice"), with(role, "operator")}, "alice operator"},
		{"with a name that looks like a role", []change{trusted, with(name, "mallory; role=operator")},
			"mallory; role=operator reader"},
		{"with a reserved name", []change{trusted, with(name, "link")}, "reason=no_user"},
		{"with the name of nobody", []change{trusted, with(name, "anybody")}, "reason=no_user"},
		{"with an empty role", []change{trusted, with(name, "alice"), with(role, "")}, "alice reader"},
		{"from the proxy, mapped", []change{from("[::ffff:10.1.2.3]:1"), with(name, "alice"),
			with(role, "support")}, "alice support"},
		{"from the proxy by IPv6", []change{from("[2001:db8::1]:1"), with(name, "Jürgen")}, "Jürgen reader"},
		{"an unknown role", []change{trusted, with(name, "alice"), with(role, "admin")}, "reason=no_user"},
		{"a role of programs", []change{trusted, with(name, "alice"), with(role, "submitter")}, "reason=no_user"},
		{"two roles", []change{trusted, with(name, "alice"), with(role, "reader", "operator")}, "reason=no_user"},
		{"from elsewhere", []change{from("192.0.2.9:1"), with(name, "alice")}, "reason=not_by_the_proxy"},
		{"from this machine", []change{from("127.0.0.1:1"), with(name, "alice")}, "reason=not_by_the_proxy"},
		{"from nowhere", []change{from("@"), with(name, "alice")}, "reason=not_by_the_proxy"},
		{"from elsewhere that says it is the proxy", []change{from("192.0.2.9:1"), with(name, "alice"),
			with("X-Forwarded-For", "10.1.2.3"), with("Forwarded", "for=10.1.2.3")}, "reason=not_by_the_proxy"},
		{"without it", []change{trusted}, "reason=no_user"},
		{"empty", []change{trusted, with(name, "")}, "reason=no_user"},
		{"a role without a name", []change{trusted, with(role, "operator")}, "reason=no_user"},
		{"twice", []change{trusted, with(name, "alice", "mallory")}, "reason=no_user"},
		{"by another spelling", []change{trusted, func(r *http.Request) { r.Header["X_Forwarded_User"] = []string{"alice"} }},
			"reason=no_user"},
		{"with a control character", []change{trusted, with(name, "al\x1b[31mice")}, "reason=no_user"},
		{"not UTF-8", []change{trusted, with(name, "al\xffice")}, "reason=no_user"},
		{"too long", []change{trusted, with(name, strings.Repeat("a", 257))}, "reason=no_user"},
		{"a token instead", []change{trusted, basic(tokenOf("a"))}, "reason=no_user"},
	}
	proxy, err := web.ParseProxy(name, role, []string{"10.0.0.0/8", "2001:db8::1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, log := front(t, func(f *web.Front) { f.Proxy = proxy })
			got := do(h, "GET", "/", test.changes...)
			answer := got.Body.String()
			if strings.Contains(answer, "\x1b") || strings.Contains(answer, "\xff") {
				t.Errorf("the answer %q repeats what was sent", answer)
			}
			if reason, refused := strings.CutPrefix(test.want, "reason="); refused != (got.Code == http.StatusForbidden) ||
				!refused && answer != test.want || refused && !strings.Contains(log.String(), "reason="+reason) {
				t.Errorf("%d %q, log %q; want %s", got.Code, answer, log, test.want)
			}
		})
	}
	t.Run("without the proxy's addresses everybody is a reader", func(t *testing.T) {
		h, _ := front(t, func(f *web.Front) { f.Proxy = web.Proxy{Header: name, Role: role} })
		if got := do(h, "GET", "/", with(name, "alice"), with(role, "operator")); got.Body.String() != "alice reader" {
			t.Errorf("answer %q, want a reader", got.Body)
		}
	})
}

// TestOrigin checks which requests of browsers are refused that another site may have made.
func TestOrigin(t *testing.T) {
	own, foreign := with("Origin", "http://127.0.0.1:8080"), with("Origin", "http://evil.example")
	site := func(site, mode, dest string) change {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	byName := []change{host("ops.example.com"), with("Origin", "https://ops.example.com")}
	tests := []struct {
		name     string
		method   string
		changes  []change
		pages    int
		unsigned int // the intake without a sign-in
	}{
		{"a read", "GET", nil, 200, 200},
		{"typed", "GET", []change{site("none", "navigate", "document")}, 200, 200},
		{"of a page's own script", "GET", []change{site("same-origin", "cors", "empty")}, 200, 200},
		{"another site's link", "GET", []change{site("cross-site", "navigate", "document")}, 200, 200},
		{"another site's frame", "GET", []change{site("cross-site", "navigate", "iframe")}, 403, 403},
		{"another site's image", "HEAD", []change{site("cross-site", "no-cors", "image")}, 403, 403},
		{"another port's script", "GET", []change{site("same-site", "no-cors", "script")}, 403, 403},
		{"another site's script, for a document", "GET", []change{site("cross-site", "cors", "document")}, 403, 403},
		{"another site, without more", "GET", []change{site("cross-site", "", "")}, 403, 403},
		{"an action", "POST", []change{own}, 200, 200},
		{"an action of its own form", "POST", []change{own, site("same-origin", "navigate", "document")}, 200, 200},
		{"an action without an origin", "POST", nil, 403, 200},
		{"an action of no origin", "POST", []change{with("Origin", "null")}, 403, 403},
		{"an action of another site", "POST", []change{foreign}, 403, 403},
		{"an action of another site's form", "POST", []change{foreign, site("cross-site", "navigate", "document")}, 403, 403},
		{"an action of another port", "POST", []change{with("Origin", "http://127.0.0.1:9090")}, 403, 403},
		{"an action of two origins", "POST", []change{with("Origin", "http://127.0.0.1:8080", "http://evil.example")},
			403, 403},
		{"an action that says both", "POST", []change{own, site("cross-site", "navigate", "document")}, 403, 403},
		{"an action of a file", "POST", []change{with("Origin", "file://127.0.0.1:8080")}, 403, 403},
		{"an action by a name of the settings", "POST", byName, 200, 200},
		{"an action through a proxy that changes the host", "POST",
			[]change{with("Origin", "https://ops.example.com")}, 200, 200},
		{"an action by a name that begins like one", "POST",
			[]change{with("Origin", "https://ops.example.com.evil.example")}, 403, 403},
	}
	for _, test := range tests {
		for pages, want := range map[bool]int{true: test.pages, false: test.unsigned} {
			h, log := front(t, func(f *web.Front) {
				f.Pages, f.Unsigned, f.Hosts = pages, web.Operator, []string{"ops.example.com"}
			})
			path := "/"
			if test.method == "POST" {
				path = "/act"
			}
			got := do(h, test.method, path, test.changes...)
			if got.Code != want || strings.Contains(log.String(), "reason=cross_origin") != (want == 403) {
				t.Errorf("%s, pages %v: %d, want %d; log %q", test.name, pages, got.Code, want, log)
			}
		}
	}
	// A program's token is in no browser.
	h, _ := front(t, func(f *web.Front) { f.Pages, f.Access = false, readAccess(t, entries()) })
	if got := do(h, "POST", "/act", host("intake.example.com"), foreign,
		with("Authorization", "Bearer "+tokenOf("a"))); got.Code != 200 {
		t.Errorf("by a token: %d, want 200", got.Code)
	}
}

func TestHost(t *testing.T) {
	hosts, err := web.ParseHosts([]string{"Ops.Example.com.", "[2001:db8::5]"})
	if err != nil {
		t.Fatal(err)
	}
	h, log := front(t, func(f *web.Front) { f.Hosts = hosts })
	at := func(addr string) change {
		return func(r *http.Request) {
			local, err := net.ResolveTCPAddr("tcp", addr)
			if err != nil {
				panic(err)
			}
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		}
	}
	tests := []struct {
		host, at string
		want     int
	}{
		{"localhost", "", 200},
		{"LocalHost.:9000", "", 200},
		{"ops.localhost:8080", "", 200},
		{"127.1.2.3", "", 200},
		{"[::1]:8080", "", 200},
		{"[::ffff:127.0.0.1]", "", 200},
		{"10.1.2.3:8080", "10.1.2.3:8080", 200},
		{"[fd00::1]:8080", "[fd00::1]:8080", 200},
		{"OPS.example.com:8443", "", 200},
		{"[2001:db8::5]:80", "", 200},
		{"10.1.2.4:8080", "10.1.2.3:8080", 403},
		{"10.1.2.3:8080", "", 403},
		{"evil.example:8080", "127.0.0.1:8080", 403},
		{"localhost.evil.example", "", 403},
		{"ops.example.com.evil.example", "", 403},
		{"x.ops.example.com", "", 403},
		{"notlocalhost", "", 403},
		{"127.0.0.1.evil.example", "", 403},
		{"0.0.0.0:8080", "127.0.0.1:8080", 403},
		{"[2001:db8::6]", "", 403},
		{"2130706433", "", 403},
		{"", "", 403},
	}
	for _, test := range tests {
		changes := []change{host(test.host)}
		if test.at != "" {
			changes = append(changes, at(test.at))
		}
		if got := do(h, "GET", "/", changes...); got.Code != test.want {
			t.Errorf("Host %q at %q: %d, want %d", test.host, test.at, got.Code, test.want)
		}
	}
	if !strings.Contains(log.String(), "reason=foreign_host") {
		t.Errorf("log %q, want the refusals", log)
	}
}

func TestHeaders(t *testing.T) {
	h, _ := front(t)
	want := map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		"Cache-Control":              "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": web.StrictPolicy,
	}
	for name, got := range map[string]*httptest.ResponseRecorder{
		"a page": do(h, "GET", "/"), "missing": do(h, "GET", "/missing"), "refused": do(h, "GET", "/", host("evil.example")),
		"open": do(h, "GET", "/open"),
	} {
		has := map[string]string{}
		for header := range want {
			has[header] = got.Header().Get(header)
		}
		if diff := cmp.Diff(want, has); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRequestIDs checks that a client's id is kept if it can be logged.
func TestRequestIDs(t *testing.T) {
	h, log := front(t, func(f *web.Front) { f.Pages = false })
	var ours []string
	for _, given := range []string{"req-1.A_b", "", "has blank", "x\"y", strings.Repeat("x", 65)} {
		id := do(h, "GET", "/", with("X-Request-Id", given)).Header().Get("X-Request-Id")
		if kept := id == given; kept != (given == "req-1.A_b") || id == "" || slices.Contains(ours, id) ||
			!strings.Contains(log.String(), "request_id="+id) {
			t.Errorf("for %q the id is %q; log %q", given, id, log)
		}
		ours = append(ours, id)
	}
}

func TestPanic(t *testing.T) {
	h, log := front(t)
	if got := do(h, "GET", "/panic"); got.Code != 500 || strings.Contains(got.Body.String(), "broken") {
		t.Errorf("%d %q, want 500 without the reason", got.Code, got.Body)
	}
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Error("an answer that is incomplete was not cut off")
			}
		}()
		do(h, "GET", "/cut")
	}()
	if n := strings.Count(log.String(), "panic=broken"); n != 2 || strings.Count(log.String(), "msg=request") != 2 {
		t.Errorf("log %q, want both with their requests", log)
	}
}

func TestLimits(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	h, _ := front(t, func(f *web.Front) {
		f.Limit = 1
		f.Routes = append(f.Routes, web.Route{Pattern: "GET /wait", Roles: []web.Role{web.Reader},
			Serve: func(http.ResponseWriter, *http.Request) {
				close(entered)
				<-release
			}})
	})
	ended := make(chan struct{})
	go func() { do(h, "GET", "/wait"); close(ended) }()
	<-entered
	if got := do(h, "GET", "/"); got.Code != 503 || got.Header().Get("Retry-After") != "5" {
		t.Errorf("one more request: %d, want 503", got.Code)
	}
	if got := do(h, "GET", "/open"); got.Code != 200 {
		t.Errorf("an open route: %d, want 200", got.Code)
	}
	close(release)
	<-ended
	own := with("Origin", "http://127.0.0.1:8080")
	large := func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 2<<10))) }
	if got := do(h, "POST", "/read", own, large); got.Code != 200 {
		t.Errorf("more than MaxBody was read: %d", got.Code)
	}
}

// deadlines records the deadlines that are set on an answer.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { d.read = append(d.read, at); return nil }
func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = append(d.write, at); return nil }

// TestDeadlines checks that a request has to arrive in time, that a handler may take its time
// before it answers, and that each write has a time of its own.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := front(t, func(f *web.Front) {
			f.Patience = 10 * time.Second
			f.Routes = append(f.Routes, web.Route{Pattern: "GET /slow", Roles: []web.Role{web.Reader},
				Serve: func(w http.ResponseWriter, _ *http.Request) {
					for range 2 {
						time.Sleep(time.Hour)
						_, _ = io.WriteString(w, "part")
					}
				}})
		})
		start := time.Now()
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("GET", "/slow", nil)
		r.Host = "localhost"
		h.ServeHTTP(w, r)
		const patience = 10 * time.Second
		if diff := cmp.Diff([]time.Time{start.Add(patience)}, w.read); diff != "" {
			t.Errorf("for reading (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Time{{}, start.Add(time.Hour + patience), start.Add(2*time.Hour + patience)},
			w.write); diff != "" {
			t.Errorf("for writing (-want +got):\n%s", diff)
		}
	})
}

// raw sends a request to a server as it is, and returns the answer.
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

// TestMalformedRequests checks that requests which proxies and servers could parse differently are
// refused, and that their connection is closed.
func TestMalformedRequests(t *testing.T) {
	h, _ := front(t)
	addr, _ := serve(t, h)
	const hidden = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
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
		answer := raw(t, addr, head+hidden)
		status, _, _ := strings.Cut(answer, "\r\n")
		if !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.1 5") ||
			strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %q, want one refusal", name, answer)
		}
	}
}

// TestTLSOfPages checks HTTP/2 and Strict-Transport-Security. The header is not sent for localhost,
// where it would apply to every port.
func TestTLSOfPages(t *testing.T) {
	own := httptest.NewUnstartedServer(nil) // for its certificate
	own.StartTLS()
	certificate := &tls.Config{Certificates: own.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	pool := x509.NewCertPool()
	pool.AddCert(own.Certificate())
	own.Close()
	h, _ := front(t, func(f *web.Front) { f.Hosts = []string{"ops.example.com"} })
	url, _, stop, err := web.Serve(t.Context(), "127.0.0.1:0", certificate, h, quiet)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	got := map[string]string{}
	for _, name := range []string{"ops.example.com", "localhost", "127.0.0.1", "evil.example"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got[name] = resp.Proto + " " + resp.Header.Get("Strict-Transport-Security")
	}
	want := map[string]string{"ops.example.com": "HTTP/2.0 max-age=31536000", "localhost": "HTTP/2.0 ",
		"127.0.0.1": "HTTP/2.0 ", "evil.example": "HTTP/2.0 max-age=31536000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("protocol and header (-want +got):\n%s", diff)
	}
	if answer := raw(t, strings.TrimPrefix(url, "https://"),
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.0 400") {
		t.Errorf("without TLS: %q, want 400", answer)
	}
	transport.CloseIdleConnections()
	if err := stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
