package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
	"orgops/internal/customer"
	"orgops/internal/discovery"
	"orgops/internal/httpapi"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
)

// Tokens of readers of domains.
var (
	one       = "orgops_" + strings.Repeat("1", 64) // the customer of organization org_1
	two       = "orgops_" + strings.Repeat("2", 64) // the customer of two organizations
	desk      = "orgops_" + strings.Repeat("d", 64)
	reader    = "orgops_" + strings.Repeat("e", 64)
	everybody = "orgops_" + strings.Repeat("a", 64)
)

var domainAccess = fmt.Sprintf(`
- {name: one, sha256: %s, role: customer, tenants: [acme], organizations: [org_1]}
- {name: two, sha256: %s, role: customer, tenants: [acme], organizations: [org_1, org_2]}
- {name: desk, sha256: %s, role: support, tenants: [acme, other]}
- {name: reader, sha256: %s, role: reader, tenants: [acme]}
- {name: everybody, sha256: %s, role: operator, tenants: ["*"]}
`, hashOf(one), hashOf(two), hashOf(desk), hashOf(reader), hashOf(everybody))

// domainWorld is a world with domains of the tenant acme.
func domainWorld(t *testing.T) *world {
	return newWorld(t, func(c *httpapi.Config) { c.Access = access(t, domainAccess) })
}

// waits has a run with a row of each domain, which waits for an hour. Each domain is organization,
// id and name.
func (w *world) waits(run ledger.RunID, domains ...[3]string) ledger.Segment {
	w.t.Helper()
	return w.waitsOf("acme", run, domains...)
}

// waitsOf is waits for a run of a tenant.
func (w *world) waitsOf(tenant ledger.Tenant, run ledger.RunID, domains ...[3]string) ledger.Segment {
	w.t.Helper()
	var rows []string
	for _, d := range domains {
		rows = append(rows, fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":%q}`, d[0], d[1]))
	}
	ledgertest.Submit(w.t, w.ledger, ledger.NewRun{ID: run, Tenant: tenant,
		Description: ledger.Description{Format: "jsonl"}}, rows...)
	seg, nonce, begun := ledgertest.Begin(w.t, w.ledger, string(run), len(domains))
	var ends []ledger.RowEnd
	for i, d := range domains {
		k := index.Entry{Domain: discovery.Domain{OrganizationID: d[0], ID: d[1], Name: d[2], Host: "_v." + d[2],
			TXT: "token", Status: schema.StatusPending}, Read: time.Now(), At: time.Now(), State: "absent",
			Next: time.Now().Add(time.Hour),
			Run:  run, Row: begun[i]}
		ends = append(ends, ledger.RowEnd{Row: begun[i], Subject: k.Subject(),
			Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}})
	}
	if _, err := w.ledger.End(w.t.Context(), seg, nonce, ends...); err != nil {
		w.t.Fatal(err)
	}
	return seg
}

