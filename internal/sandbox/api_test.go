package sandbox_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

const templatesPath = "/verifiable-credentials/verification/templates"

func domainPath(org, id string) string {
	return "/organizations/" + org + "/discovery-domains/" + id
}

func record(d sandbox.Domain) map[string]any {
	m := map[string]any{
		"id": d.ID, "domain": d.Domain, "status": d.Status,
		"verification_txt": d.TXT, "verification_host": d.Host,
	}
	if d.Use != nil {
		m["use_for_organization_discovery"] = *d.Use
	}
	return m
}

func TestRecordShapes(t *testing.T) {
	s := start(t, sandbox.Options{})
	org := s.AddOrganization("", "")
	d := s.AddDomain(org, sandbox.Domain{})
	for _, shape := range []struct {
		name, got, prefix string
		length            int
	}{
		{"organization", org, "org_", 20}, {"domain", d.ID, "ord_", 26}, {"client", s.ClientID(), "", 32},
		{"token", d.TXT, "", 32}, {"template", s.AddTemplate(sandbox.Template{}).ID, "vct_0000000000000001", 20},
	} {
		if len(shape.got) != shape.length || !strings.HasPrefix(shape.got, shape.prefix) {
			t.Errorf("%s id %q", shape.name, shape.got)
		}
	}
	if want := "_ss-verification." + org + "." + d.Domain; d.Host != want || d.Status != "pending" {
		t.Errorf("got %+v", d)
	}
}

func TestUpdateDiscoveryDomain(t *testing.T) {
	tests := []struct {
		name        string
		before      sandbox.Domain
		contentType string
		body        string
		status      string
		use         *bool
		useIfTrue   *bool // under FlagTrue
	}{
		{"nothing", sandbox.Domain{Status: "pending", Use: new(false)}, asJSON, `{}`, "pending", new(false), new(true)},
		{"nothing in a form", sandbox.Domain{Status: "pending", Use: new(false)}, asForm, ``,
			"pending", new(false), new(true)},
		{"status alone", sandbox.Domain{Status: "pending", Use: new(false)}, asJSON, `{"status":"verified"}`,
			"verified", new(false), new(true)},
		{"status alone, flag absent", sandbox.Domain{Status: "pending"}, asJSON, `{"status":"verified"}`,
			"verified", nil, new(true)},
		{"back to pending", sandbox.Domain{Status: "verified", Use: new(true)}, asJSON, `{"status":"pending"}`,
			"pending", new(true), new(true)},
		{"both", sandbox.Domain{Status: "pending"}, asJSON + "; charset=UTF-8",
			`{"status":"verified","use_for_organization_discovery":false}`, "verified", new(false), new(false)},
		{"flag alone", sandbox.Domain{Status: "verified"}, asJSON, `{"use_for_organization_discovery":true}`,
			"verified", new(true), new(true)},
		{"form", sandbox.Domain{Status: "pending"}, asForm, `status=verified&use_for_organization_discovery=false`,
			"verified", new(false), new(false)},
	}
	for _, tt := range tests {
		for reading, use := range map[sandbox.FlagReading]*bool{sandbox.KeepFlag: tt.use, sandbox.FlagTrue: tt.useIfTrue} {
			t.Run(fmt.Sprintf("%s/reading %d", tt.name, reading), func(t *testing.T) {
				s := start(t, sandbox.Options{FlagDefault: reading})
				org := s.AddOrganization("", "")
				d := s.AddDomain(org, tt.before)
				got := do(t, s, ask{method: "PATCH", path: domainPath(org, d.ID), contentType: tt.contentType, body: tt.body})
				d.Status, d.Use = tt.status, use
				if diff := cmp.Diff(record(d), got.json); got.status != http.StatusOK || diff != "" {
					t.Errorf("status %d; record (-want +got):\n%s", got.status, diff)
				}
				kept, _ := s.Domain(org, d.ID)
				if diff := cmp.Diff(d, kept); diff != "" {
					t.Errorf("tenant (-want +got):\n%s", diff)
				}
				if read := do(t, s, ask{method: "GET", path: domainPath(org, d.ID)}); read.raw != got.raw {
					t.Errorf("GET answers %s, PATCH answered %s", read.raw, got.raw)
				}
			})
		}
	}
	// The tenant accepts status verified without a DNS query, so a client must prove it
	// before.
	s := start(t, sandbox.Options{})
	d := s.AddDomain(s.AddOrganization("org_a", ""), sandbox.Domain{})
	do(t, s, ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON, body: `{"status":"verified"}`})
	if got, _ := s.Domain("org_a", d.ID); got.Status != "verified" || len(s.Queries()) != 0 {
		t.Errorf("status %s after %d queries", got.Status, len(s.Queries()))
	}
}

