package console_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/console"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
	"orgops/tasks"
)

// access returns an access file with those users, and their tokens by name.
func access(t *testing.T, users ...web.User) (*web.Access, map[string]string) {
	t.Helper()
	text, tokens := "", map[string]string{}
	for _, u := range users {
		token, entry, err := web.NewEntry(u)
		mustNot(t, err)
		text, tokens[u.Name] = text+entry, token
	}
	file := filepath.Join(t.TempDir(), "access.yaml")
	mustNot(t, os.WriteFile(file, []byte(text), 0o600))
	all, err := web.ReadAccess(file, slog.New(slog.DiscardHandler), time.Now)
	mustNot(t, err)
	return all, tokens
}

func basic(token string) change { return func(r *http.Request) { r.SetBasicAuth("any", token) } }

// TestRolesOfRoutes checks every route with a token of every role, and without one.
func TestRolesOfRoutes(t *testing.T) {
	const readers, finders, all = "reader operator", "support operator", "reader support operator"
	want := map[string]string{ // the roles that may use a route
		"GET /static/{file}":          all,
		"GET /{$}":                    all,
		"GET /domains":                all,
		"POST /domains/check":         finders,
		"POST /domains/link":          finders,
		"GET /tenants":                readers,
		"POST /tenants/stop":          "operator",
		"POST /tenants/start":         "operator",
		"POST /webhooks/resend":       "operator",
		"GET /runs":                   readers,
		"GET /runs/{id}":              readers,
		"GET /runs/{id}/failed":       readers,
		"POST /runs/{id}/pause":       "operator",
		"POST /runs/{id}/resume":      "operator",
		"POST /runs/{id}/cancel":      "operator",
		"GET /runs/{id}/rows":         readers,
		"POST /runs/{id}/retry":       "operator",
		"POST /runs/{id}/check":       "operator",
		"POST /runs/{id}/everywhere":  "operator",
		"POST /clients/list":          "operator",
		"POST /sweeps":                "operator",
		"GET /monitor/orgops/waiting": readers,
		"/monitor/":                   readers,
		"GET /activity":               readers,
		"GET /search":                 all,
		"GET /selection":              "operator",
		"POST /selection":             "operator",
	}
	var users []web.User
	for _, role := range web.Roles {
		u := web.User{Name: string(role), Role: role, Tenants: []string{"*"}}
		switch role {
		case web.Submitter:
			u.Kinds = []string{"*"}
		case web.Customer:
			u.Organizations = []string{"org_1"}
		}
		users = append(users, u)
	}
	file, tokens := access(t, users...)
	d := newDesk(t)
	config := console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.DiscardHandler)}
	h := console.Pages(config)
	for _, route := range console.Routes(config) {
		roles, listed := want[route.Pattern]
		if !listed {
			t.Errorf("%s is not in the table", route.Pattern)
		}
		delete(want, route.Pattern)
		method, path, found := strings.Cut(route.Pattern, " ")
		if !found {
			method, path = http.MethodGet, route.Pattern
		}
		path = strings.NewReplacer("{id}", "a", "{file}", "ops.css", "{$}", "").Replace(path)
		if w := do(h, method, path, nil); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d, want 401", route.Pattern, w.Code)
		}
		for role, token := range tokens {
			w := do(h, method, path, nil, basic(token))
			if may := strings.Contains(roles, role); may == (w.Code == http.StatusForbidden) {
				t.Errorf("%s by the role %s: %d, want it allowed: %v", route.Pattern, role, w.Code, may)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no routes %v", want)
	}
	for _, path := range []string{"/missing", "/healthz", "/metrics", "/monitor", "/static/", "/templates/layout.html"} {
		if w := do(h, http.MethodGet, path, nil); w.Code != http.StatusUnauthorized {
			t.Errorf("GET %s without a token: %d, want 401", path, w.Code)
		}
	}
}