func (r response) domains(t *testing.T) (ids []string, prefix, more bool) {
	t.Helper()
	var got struct {
		Domains []struct {
			ID string `json:"discovery_domain_id"`
		}
		Prefix, More bool
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatal(err)
	}
	for _, d := range got.Domains {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids, got.Prefix, got.More
}

func TestFindDomains(t *testing.T) {
	w := domainWorld(t)
	w.waits("a", [3]string{"org_1", "ord_1", "acme.example"}, [3]string{"org_2", "ord_2", "acme.example"},
		[3]string{"org_3", "ord_3", "acme.example"}, [3]string{"org_1", "ord_4", "xn--bcher-kva.example"})
	w.waitsOf("other", "b", [3]string{"org_1", "ord_5", "acme.example"})
	for _, c := range []struct {
		name, token string
		query       string
		want        []string
		prefix      bool
	}{
		{"a name", reader, query("name", "acme.example"), []string{"ord_1", "ord_2", "ord_3"}, false},
		{"a customer's", one, query("name", "ACME.example."), []string{"ord_1"}, false},
		{"in Unicode", one, query("name", "Bücher.example"), []string{"ord_4"}, false},
		{"as an address", one, query("name", "https://Bücher.example/login"), []string{"ord_4"}, false},
		{"an address without a name", one, query("name", "https://"), nil, false},
		{"of an organization", desk, query("tenant", "acme", "name", "acme.example", "organization", "org_2"),
			[]string{"ord_2"}, false},
		{"of an organization of others", two, query("name", "acme.example", "organization", "org_3"), nil, false},
		{"the beginning", two, query("name", "ac"), []string{"ord_1", "ord_2"}, true},
		{"an id", reader, query("id", "ord_3"), []string{"ord_3"}, false},
		{"an id of others", two, query("id", "ord_3"), nil, false},
		{"the beginning of an id", reader, query("id", "ord_"), nil, false},
		{"all of an organization", everybody, query("tenant", "acme", "organization", "org_1"),
			[]string{"ord_1", "ord_4"}, false},
		{"of whichever tenant", desk, query("name", "acme.example"), []string{"ord_1", "ord_2", "ord_3", "ord_5"}, false},
		{"of whichever of the caller's", reader, query("name", "acme.example"), []string{"ord_1", "ord_2", "ord_3"}, false},
		{"a beginning, of all tenants", everybody, query("name", "ac"), []string{"ord_1", "ord_2", "ord_3", "ord_5"}, true},
		{"an organization's of all tenants", everybody, query("organization", "org_1"), []string{"ord_1", "ord_4", "ord_5"},
			false},
		{"of another tenant", desk, query("tenant", "other", "name", "xn--bcher-kva.example"), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.do(call{path: "/v1/domains" + c.query, token: c.token})
			got.want(t, 200, "")
			ids, prefix, more := got.domains(t)
			if diff := cmp.Diff(c.want, ids); diff != "" || prefix != c.prefix || more {
				t.Errorf("prefix %v, more %v; ids (-want +got):\n%s", prefix, more, diff)
			}
		})
	}
	for _, c := range []struct {
		name, token, query string
		status             int
		problem            string
	}{
		{"nothing asked for", one, "", 400, "bad-request"},
		{"a name and an id", one, query("name", "a", "id", "b"), 400, "bad-request"},
		{"a tenant of others", one, query("tenant", "other", "name", "acme.example"), 404, "not-found"},
		{"no tenant", everybody, query("tenant", "nobody", "name", "acme.example"), 404, "not-found"},
		{"no tenant's name", everybody, query("tenant", "A/..", "name", "a"), 400, "bad-request"},
		{"a name that is too long", one, query("name", strings.Repeat("a", 2000)), 400, "bad-request"},
		{"an unknown parameter", one, query("names", "a"), 400, "bad-request"},
		{"no token", "", query("name", "a"), 401, "unauthenticated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.do(call{path: "/v1/domains" + c.query, token: c.token}).want(t, c.status, c.problem)
		})
	}
}

func TestFindManyDomains(t *testing.T) {
	w := domainWorld(t)
	var all [][3]string
	for i := range 60 {
		all = append(all, [3]string{"org_1", fmt.Sprintf("ord_%d", i), fmt.Sprintf("%02d.example", i)})
	}
	w.waits("a", all...)
	got := w.do(call{path: "/v1/domains" + query("organization", "org_1"), token: one})
	got.want(t, 200, "")
	if ids, _, more := got.domains(t); len(ids) != 50 || !more {
		t.Errorf("%d domains, more %v; want 50 of 60", len(ids), more)
	}
}