func TestOldRecords(t *testing.T) {
	s := start(t, sandbox.Options{OldRecords: true})
	d := s.AddDomain(s.AddOrganization("org_a", ""), sandbox.Domain{Use: new(false)})
	for _, a := range []ask{
		{method: "GET", path: domainPath("org_a", d.ID)},
		{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON,
			body: `{"use_for_organization_discovery":false}`},
		{method: "GET", path: "/organizations/org_a/discovery-domains"},
	} {
		if got := do(t, s, a); got.status != http.StatusOK || strings.Contains(got.raw, "use_for") {
			t.Errorf("%s %s: %d %s", a.method, a.path, got.status, got.raw)
		}
	}
	if kept, _ := s.Domain("org_a", d.ID); kept.Use == nil || *kept.Use {
		t.Errorf("the tenant's flag changed: %v", kept.Use)
	}
}

func TestRemoveOrganizationClients(t *testing.T) {
	tests := []struct{ name, contentType, body string }{
		{"JSON", asJSON, `{"clients":["a","b"]}`},
		{"the same twice", asJSON, `{"clients":["a","b","a"]}`},
		{"form with brackets", asForm, "clients[]=a&clients[]=b"},
		{"form with brackets escaped", asForm, "clients%5B%5D=a&clients%5B%5D=b"},
		{"form with numbers", asForm, "clients[1]=b&clients[0]=a"},
		{"form repeated", asForm, "clients=a&clients=b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, sandbox.Options{})
			s.AddClients("org_a", "a", "b", "c")
			for range 2 { // the second time they are not associated any more
				got := do(t, s, ask{method: "DELETE", path: "/organizations/org_a/clients",
					contentType: tt.contentType, body: tt.body})
				if got.status != http.StatusNoContent || got.raw != "" {
					t.Fatalf("got %d %q", got.status, got.raw)
				}
				if diff := cmp.Diff([]string{"c"}, s.Clients("org_a")); diff != "" {
					t.Fatal(diff)
				}
			}
			first := s.Requests()[0].Clients
			if len(first) < 2 || first[0] != "a" || first[1] != "b" {
				t.Errorf("logged %q", first)
			}
		})
	}
}

const goodTemplate = `{"name":"Age check","type":"mdl","dialect":"simplified/1.0","well_known_trusted_issuers":"aamva",` +
	`"presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"family_name":true,"portrait":false}}}}`

func TestCreateTemplate(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Clock: now.Now})
	got := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON, body: goodTemplate})
	want := map[string]any{
		"id": "vct_0000000000000001", "name": "Age check", "type": "mdl", "dialect": "simplified/1.0",
		"well_known_trusted_issuers": "aamva",
		"presentation": map[string]any{
			"org.iso.18013.5.1.mDL": map[string]any{"org.iso.18013.5.1": map[string]any{"family_name": true, "portrait": false}},
		},
		"created_at": "2026-11-20T12:00:00.000Z", "updated_at": "2026-11-20T12:00:00.000Z",
	}
	if diff := cmp.Diff(want, got.json); got.status != http.StatusCreated || diff != "" {
		t.Errorf("status %d (-want +got):\n%s", got.status, diff)
	}
	if again := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON,
		body: goodTemplate}); again.status == http.StatusConflict {
		wantError(t, again, http.StatusConflict, "", "already exists")
	} else {
		t.Errorf("the name twice: status %d", again.status)
	}
	form := url.Values{
		"name": {"By form"}, "type": {"mdl"}, "dialect": {"simplified/1.0"}, "well_known_trusted_issuers": {"aamva"},
		"custom_certificate_authority":                                       {"-----BEGIN"},
		"presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1][birth_date]": {"true"},
		"presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1][portrait]":   {"false"},
	}
	got = do(t, s, ask{method: "POST", path: templatesPath, contentType: asForm, body: form.Encode()})
	if got.status != http.StatusCreated || got.json["custom_certificate_authority"] != "-----BEGIN" {
		t.Errorf("form: %d %s", got.status, got.raw)
	}
	made := s.Templates()
	if diff := cmp.Diff(map[string]bool{"birth_date": true, "portrait": false}, made[1].Claims); len(made) != 2 ||
		diff != "" {
		t.Errorf("%d templates; claims (-want +got):\n%s", len(made), diff)
	}
	if log := s.Requests(); log[0].Template != "Age check" || log[2].Template != "By form" {
		t.Errorf("logged %q and %q", log[0].Template, log[2].Template)
	}
}

