package httpapi_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/web"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		method, path string
		status       int
		problem      string
		allow        string
	}{
		{"GET", "/", 404, "not-found", ""},
		{"GET", "/v2/runs", 404, "not-found", ""},
		{"GET", "/v1/runs/a/b/c", 404, "not-found", ""},
		{"GET", "//v1/runs", 404, "not-found", ""},
		{"GET", "/v1//runs", 404, "not-found", ""},
		{"POST", "/v1/../v1/runs/domain:verify", 404, "not-found", ""},
		{"GET", "/v1/runs/", 404, "not-found", ""},
		{"POST", "/v1/runs", 405, "method-not-allowed", "GET, HEAD"},
		{"DELETE", "/v1/runs/a", 405, "method-not-allowed", "GET, HEAD, POST"},
		{"GET", "/v1/runs/a/cancel", 405, "method-not-allowed", "POST"},
		{"BREW", "/healthz", 405, "method-not-allowed", "GET, HEAD"},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			got := w.do(call{method: test.method, path: test.path, token: billing})
			got.want(t, test.status, test.problem)
			if got.Header.Get("Allow") != test.allow {
				t.Errorf("Allow %q, want %q", got.Header.Get("Allow"), test.allow)
			}
		})
	}
}

// TestLog holds what a request leaves in the log, and what it does not.
func TestLog(t *testing.T) {
	w := newWorld(t)
	const secret = "hunter2"
	got := w.do(call{
		method: "POST", path: "/v1/runs/domain:verify?label=" + secret, token: billing, key: secret, body: rows(1),
		header: http.Header{"X-Request-Id": {"the-request"}},
	})
	got.want(t, 202, "")
	w.do(call{path: "/" + secret + "?token=" + secret, token: billing}).want(t, 404, "not-found")
	w.do(call{path: "/v1/runs/x?" + secret + "=1", token: billing}).want(t, 400, "bad-request")
	w.eventually(func() bool { return strings.Count(w.log.String(), "msg=request ") == 3 })
	text := w.log.String()
	for _, want := range []string{`request_id=the-request method=POST route="POST /v1/runs/{run}" status=202`,
		"user=billing", "run=" + got.run(t).Run, "problem=not-found"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	for _, not := range []string{secret, billing, "org_0000000000000000"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in the log:\n%s", not, text)
		}
	}
}

func TestRequestsAtOnce(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.Requests = 1 })
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	w.do(call{path: "/v1/runs", token: billing}).want(t, 429, "busy")
	w.do(call{path: "/v1/runs", token: crm}).want(t, 503, "busy")
	w.do(call{path: "/healthz"}).want(t, 200, "")
	u.answer().want(t, 202, "")
}

// TestStop holds that a request under way finishes, and a new one is not begun.
func TestStop(t *testing.T) {
	w := newWorld(t)
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.stop()
	}()
	w.eventually(func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	u.send("org_1,ord_1\n")
	got := u.answer()
	got.want(t, 202, "")
	<-stopped
	if r, err := w.ledger.Get(t.Context(), "", ledger.RunID(got.run(t).Run)); err != nil || r.Total() != manyRows+1 {
		t.Errorf("run %+v, %v; want %d rows", r, err, manyRows+1)
	}
}

// TestStopCutsOff holds that a request which does not end does not keep the
// server, and leaves nothing.
func TestStopCutsOff(t *testing.T) {
	w := newWorld(t)
	w.patience = time.Millisecond
	u := w.upload("k").send(rows(manyRows))
	u.stored(1)
	w.stop()
	w.noRuns()
	u.cut()
	<-u.ended
	if u.err == nil {
		t.Errorf("it was answered: %d %s", u.got.StatusCode, u.got.body)
	}
	w.start()
	if r := w.wholeRun(w.submit("k", rows(manyRows)).Run); r.Total() != manyRows {
		t.Errorf("run %+v; want %d rows", r, manyRows)
	}
}

// newCertificate returns a configuration with a certificate for 127.0.0.1.
func newCertificate(*testing.T) (*tls.Config, *x509.Certificate) {
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	defer own.Close()
	return &tls.Config{Certificates: own.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}, own.Certificate()
}