// TestTenantsOfAUser checks that a user sees and changes the tenants of their entry only, and that
// a user of support finds the domains of their organizations only.
func TestTenantsOfAUser(t *testing.T) {
	d := newDesk(t)
	d.handIn("mine", tasks.TypeVerify, domains(3))
	knows(t, d.ledger, "mine", "org_0", "dom_0", "zero.example")
	knows(t, d.ledger, "mine", "org_1", "dom_1", "one.example")
	in := strings.NewReader("organization_id,discovery_domain_id\norg_9,dom_9\n")
	_, err := d.taker.Submit(t.Context(), intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: in},
		ledger.NewRun{ID: "theirs", Tenant: "other"})
	mustNot(t, err)
	file, tokens := access(t,
		web.User{Name: "olga", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Operator, Tenants: []string{"*"}},
		web.User{Name: "desk", Role: web.Support, Tenants: []string{"default"}, Organizations: []string{"org_1"}},
	)
	var log bytes.Buffer
	h := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	get := func(user, path string) *httptest.ResponseRecorder {
		return do(h, http.MethodGet, path, nil, basic(tokens[user]))
	}

	for user, sees := range map[string]bool{"olga": false, "all": true} {
		for _, path := range []string{"/", "/runs", "/runs?tenant=other", "/tenants"} {
			code := http.StatusOK
			if !sees && strings.HasPrefix(path, "/runs?") {
				code = http.StatusNotFound
			}
			if w := get(user, path); w.Code != code ||
				strings.Contains(w.Body.String(), `id="run-theirs"`) != (sees && strings.HasPrefix(path, "/runs")) ||
				strings.Contains(w.Body.String(), "/tenants?tenant=other") != (sees && !strings.HasPrefix(path, "/runs")) ||
				strings.Contains(w.Body.String(), `id="tenant-other"`) != (sees && path == "/") {
				t.Errorf("%s sees the other tenant on %s, or does not: %d\n%s", user, path, w.Code, plain(w.Body.String()))
			}
		}
		want := map[bool]int{true: 200, false: 404}[sees]
		for path, code := range map[string]int{"/runs/theirs": want, "/runs/theirs/failed": want,
			"/monitor/": map[bool]int{true: 200, false: 403}[sees]} {
			if w := get(user, path); w.Code != code {
				t.Errorf("%s: GET %s: %d, want %d", user, path, w.Code, code)
			}
		}
		w := do(h, http.MethodPost, "/runs/theirs/pause", url.Values{}, basic(tokens[user]))
		if page := get(user, w.Header().Get("Location")); page.Code != want {
			t.Errorf("%s pauses the run: %d, then %d, want %d", user, w.Code, page.Code, want)
		}
		if got := d.run("theirs").Paused; got != sees {
			t.Errorf("after %s the run is paused: %v", user, got)
		}
		mustNot(t, ledgertest.Control(t.Context(), d.ledger, (*ledger.Ledger).Resume, "theirs"))
	}
	before := d.run("theirs")
	for path, form := range map[string]url.Values{
		"/tenants/stop": {"tenant": {"other"}}, "/tenants/start": {"tenant": {"other"}}, "/sweeps": {"tenant": {"other"}},
		"/clients/list": {"tenant": {"other"}, "client": {"client_1"}},
	} {
		w := do(h, http.MethodPost, path, form, basic(tokens["olga"]))
		if page := get("olga", w.Header().Get("Location")).Body.String(); w.Code != 303 ||
			!strings.Contains(page, "Not done: there is no tenant other, or your access does not include it") {
			t.Errorf("%s: %d: %s", path, w.Code, plain(page))
		}
	}
	if after := d.run("theirs"); after.Paused != before.Paused ||
		strings.Contains(log.String(), "operator action done") != strings.Contains(log.String(), "user=all") {
		t.Errorf("the other tenant was changed: %s", &log)
	}
	for query, want := range map[string]int{
		"tenant=default&organization=org_1&domain=dom_1": 200, // of org_1
		"tenant=default&domain=dom_1":                    200,
		"tenant=default&organization=org_0&domain=dom_0": 404,
		"tenant=default&domain=dom_0":                    400, // as if it did not exist
		"tenant=other&domain=dom_9":                      404,
	} {
		if w := get("desk", "/domains?"+query); w.Code != want {
			t.Errorf("desk, %s: %d, want %d: %s", query, w.Code, want, plain(w.Body.String()))
		}
	}
	if w := get("desk", "/"); w.Header().Get("Location") != "/domains" {
		t.Errorf("desk is led to %s", w.Header().Get("Location"))
	}
}

// TestActionsNameTheUser checks that log and history name who acted.
func TestActionsNameTheUser(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(3))
	file, tokens := access(t, web.User{Name: "ada", Role: web.Operator, Tenants: []string{"*"}})
	var log bytes.Buffer
	d.pages = console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	do(d.pages, http.MethodPost, "/runs/a/cancel", url.Values{}, basic(tokens["ada"]))
	for _, want := range []string{`action=cancel of="run default/a" user=ada result="run a: cancelled; rows that were open: 3"`,
		`route="POST /runs/{id}/cancel" status=303`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log: %s", want, &log)
		}
	}
	page := plain(do(d.pages, http.MethodGet, "/runs/a", nil, basic(tokens["ada"])).Body.String())
	if _, acts, _ := strings.Cut(page, "Time line"); !strings.Contains(acts, " UTC cancelled by ada") {
		t.Errorf("the page of the run does not say who cancelled it: %s", page)
	}
	do(d.pages, http.MethodPost, "/tenants/stop", url.Values{"tenant": {"default"}}, basic(tokens["ada"]))
	page = plain(do(d.pages, http.MethodGet, "/activity", nil, basic(tokens["ada"])).Body.String())
	if !strings.Contains(page, "default ada stopped") {
		t.Errorf("the activity does not say who stopped the tenant: %s", page)
	}
	log.Reset()
	do(d.pages, http.MethodPost, "/monitor/api/queues/x%0aevil:pause", nil, basic(tokens["ada"]))
	if text := log.String(); !strings.Contains(text, "user=ada") || !strings.Contains(text, "queue changed by hand") ||
		strings.Count(text, "\n") != 2 {
		t.Errorf("log %q, want two lines of the action", text)
	}
	log.Reset()
	do(d.pages, http.MethodGet, "/runs", nil, basic(tokens["ada"]))
	if log.Len() > 0 {
		t.Errorf("a read is logged: %s", &log)
	}
}