func TestTemplateNamesMayRepeat(t *testing.T) {
	s := start(t, sandbox.Options{RepeatTemplateNames: true})
	for range 2 {
		if got := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON,
			body: goodTemplate}); got.status != http.StatusCreated {
			t.Error(got.status, got.raw)
		}
	}
	if len(s.Templates()) != 2 {
		t.Error(s.Templates())
	}
}

func TestNotFound(t *testing.T) {
	s := start(t, sandbox.Options{})
	d := s.AddDomain("org_a", sandbox.Domain{})
	const noOrg, noDomain = "No organization found by that id or name", "No organization domain found by that id"
	tests := []struct {
		name    string
		ask     ask
		message string
	}{
		{"PATCH organization", ask{method: "PATCH", path: domainPath("org_b", d.ID), contentType: asJSON, body: `{}`}, noOrg},
		{"PATCH domain", ask{method: "PATCH", path: domainPath("org_a", "ord_x"), contentType: asJSON, body: `{}`}, noDomain},
		{"GET organization", ask{method: "GET", path: domainPath("org_b", d.ID)}, noOrg},
		{"GET domain", ask{method: "GET", path: domainPath("org_a", "ord_x")}, noDomain},
		{"list domains", ask{method: "GET", path: "/organizations/org_b/discovery-domains"}, noOrg},
		{"list clients", ask{method: "GET", path: "/organizations/org_b/clients"}, noOrg},
		{"DELETE", ask{method: "DELETE", path: "/organizations/org_b/clients", contentType: asJSON,
			body: `{"clients":["a"]}`}, noOrg},
		{"no such path", ask{method: "GET", path: "/clients"}, "Not Found"},
		{"slash at the end", ask{method: "GET", path: "/organizations/"}, "Not Found"},
		{"empty id", ask{method: "GET", path: "/organizations//clients"}, "Not Found"},
		{"outside the base path", ask{method: "GET", path: s.AuthURL() + "/organizations"}, "Not Found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantError(t, do(t, s, tt.ask), http.StatusNotFound, "", tt.message) })
	}
}

func TestMethodNotAllowed(t *testing.T) {
	s := start(t, sandbox.Options{})
	for path, allow := range map[string]string{
		domainPath("org_a", "ord_x"):     "PATCH, GET",
		"/organizations":                 "GET",
		"/organizations/org_a/clients":   "DELETE, GET",
		templatesPath:                    "POST, GET",
		s.AuthURL() + "/oauth/token":     "POST",
		s.AuthURL() + "/oauth/token/":    "POST",
		"/organizations/o/d":             "",
		s.AuthURL() + "/oauth/token/new": "",
	} {
		got := do(t, s, ask{method: "PUT", path: path})
		if allow == "" {
			wantError(t, got, http.StatusNotFound, "", "Not Found")
			continue
		}
		wantError(t, got, http.StatusMethodNotAllowed, "", "")
		if got.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", path, got.header.Get("Allow"), allow)
		}
	}
}