// overTLS ends the server and starts one with TLS.
func (w *world) overTLS(config *tls.Config, root *x509.Certificate) {
	w.t.Helper()
	w.stop()
	w.run(config)
	w.trust(root)
}

// trust has the client trust a certificate alone.
func (w *world) trust(root *x509.Certificate) {
	pool := x509.NewCertPool()
	pool.AddCert(root)
	w.client.CloseIdleConnections()
	w.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
}

// TestManyCallersConcurrently has many callers do everything at once, for the race detector.
func TestManyCallersConcurrently(t *testing.T) {
	w := newWorld(t)
	var callers sync.WaitGroup
	for i := range 6 {
		callers.Go(func() {
			run := w.submit(fmt.Sprint("k", i), rows(5))
			w.wholeRun(run.Run)
			w.settle(run.Run, "done", "", 0, 1)
			w.do(call{path: "/v1/runs", token: billing}).want(t, 200, "")
			w.do(call{path: "/v1/runs/" + run.Run + "/failed", token: billing}).want(t, 200, "")
			w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/cancel", token: billing}).want(t, 200, "")
			w.do(call{path: "/v1/runs/" + run.Run + "/events", token: billing}).want(t, 200, "")
			w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/retry", token: billing,
				key: fmt.Sprint("r", i)}).want(t, 202, "")
		})
	}
	callers.Wait()
	all, _, err := w.ledger.Page(t.Context(),
		ledger.Query{Match: func(r ledger.Run) bool { return r.Caller == "billing" }, Limit: 100})
	if err != nil || len(all) != 12 {
		t.Errorf("%d runs, %v; want 12", len(all), err)
	}
}

// TestRolesOfRoutes checks every route with a token of every role, and without one.
func TestRolesOfRoutes(t *testing.T) {
	want := map[string]string{ // the roles that may use a route; "*": everybody, without a token
		"POST /v1/runs/{run}":         "submitter",
		"GET /v1/runs":                "submitter",
		"GET /v1/runs/{run}":          "submitter",
		"GET /v1/runs/{run}/rows":     "submitter",
		"GET /v1/runs/{run}/failed":   "submitter",
		"GET /v1/runs/{run}/events":   "submitter",
		"POST /v1/runs/{run}/cancel":  "submitter",
		"POST /v1/runs/{run}/retry":   "submitter",
		"GET /v1/domains":             "reader support operator submitter customer",
		"GET /v1/domains/{id}":        "reader support operator submitter customer",
		"POST /v1/domains/{id}/check": "support operator submitter customer",

		"POST /v1/domains/{id}/links":   "support operator customer",
		"DELETE /v1/domains/{id}/links": "support operator customer",

		"GET /v1/openapi.yaml": "*",
		"GET /v1/openapi.json": "*",
		"GET /healthz":         "*",
	}
	file, tokens := "", map[web.Role]string{}
	for _, role := range web.Roles {
		u := web.User{Name: "the-" + string(role), Role: role, Tenants: []string{"*"}}
		switch role {
		case web.Submitter:
			u.Kinds = []string{"*"}
		case web.Customer:
			u.Organizations = []string{"org_1"}
		}
		token, entry, err := web.NewEntry(u)
		if err != nil {
			t.Fatal(err)
		}
		file, tokens[role] = file+entry, token
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Access = access(t, file) })
	for _, route := range httpapi.Routes() {
		roles, listed := want[route.Pattern]
		if !listed {
			t.Errorf("%s is not in the table", route.Pattern)
		}
		delete(want, route.Pattern)
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = strings.NewReplacer("{run}", "x", "{id}", "x").Replace(path)
		got := w.do(call{method: method, path: path})
		if open := got.StatusCode == http.StatusOK; open != (roles == "*") ||
			!open && got.Header.Get("WWW-Authenticate") != `Bearer realm="orgops"` {
			t.Errorf("%s without a token: %d, %v", route.Pattern, got.StatusCode, got.Header)
		}
		for role, token := range tokens {
			got := w.do(call{method: method, path: path, token: token})
			if may := roles == "*" || strings.Contains(roles, string(role)); may == (got.StatusCode == http.StatusForbidden) {
				t.Errorf("%s by the role %s: %d, want it allowed: %v", route.Pattern, role, got.StatusCode, may)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no routes %v", want)
	}
}

// TestCallers checks that a token is limited to its kinds and tenants.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, path string
		status     int
		detail     string
	}{
		{"its kind, its tenant", "/v1/runs/domain:verify?tenant=acme", 202, ""},
		{"its only tenant by default", "/v1/runs/domain:verify", 202, `"tenant":"acme"`},
		{"another kind", "/v1/runs/domain:update", 403, "domain:update"},
		{"another tenant", "/v1/runs/domain:verify?tenant=default", 403, "default"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := w.do(call{method: "POST", path: test.path, token: crm, key: fmt.Sprint("k", i), body: rows(1)})
			got.want(t, test.status, map[int]string{403: "not-allowed"}[test.status])
			if !strings.Contains(got.body, test.detail) {
				t.Errorf("%q is not in %s", test.detail, got.body)
			}
		})
	}
	if text := w.log.String(); strings.Contains(text, "orgops_") {
		t.Error("a token is in the log")
	}
}