// TestTraversal checks that no form of path serves other files than those of static/.
func TestTraversal(t *testing.T) {
	h := newPages(t)
	for _, path := range []string{
		"/static/../guard.go", "/static/../../../../etc/passwd", "/static/%2e%2e/site.go", "/static/..%2fsite.go",
		"/static/%2e%2e%2fsite.go",
		"/static/%252e%252e%252fsite.go", `/static/..\site.go`, "/static/..%5csite.go", "/static/....//site.go",
		"/static//etc/passwd", "/static/%00", "/static/ops.css%00.html",
		"/monitor/../../../../etc/passwd", "/monitor/%2e%2e/%2e%2e/etc/passwd", "/monitor/static/%2e%2e/%2e%2e/index.html",
		"/monitor/static/..%2f..%2f..%2fetc%2fpasswd", `/monitor/static/..\..\etc\passwd`,
		"//evil.example/", "/%2f%2fevil.example", `/\evil.example`, "/templates/layout.html",
		"/static/../templates/layout.html", "/static/", "/monitor/static/js/none.js", "/monitor/etc/passwd",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		u, err := url.ParseRequestURI(path)
		mustNot(t, err)
		r.URL, r.RequestURI, r.Host = u, path, "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body := w.Body.String()
		if strings.Contains(body, "root:") || strings.Contains(body, "package console") || strings.Contains(body, "{{") {
			t.Errorf("%s: served %.100q", path, body)
		}
		if to := w.Header().Get("Location"); strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) ||
			strings.Contains(to, "://") {
			t.Errorf("%s: led to %s", path, to)
		}
		if w.Code < 300 {
			t.Errorf("%s: %d with %.100q", path, w.Code, body)
		}
	}
}

// TestRunOfTwoTenants: where two tenants have a run of an id the address names one of them, also in
// the actions of its page. A user of one tenant needs no choice, and learns of no other.
func TestRunOfTwoTenants(t *testing.T) {
	d := newDesk(t)
	for _, tenant := range []ledger.Tenant{"acme", "default"} {
		in := intake.Input{Name: "rows", Kind: tasks.TypeVerify, Rows: strings.NewReader(domains(3))}
		if _, err := d.taker.Submit(t.Context(), in, ledger.NewRun{ID: "nightly", Tenant: tenant}); err != nil {
			t.Fatal(err)
		}
	}
	if w := do(d.pages, http.MethodGet, "/runs/nightly", nil); w.Code != http.StatusConflict ||
		!strings.Contains(plain(w.Body.String()), "/runs/nightly?tenant=acme, /runs/nightly?tenant=default") {
		t.Errorf("without a tenant: %d: %s", w.Code, plain(w.Body.String()))
	}
	for _, none := range []string{"other", "No%20Tenant"} {
		if w := do(d.pages, http.MethodGet, "/runs/nightly?tenant="+none, nil); w.Code != http.StatusNotFound {
			t.Errorf("tenant %s: %d, want 404", none, w.Code)
		}
	}
	if page := d.get("/runs/nightly?tenant=acme"); !strings.Contains(page, `action="/runs/nightly/pause?tenant=acme"`) {
		t.Errorf("the page's action names no tenant: %s", page)
	}
	d.post("/runs/nightly/pause?tenant=acme", url.Values{})
	for tenant, paused := range map[ledger.Tenant]bool{"acme": true, "default": false} {
		if run, err := d.ledger.Get(t.Context(), tenant, "nightly"); err != nil || run.Paused != paused {
			t.Errorf("the run of %s: paused %v, %v; want %v", tenant, run.Paused, err, paused)
		}
	}
	file, tokens := access(t, web.User{Name: "ada", Role: web.Operator, Tenants: []string{"acme"}})
	pages := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Intake: d.taker, Access: file})
	if w := do(pages, http.MethodGet, "/runs/nightly", nil, basic(tokens["ada"])); w.Code != http.StatusOK ||
		strings.Contains(w.Body.String(), "default") {
		t.Errorf("a user of one tenant: %d: %s", w.Code, plain(w.Body.String()))
	}
}