func TestPathsHeadersAndQueries(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.AddClients("org_a", "a")
	s.AddClients("org_|b", "a")
	other := do(t, s, ask{method: "GET", path: "/organizations?take=1"}).json["next"].(string)
	long := "org_" + strings.Repeat("x", 124)
	tests := []struct {
		name   string
		path   string
		header http.Header
		status int
		code   string
	}{
		{"good", "/organizations/org_a/clients", nil, 200, ""},
		{"escaped bar", "/organizations/org_%7Cb/clients", nil, 200, ""},
		{"bar as it is", "/organizations/org_|b/clients", nil, 200, ""},
		{"longest id", "/organizations/" + long + "/clients", nil, 404, ""},
		{"id too long", "/organizations/" + long + "x/clients", nil, 400, "invalid_uri"},
		{"escaped slash", "/organizations/org%2Fa/clients", nil, 400, "invalid_uri"},
		{"dot", "/organizations/org.a/clients", nil, 400, "invalid_uri"},
		{"blank", "/organizations/org%20a/clients", nil, 400, "invalid_uri"},
		{"domain id", "/organizations/org_a/discovery-domains/%C3%A4", nil, 400, "invalid_uri"},
		{"an organization's name", "/organizations/acme", nil, 400, "invalid_uri"},
		{"a domain where its id belongs", "/organizations/org_a/discovery-domains/example.com", nil, 400, "invalid_uri"},
		{"ids swapped", "/organizations/ord_x/discovery-domains/org_a", nil, 400, "invalid_uri"},
		{"no domain name", "/organizations/org_a/discovery-domains/name/a%20b.example", nil, 400, "invalid_uri"},
		{"take 1", "/organizations?take=1", nil, 200, ""},
		{"take 100", "/organizations?take=100", nil, 200, ""},
		{"take 0", "/organizations?take=0", nil, 400, "invalid_query_string"},
		{"take 101", "/organizations?take=101", nil, 400, "invalid_query_string"},
		{"take a word", "/organizations?take=all", nil, 400, "invalid_query_string"},
		{"take empty", "/organizations?take=", nil, 400, "invalid_query_string"},
		{"take twice", "/organizations?take=1&take=2", nil, 400, "invalid_query_string"},
		{"page beyond what can be read", "/organizations?page=10&per_page=100", nil, 400, "invalid_query_string"},
		{"page a word", "/organizations?page=first", nil, 400, "invalid_query_string"},
		{"per_page 101", "/organizations?per_page=101", nil, 400, "invalid_query_string"},
		{"include_totals a number", "/organizations?include_totals=1", nil, 400, "invalid_query_string"},
		{"another parameter", "/organizations?fields=id", nil, 400, "invalid_query_string"},
		{"bad escape", "/organizations?take=%zz", nil, 400, "invalid_query_string"},
		{"from nowhere", "/organizations?from=abc", nil, 400, "invalid_query_string"},
		{"from empty", "/organizations?from=", nil, 400, "invalid_query_string"},
		{"from of another list", "/organizations/org_a/clients?from=" + other, nil, 400, "invalid_query_string"},
		{"from of this list", "/organizations?from=" + other, nil, 200, ""},
		{"take where there are no pages", "/organizations/org_a/discovery-domains/ord_x?take=1", nil, 400,
			"invalid_query_string"},
		{"correlation id", "/organizations", http.Header{"X-Correlation-Id": {strings.Repeat("x", 64)}}, 200, ""},
		{"correlation id too long", "/organizations", http.Header{"X-Correlation-Id": {strings.Repeat("x", 65)}},
			400, "invalid_headers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, s, ask{method: "GET", path: tt.path, header: tt.header})
			if tt.status >= 400 {
				wantError(t, got, tt.status, tt.code, "")
			} else if got.status != tt.status {
				t.Errorf("status %d: %s", got.status, got.raw)
			}
		})
	}
}

// walk reads a list to its end. It returns the records and the number of pages.
func walk(t *testing.T, s *sandbox.Sandbox, path, member string, take int) (all []any, pages int) {
	t.Helper()
	query := url.Values{}
	if take > 0 {
		query.Set("take", fmt.Sprint(take))
	}
	for {
		got := do(t, s, ask{method: "GET", path: path + "?" + query.Encode()})
		if got.status != http.StatusOK {
			t.Fatalf("status %d: %s", got.status, got.raw)
		}
		all, pages = append(all, got.json[member].([]any)...), pages+1
		next, more := got.json["next"].(string)
		if !more {
			return all, pages
		}
		query.Set("from", next)
	}
}