// TestScope checks that a run is only its caller's.
func TestScope(t *testing.T) {
	w := newWorld(t)
	run := w.submit("k", rows(1))
	w.wholeRun(run.Run)
	for path, method := range map[string]string{"": "GET", "/failed": "GET", "/events": "GET",
		"/cancel": "POST", "/retry": "POST"} {
		w.do(call{method: method, path: "/v1/runs/" + run.Run + path, token: crm, key: "k"}).want(t, 404, "not-found")
	}
	if got := w.do(call{path: "/v1/runs", token: crm}); got.body != `{"runs":[]}`+"\n" {
		t.Errorf("crm sees %s", got.body)
	}
	if r := w.wholeRun(run.Run); r.Ended() {
		t.Errorf("run %+v was cancelled by another", r)
	}
	w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/cancel", token: billing}).want(t, 200, "")
	w.do(call{method: "POST", path: "/v1/runs/" + run.Run + "/retry", token: billing, key: "r"}).want(t, 202, "")
	var did []string
	q := activity.Query{Tenants: []string{"default"}, Run: run.Run, Limit: 10}
	all, _, err := activity.Page(t.Context(), w.rdb, q)
	for _, e := range all {
		did = append(did, e.Who()+": "+string(e.Action))
	}
	want := []string{"billing: retried", "billing: cancelled", "billing: submitted"}
	if diff := cmp.Diff(want, did); diff != "" || err != nil {
		t.Errorf("%v; who did what (-want +got):\n%s", err, diff)
	}
}

// TestSubmittersSeeNoOperators checks that no answer names who acted on a run, or stopped its
// tenant.
func TestSubmittersSeeNoOperators(t *testing.T) {
	w := newWorld(t)
	const operator = "olga@desk"
	run := w.submit("k", rows(1)).Run
	by := activity.Author{Redis: w.rdb, Name: operator}
	if _, err := actions.Pause(t.Context(), by, w.ledger, w.wholeRun(run)); err != nil {
		t.Fatal(err)
	}
	if _, err := pace.New(pace.Config{Redis: w.rdb, Tenant: "default"}).Stop(t.Context(), operator,
		"asked by "+operator); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		{path: "/v1/runs"}, {path: "/v1/runs/" + run}, {method: "POST", path: "/v1/runs/domain:verify",
			key: "k", body: rows(1)},
		{method: "POST", path: "/v1/runs/" + run + "/cancel"}, {path: "/v1/runs/" + run + "/events"},
		{path: "/v1/runs/" + run + "/failed"},
	} {
		c.token = billing
		if got := w.do(c); got.StatusCode >= 300 || strings.Contains(got.body, operator) ||
			strings.Contains(got.body, "obstacles") {
			t.Errorf("%s %s: status %d: %s", c.method, c.path, got.StatusCode, got.body)
		}
	}
	details, err := status.DetailsOf(t.Context(), w.rdb, w.ledger, w.wholeRun(run), 1)
	if err != nil || len(details.Activity) != 3 || details.Activity[1].By != operator {
		t.Errorf("operators see %+v, %v; want %s in the activity", details.Activity, err, operator)
	}
}