// TestDomainsOfOthersDoNotExist compares the answers for domains of others with one that does not
// exist.
func TestDomainsOfOthersDoNotExist(t *testing.T) {
	w := domainWorld(t)
	w.waits("a", [3]string{"org_1", "ord_1", "acme.example"}, [3]string{"org_2", "ord_2", "acme.example"})
	text := func(method, path string) string {
		t.Helper()
		got := w.do(call{method: method, path: path, token: one, header: map[string][]string{"X-Request-Id": {"1"}}})
		got.want(t, 404, "not-found")
		return strings.NewReplacer("ord_2", "ID", "ord_none", "ID", "nobody", "other").Replace(got.body)
	}
	for _, end := range []struct{ method, path string }{{"GET", ""}, {"POST", "/check"}} {
		for id, tenant := range map[string]string{"ord_2": "", "ord_1": "other"} {
			nobody := strings.Replace(tenant, "other", "nobody", 1)
			unknown := text(end.method, "/v1/domains/ord_none"+end.path+query("tenant", nobody))
			if got := text(end.method, "/v1/domains/"+id+end.path+query("tenant", tenant)); got != unknown {
				t.Errorf("%s of tenant %q: %s; want as of an unknown one: %s", id, tenant, got, unknown)
			}
		}
	}
	w.do(call{path: "/v1/domains/ord_1", token: one}).want(t, 200, "")
}

// TestDomainOfWhicheverTenant finds a domain by its id in the only tenant of the caller that has
// it, and lists several.
func TestDomainOfWhicheverTenant(t *testing.T) {
	w := domainWorld(t)
	w.waits("a", [3]string{"org_1", "ord_1", "acme.example"}, [3]string{"org_1", "ord_2", "both.example"})
	w.waitsOf("other", "b", [3]string{"org_1", "ord_2", "both.example"}, [3]string{"org_1", "ord_3", "other.example"})
	for _, c := range []struct {
		token, path string
		status      int
		has         string
	}{
		{desk, "/v1/domains/ord_1", 200, `"tenant":"acme"`},
		{desk, "/v1/domains/ord_3", 200, `"tenant":"other"`},
		{everybody, "/v1/domains/ord_3", 200, `"tenant":"other"`},
		{reader, "/v1/domains/ord_2", 200, `"tenant":"acme"`},
		{reader, "/v1/domains/ord_3", 404, "You have no discovery domain"},
		{desk, "/v1/domains/ord_2", 409, `Several tenants have discovery domain \"ord_2\": acme, other.`},
		{desk, "/v1/domains/ord_2?tenant=other", 200, `"tenant":"other"`},
		{desk, "/v1/domains/ord_2?tenant=nobody", 404, "There is no tenant"},
	} {
		got := w.do(call{path: c.path, token: c.token})
		if got.StatusCode != c.status || !strings.Contains(got.body, c.has) {
			t.Errorf("%s: %d %s, want %d and %s", c.path, got.StatusCode, got.body, c.status, c.has)
		}
	}
}

// TestCheckMakesTheRowDue checks that the open row becomes due, once.
func TestCheckMakesTheRowDue(t *testing.T) {
	w := domainWorld(t)
	seg := w.waits("a", [3]string{"org_1", "ord_0", "b.example"}, [3]string{"org_1", "ord_1", "acme.example"})
	for range 2 { // the row is due already: its check begins after both requests
		got := w.do(call{method: "POST", path: "/v1/domains/ord_1/check", token: one})
		got.want(t, 202, "")
		var d struct {
			Check   string
			Checked bool
		}
		if err := json.Unmarshal([]byte(got.body), &d); err != nil || d.Check != "due" || !d.Checked {
			t.Errorf("%+v, %v; want due", d, err)
		}
	}
	released, err := w.ledger.Release(t.Context(), seg, ledger.Quota{First: 9, Check: 9, Ready: 9})
	if err != nil || len(released.Rows) != 1 || released.Rows[0].Row != 1 {
		t.Errorf("released %+v, %v; want row 1 alone", released.Rows, err)
	}
	w.do(call{method: "POST", path: "/v1/domains/ord_0/check", token: reader}).want(t, 403, "not-allowed")
}