func TestPaging(t *testing.T) {
	s := start(t, sandbox.Options{})
	for i := range 120 {
		s.AddOrganization(fmt.Sprintf("org_%d", i), "")
		s.AddClients("org_0", fmt.Sprintf("client%d", i))
		s.AddTemplate(sandbox.Template{Name: fmt.Sprint(i)})
		s.AddDomain("org_0", sandbox.Domain{})
	}
	s.AddOrganization("org_empty", "")
	tests := []struct {
		path, member, id string
		take, all, pages int
	}{
		{"/organizations", "organizations", "id", 0, 121, 3},
		{"/organizations/org_0/clients", "clients", "client_id", 100, 120, 2},
		{"/organizations/org_0/clients", "clients", "client_id", 60, 120, 2},
		{"/organizations/org_0/discovery-domains", "domains", "id", 7, 120, 18},
		{templatesPath, "templates", "id", 50, 120, 3},
		{"/organizations/org_empty/discovery-domains", "domains", "id", 0, 0, 1},
		{"/organizations/org_empty/clients", "clients", "client_id", 0, 0, 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s by %d", tt.path, tt.take), func(t *testing.T) {
			all, pages := walk(t, s, tt.path, tt.member, tt.take)
			ids := map[any]bool{}
			for _, r := range all {
				ids[r.(map[string]any)[tt.id]] = true
			}
			if len(all) != tt.all || len(ids) != tt.all || pages != tt.pages {
				t.Errorf("%d records, %d different, on %d pages; want %d on %d", len(all), len(ids), pages, tt.all, tt.pages)
			}
		})
	}
}

// TestClientAssociations: with the parameter the organizations of a client have its association, on
// each page, and all others lack the member. Other lists refuse the parameter.
func TestClientAssociations(t *testing.T) {
	const parameter = "include_client_association_for"
	s := start(t, sandbox.Options{})
	for i := range 120 {
		s.AddOrganization(fmt.Sprintf("org_%d", i), "")
	}
	s.AddClients("org_1", "other", "client")
	s.AddClient("org_110", "client", false)
	s.EntitleApps("org_110", true)

	have := map[string]string{}
	for query, next := parameter+"=client&take=100", ""; ; query = parameter + "=client&take=100&from=" + next {
		got := do(t, s, ask{method: "GET", path: "/organizations?" + query})
		if got.status != http.StatusOK {
			t.Fatalf("status %d: %s", got.status, got.raw)
		}
		for _, r := range got.json["organizations"].([]any) {
			o := r.(map[string]any)
			if client, ok := o["client"]; ok {
				have[o["id"].(string)] = fmt.Sprint(client, o["is_app_entitlement_active"])
			}
		}
		more := false
		if next, more = got.json["next"].(string); !more {
			break
		}
	}
	want := map[string]string{
		"org_1":   "map[use_for_member_access:true] false",
		"org_110": "map[use_for_member_access:false] true",
	}
	if !maps.Equal(have, want) {
		t.Errorf("organizations with the client: %v, want %v", have, want)
	}
	if got := do(t, s, ask{method: "GET", path: "/organizations"}); strings.Contains(got.raw, `"client"`) {
		t.Errorf("without the parameter: %s", got.raw)
	}
	got := do(t, s, ask{method: "GET", path: "/organizations/org_1/clients?" + parameter + "=client"})
	if got.status != 400 {
		t.Errorf("the list of clients: status %d", got.status)
	}
}

// TestPagingByOffset has the requests of the vendor's SDKs, which send include_totals and
// per_page with every list.
func TestPagingByOffset(t *testing.T) {
	s := start(t, sandbox.Options{})
	for i := range 120 {
		s.AddOrganization(fmt.Sprintf("org_%03d", i), "")
		s.AddDomain("org_000", sandbox.Domain{})
	}
	tests := []struct {
		name, query          string
		records              int
		first                string
		start, limit, totals any // nil: omitted
		next                 bool
	}{
		{"as the SDKs send it", "include_totals=true&per_page=50", 50, "org_000", 0.0, 50.0, 120.0, false},
		{"the last page", "include_totals=true&per_page=50&page=2", 20, "org_100", 100.0, 50.0, 120.0, false},
		{"beyond the last page", "include_totals=true&per_page=50&page=3", 0, "", 150.0, 50.0, 120.0, false},
		{"the totals alone", "include_totals=true&per_page=0", 0, "", 0.0, 0.0, 120.0, false},
		{"a checkpoint besides", "include_totals=true&per_page=50&take=7", 7, "org_000", nil, nil, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, s, ask{method: "GET", path: "/organizations?" + tt.query})
			all, _ := got.json["organizations"].([]any)
			if len(all) != tt.records || tt.first != "" && all[0].(map[string]any)["id"] != tt.first {
				t.Errorf("%d organizations, want %d from %q: %s", len(all), tt.records, tt.first, got.raw)
			}
			if _, next := got.json["next"]; got.json["start"] != tt.start || got.json["limit"] != tt.limit ||
				got.json["total"] != tt.totals || next != tt.next {
				t.Errorf("start %v, limit %v, total %v, next %t", got.json["start"], got.json["limit"], got.json["total"], next)
			}
		})
	}
	if got := do(t, s, ask{method: "GET", path: "/organizations?per_page=2"}); !strings.HasPrefix(got.raw,
		`[{"id":"org_000"`) {
		t.Errorf("without totals: %s, want an array", got.raw)
	}
	if got := do(t, s, ask{
		method: "GET", path: "/organizations/org_000/discovery-domains?include_totals=true",
	}); got.json["total"] != 120.0 {
		t.Errorf("domains: %s", got.raw)
	}
}