// TestOrganizations checks that rows of other organizations are bad, also in a retry, and so are
// rows of none.
func TestOrganizations(t *testing.T) {
	w := newWorld(t)
	const header = "organization_id,client_id\n"
	got := w.do(call{method: "POST", path: "/v1/runs/clients:remove", token: few, key: "a",
		body: header + "org_1,c\norg_3,c\n"})
	got.want(t, 422, "bad-rows")
	if !strings.Contains(got.body, `\"org_3\" is not one of those`) || strings.Contains(got.body, "org_1") {
		t.Errorf("%s, want the row of org_3", got.body)
	}
	got = w.do(call{method: "POST", path: "/v1/runs/clients:remove?skip_invalid=1", token: few, key: "b",
		body: header + "org_1,c\norg_3,c\norg_2,c\n"})
	got.want(t, 202, "")
	if run := got.run(t); run.Counts["invalid"] != 1 || *run.Rows != 3 {
		t.Errorf("run %+v, want one invalid row of 3", run)
	}
	earlier := got.run(t).Run
	got = w.do(call{method: "POST", path: "/v1/runs/template:create", token: few, key: "c", body: `{"name":"x"}` + "\n"})
	got.want(t, 422, "bad-rows")

	w.config.Access = access(t, strings.ReplaceAll(accessFile, "[org_1, org_2]", "[org_1, org_4]"))
	w.stop()
	w.start()
	// The run has a row of org_2, which is no longer the caller's.
	if left := w.do(call{path: "/v1/runs", token: few}).runs(t); len(left) > 0 {
		t.Errorf("runs %+v, want none", left)
	}
	w.do(call{method: "POST", path: "/v1/runs/" + earlier + "/retry", token: few, key: "d"}).want(t, 404, "not-found")
}

// TestRowsADay checks that each run counts once, that nothing is submitted of one that has too many
// rows, and that others are not counted.
func TestRowsADay(t *testing.T) {
	w := newWorld(t)
	w.kind = "clients:remove"
	of := func(n int) string {
		var b strings.Builder
		b.WriteString("organization_id,client_id\n")
		for i := range n {
			fmt.Fprintf(&b, "org_1,c%d\n", i)
		}
		return b.String()
	}
	submit := func(key string, rows int) response {
		return w.do(call{method: "POST", path: "/v1/runs/clients:remove", token: few, key: key, body: of(rows)})
	}
	submit("a", 7).want(t, 202, "")
	submit("a", 7).want(t, 202, "") // the same run
	got := submit("b", 4)
	got.want(t, 429, "rows-a-day")
	if after, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || after < 1 || after > 24*60*60+1 ||
		!strings.Contains(got.body, "1 too many") {
		t.Errorf("Retry-After %q, %s; want the time until midnight", got.Header.Get("Retry-After"), got.body)
	}
	submit("b", 3).want(t, 202, "") // its rows were deleted, so other ones may come
	submit("c", 1).want(t, 429, "rows-a-day")
	submit("d", 11).want(t, 429, "rows-a-day")
	w.submit("e", of(20))
	if runs := w.do(call{path: "/v1/runs", token: few}).runs(t); len(runs) != 2 {
		t.Errorf("runs %+v, want the two that were accepted", runs)
	}
}

// TestWithoutAccess tests a server without authentication.
func TestWithoutAccess(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Access = nil })
	w.do(call{method: "POST", path: "/v1/runs/clients:remove?tenant=any", key: "k",
		body: "organization_id,client_id\norg_0000000000000000,client-1\n"}).want(t, 202, "")
	for name, change := range map[string]func(r *http.Request){
		"by another name":   func(r *http.Request) { r.Host = "evil.example" },
		"from another site": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
	} {
		t.Run(name, func(t *testing.T) {
			r := w.request(call{method: "POST", path: "/v1/runs/x/cancel"})
			change(r)
			got, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			w.read(r, got).want(t, 403, "not-allowed")
		})
	}
}