// TestCheckOfAFailingRow checks that a row whose last attempt failed is not repeated earlier, and
// that the caller is told.
func TestCheckOfAFailingRow(t *testing.T) {
	w := domainWorld(t)
	seg := w.waits("a", [3]string{"org_1", "ord_1", "acme.example"})
	_, due := w.ledger.MakeDue(t.Context(), seg, 0, time.Time{})
	first, release := w.ledger.Release(t.Context(), seg, ledger.Quota{Check: 1})
	e := ledger.Execution{Token: first.Token, Nonce: ledger.NewNonce(), Session: ledger.NewSessionID()}
	_, begin := w.ledger.Begin(t.Context(), seg, e, 0)
	failed := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour, CountAttempt: true}
	_, end := w.ledger.End(t.Context(), seg, e.Nonce, ledger.RowEnd{Row: 0, Ending: failed})
	if err := errors.Join(due, release, begin, end); err != nil {
		t.Fatal(err)
	}
	got := w.do(call{method: "POST", path: "/v1/domains/ord_1/check", token: one})
	got.want(t, 202, "")
	if !strings.Contains(got.body, `"check":"later"`) {
		t.Errorf("answer %s, want later", got.body)
	}
	released, err := w.ledger.Release(t.Context(), seg, ledger.Quota{First: 9, Check: 9, Ready: 9})
	if err != nil || len(released.Rows) != 0 {
		t.Errorf("released %+v, %v; want none", released.Rows, err)
	}
}

// TestCheckSubmitsARow checks a domain without an open row, in two minutes: until the row is
// executed there is no second one.
func TestCheckSubmitsARow(t *testing.T) {
	w := domainWorld(t)
	w.waits("a", [3]string{"org_1", "ord_1", "acme.example"})
	w.settle("a", "expired", "no", 0)
	if got := w.do(call{path: "/v1/domains/ord_1", token: two}); strings.Contains(got.body, `"checked":true`) {
		t.Errorf("the domain is checked: %s", got.body)
	}
	for _, want := range []string{`"check":"submitted"`, `"check":"due"`} {
		got := w.do(call{method: "POST", path: "/v1/domains/ord_1/check", token: two})
		got.want(t, 202, "")
		if !strings.Contains(got.body, want) {
			t.Errorf("answer %s, want %s", got.body, want)
		}
		if got := w.do(call{path: "/v1/domains/ord_1", token: two}); !strings.Contains(got.body, `"checked":true`) {
			t.Errorf("the domain is not checked: %s", got.body)
		}
		if n := w.rdb.Del(t.Context(), redistest.Keys(t, "*:checks:*")...).Val(); n != 1 {
			t.Fatalf("%d counts of checks, want one of this minute", n)
		}
	}
	open, err := w.ledger.OpenSingles(t.Context(), "acme")
	if err != nil || len(open) != 1 || open[0].Caller != "two" || !open[0].Single || open[0].Tenant != "acme" {
		t.Fatalf("open runs %+v, %v; want one", open, err)
	}
	rows, err := w.ledger.Contents(t.Context(), open[0], 0, 9)
	if err != nil || len(rows) != 1 || string(rows[0]) != `{"organization_id":"org_1","discovery_domain_id":"ord_1"}` {
		t.Errorf("rows %s, %v", rows, err)
	}
}

// TestVerifiedIsNotChecked checks that nothing is done for a verified domain.
func TestVerifiedIsNotChecked(t *testing.T) {
	w := domainWorld(t)
	seg := w.waits("a", [3]string{"org_1", "ord_1", "acme.example"})
	k := index.Entry{Domain: discovery.Domain{OrganizationID: "org_1", ID: "ord_1", Name: "acme.example", Host: "_v",
		TXT: "t", Status: schema.StatusVerified}, Read: time.Now(), At: time.Now().Add(time.Minute),
		State: "present", Run: "a"}
	if _, err := w.ledger.End(t.Context(), seg, ledger.NewNonce(),
		ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: k.Subject()}); err != nil {
		t.Fatal(err)
	}
	w.do(call{method: "POST", path: "/v1/domains/ord_1/check", token: one}).want(t, 409, "state")
}