func TestReadsByName(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.AddOrganization("org_a", "acme")
	d := s.AddDomain("org_a", sandbox.Domain{Domain: "shop.example"})
	if got := do(t, s, ask{method: "GET", path: "/organizations/org_a"}); got.json["id"] != "org_a" ||
		got.json["name"] != "acme" {
		t.Errorf("the organization: %d %s", got.status, got.raw)
	}
	wantError(t, do(t, s, ask{method: "GET", path: "/organizations/org_none"}), http.StatusNotFound, "",
		"No organization found by that id or name")
	if got := do(t, s, ask{
		method: "GET", path: "/organizations/org_a/discovery-domains/name/Shop.Example",
	}); got.json["id"] != d.ID {
		t.Errorf("the domain: %d %s", got.status, got.raw)
	}
	wantError(t, do(t, s, ask{method: "GET", path: "/organizations/org_a/discovery-domains/name/other.example"}),
		http.StatusNotFound, "", "No organization domain found by that id")
}

func TestPagingGoesOnWhereItWas(t *testing.T) {
	s := start(t, sandbox.Options{})
	for i := range 100 {
		s.AddClients("org_a", fmt.Sprintf("c%02d", i))
	}
	const path = "/organizations/org_a/clients"
	first := do(t, s, ask{method: "GET", path: path + "?take=50"})
	for i := range 60 { // all clients read before are removed, and some that were not
		do(t, s, ask{method: "DELETE", path: path, contentType: asJSON, body: fmt.Sprintf(`{"clients":["c%02d"]}`, i)})
	}
	s.AddClients("org_a", "late")
	second := do(t, s, ask{method: "GET", path: path + "?take=50&from=" + first.json["next"].(string)})
	clients := second.json["clients"].([]any)
	if len(clients) != 41 || clients[0].(map[string]any)["client_id"] != "c60" ||
		clients[40].(map[string]any)["client_id"] != "late" {
		t.Errorf("got %d: %v", len(clients), clients)
	}
}

func TestReadLag(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{ReadLag: 10 * time.Second, Clock: now.Now})
	d := s.AddDomain("org_a", sandbox.Domain{})
	seen := func() string {
		t.Helper()
		got := do(t, s, ask{method: "GET", path: domainPath("org_a", d.ID)})
		status := fmt.Sprint(got.json["status"])
		if got.status == http.StatusNotFound {
			status = "not there"
		}
		listed, _ := walk(t, s, "/organizations/org_a/discovery-domains", "domains", 0)
		inList := "not there"
		if len(listed) > 0 {
			inList = listed[0].(map[string]any)["status"].(string)
		}
		if inList != status {
			t.Errorf("GET sees %s, the list %s", status, inList)
		}
		return status
	}
	step := func(after time.Duration, patch, want string) {
		t.Helper()
		now.Add(after)
		if patch != "" {
			got := do(t, s, ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON,
				body: `{"status":"` + patch + `"}`})
			if got.json["status"] != patch {
				t.Errorf("PATCH answers %s", got.raw)
			}
		}
		if got := seen(); got != want {
			t.Errorf("at %s: reads see %q, want %q", now.Now().Format(time.TimeOnly), got, want)
		}
	}
	step(0, "", "not there")
	step(9*time.Second, "", "not there")
	step(time.Second, "", "pending")
	step(0, "verified", "pending") // 0:10
	step(5*time.Second, "pending", "pending")
	step(5*time.Second, "", "verified") // 0:20 reads as 0:10
	step(4*time.Second, "", "verified")
	step(time.Second, "", "pending")
	if kept, _ := s.Domain("org_a", d.ID); kept.Status != "pending" {
		t.Errorf("tenant has %s", kept.Status)
	}
}

func TestRemovedFixturesAreGone(t *testing.T) {
	s := start(t, sandbox.Options{})
	a := s.AddDomain("org_a", sandbox.Domain{})
	s.RemoveDomain("org_a", a.ID)
	wantError(t, do(t, s, ask{method: "GET", path: domainPath("org_a", a.ID)}), 404, "", "No organization domain")
	a.Status = "verified"
	s.SetDomain("org_a", a)
	if diff := cmp.Diff([]sandbox.Domain{a}, s.Domains("org_a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"org_a"}, s.Organizations()); diff != "" {
		t.Error(diff)
	}
}

func TestRequestLog(t *testing.T) {
	s := start(t, sandbox.Options{})
	d := s.AddDomain("org_a", sandbox.Domain{})
	do(t, s, ask{
		method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON, body: `{"status":"verified"}`,
		header: http.Header{"X-Correlation-Id": {"run1-7"}},
	})
	do(t, s, ask{method: "DELETE", path: "/organizations/org_a/clients", contentType: asJSON,
		body: `{"clients":["` + strings.Repeat("x", 2000) + `"]}`})
	do(t, s, ask{method: "GET", path: "/nowhere?x=1", token: "none"})
	got := s.Requests()
	for i := range got {
		if got[i].At.IsZero() {
			t.Error("no time")
		}
		got[i].At = time.Time{}
	}
	want := []sandbox.Request{
		{
			Seq: 1, Operation: sandbox.OpUpdateDiscoveryDomain, Method: "PATCH", Path: "/api/v2" + domainPath("org_a", d.ID),
			Organization: "org_a", Domain: d.ID, Body: `{"status":"verified"}`, CorrelationID: "run1-7", Status: 200,
			Handled: true, Finished: true,
		},
		{
			Seq: 2, Operation: sandbox.OpRemoveOrganizationClients, Method: "DELETE",
			Path:         "/api/v2/organizations/org_a/clients",
			Organization: "org_a", Clients: []string{strings.Repeat("x", 2000)},
			Body:   `{"clients":["` + strings.Repeat("x", 1024-13),
			Status: 204, Handled: true, Finished: true,
		},
		{Seq: 3, Method: "GET", Path: "/api/v2/nowhere", Query: "x=1", Status: 404, Handled: true, Finished: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestManyAtOnce(t *testing.T) {
	s := start(t, sandbox.Options{Rate: 1000, Burst: 1000, ReadLag: time.Millisecond})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			org := s.AddOrganization("", "")
			d := s.AddDomain(org, sandbox.Domain{})
			s.AddClients(org, "a", "b")
			s.SetTXT(d.Host, d.TXT)
			for range 5 {
				if got := do(t, s, ask{method: "PATCH", path: domainPath(org, d.ID), contentType: asJSON,
					body: `{"status":"verified"}`}); got.status != 200 {
					t.Error(got.status, got.raw)
				}
				do(t, s, ask{method: "GET", path: "/organizations?take=2"})
				do(t, s, ask{method: "DELETE", path: "/organizations/" + org + "/clients", contentType: asJSON,
					body: `{"clients":["a"]}`})
				remove := s.AddFault(sandbox.Fault{Operation: sandbox.OpListTemplates, Status: 500})
				do(t, s, ask{method: "GET", path: templatesPath})
				remove()
				s.SetTXT(fmt.Sprintf("h%d.example", i))
				_, _, _ = s.Requests(), s.Queries(), s.Domains(org)
			}
		})
	}
	wg.Wait()
	for i, r := range s.Requests() {
		if r.Seq != int64(i+1) || !r.Finished {
			t.Fatalf("entry %d: %+v", i, r)
		}
	}
	if len(s.Requests()) != 8*5*4 {
		t.Errorf("%d requests logged", len(s.Requests()))
	}
}