// TestChecksAreLimited uses up the checks of an organization, and of a tenant, in a minute.
func TestChecksAreLimited(t *testing.T) {
	for _, c := range []struct {
		name, rate       string
		organizations, n int
	}{
		{"an organization", "unlimited", 1, 10},
		{"a tenant", "unlimited", 100, 60},
		{"a tenant's rate", "8/s", 100, 12}, // 5 % of 480 requests in a minute, two a check
		{"a slow tenant", "1/min", 100, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := domainWorld(t)
			if _, err := tenant.Announce(t.Context(), w.rdb, tenant.Announced{Tenant: "acme", Rate: c.rate}); err != nil {
				t.Fatal(err)
			}
			var all [][3]string
			for i := range 2*c.n + 1 {
				all = append(all, [3]string{fmt.Sprintf("org_%d", i%c.organizations), fmt.Sprintf("ord_%d", i), "a.example"})
			}
			w.waits("a", all...)
			done, minute := 0, time.Now().Minute()
			for i := range all {
				got := w.do(call{method: "POST", path: fmt.Sprintf("/v1/domains/ord_%d/check", i) + query("tenant", "acme"),
					token: everybody})
				if got.StatusCode == 202 {
					done++
					continue
				}
				got.want(t, 429, "too-many-checks")
				if got.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				break
			}
			if now := time.Now().Minute(); done != c.n && now == minute {
				t.Errorf("%d checks, want %d in a minute", done, c.n)
			}
		})
	}
}

// TestLinks makes a link and revokes it, and checks the roles that may.
func TestLinks(t *testing.T) {
	var links *customer.Links
	w := newWorld(t, func(c *httpapi.Config) {
		c.Access = access(t, domainAccess)
		key := filepath.Join(t.TempDir(), "link.key")
		if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		links, err = customer.Settings{LinkKeys: []string{key}, LinkURL: "https://verify.example.com"}.Open(c.Redis, c.Ledger,
			c.Logger)
		if err != nil {
			t.Fatal(err)
		}
		c.Links = links
	})
	page, err := customer.PageSettings{Color: "#000000"}.Handler(links, nil, w.config.Logger)
	if err != nil {
		t.Fatal(err)
	}
	w.waits("a", [3]string{"org_1", "ord_1", "acme.example"}, [3]string{"org_2", "ord_2", "acme.example"})
	w.settle("a", "expired", "no", 0)
	shown := func(link string) int {
		out := httptest.NewRecorder()
		page.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, link, nil))
		return out.Code
	}

	got := w.do(call{method: "POST", path: "/v1/domains/ord_1/links" + query("for", "36h"), token: one})
	got.want(t, 201, "")
	var link customer.Link
	if err := json.Unmarshal([]byte(got.body), &link); err != nil {
		t.Fatal(err)
	}
	if life := time.Until(link.Expires); life > 36*time.Hour || life < 35*time.Hour || link.ID != "ord_1" ||
		link.Name != "acme.example" || shown(link.URL) != 200 {
		t.Errorf("link %+v, whose page has status %d", link, shown(link.URL))
	}
	open, err := w.ledger.OpenSingles(t.Context(), "acme")
	if err != nil || len(open) != 1 || open[0].Caller != "one" || open[0].GiveUp != 36*time.Hour {
		t.Errorf("open runs %+v, %v; want one for 36 hours", open, err)
	}
	w.do(call{method: "DELETE", path: "/v1/domains/ord_1/links", token: one}).want(t, 204, "")
	if code := shown(link.URL); code != 404 {
		t.Errorf("the page of a revoked link has status %d", code)
	}
	if strings.Contains(w.log.String(), link.URL[len(link.URL)-20:]) {
		t.Errorf("the log has the link:\n%s", w.log.String())
	}

	w.do(call{method: "POST", path: "/v1/domains/ord_1/links" + query("for", "31d"), token: one}).
		want(t, 400, "bad-request")
	for _, method := range []string{"POST", "DELETE"} {
		w.do(call{method: method, path: "/v1/domains/ord_2/links", token: one}).want(t, 404, "not-found")
		w.do(call{method: method, path: "/v1/domains/ord_1/links", token: reader}).want(t, 403, "not-allowed")
		w.do(call{method: method, path: "/v1/domains/ord_1/links", token: ""}).want(t, 401, "unauthenticated")
		domainWorld(t).do(call{method: method, path: "/v1/domains/ord_1/links", token: one}).want(t, 501, "no-links")
	}
}
