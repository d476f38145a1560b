package sandbox_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

func control(t *testing.T, s *sandbox.Sandbox, method, path, body string) reply {
	t.Helper()
	return do(t, s, ask{method: method, path: s.AuthURL() + "/_sandbox/" + path, token: "none",
		contentType: asJSON, body: body})
}

func logged(t *testing.T, s *sandbox.Sandbox, query string) []sandbox.Request {
	t.Helper()
	got := control(t, s, "GET", "requests"+query, "")
	if got.status != 200 {
		t.Fatal(got.status, got.raw)
	}
	var all []sandbox.Request
	for lines := bufio.NewScanner(strings.NewReader(got.raw)); lines.Scan(); {
		var r sandbox.Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestControlRequests(t *testing.T) {
	s := start(t, sandbox.Options{})
	for scope, a := range operations(s) {
		if scope != "" {
			do(t, s, a)
		}
	}
	want := s.Requests()
	same := cmpopts.EquateApproxTime(0)
	if diff := cmp.Diff(want, logged(t, s, ""), same); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[3:], logged(t, s, "?since=3"), same); diff != "" {
		t.Error(diff)
	}
	if got := logged(t, s, "?since=8"); got != nil {
		t.Error(got)
	}
	if got := logged(t, s, "?operation=create_template"); len(got) != 1 || got[0].Template != "Age check" {
		t.Error(got)
	}
	if len(want) != 8 || len(s.Requests()) != 8 {
		t.Errorf("%d requests, then %d: the control paths are logged", len(want), len(s.Requests()))
	}
	for _, bad := range []string{"?since=x", "?since=-1"} {
		if got := control(t, s, "GET", "requests"+bad, ""); got.status != 400 {
			t.Error(bad, got.status)
		}
	}
}

func TestControlRows(t *testing.T) {
	s := start(t, sandbox.Options{})
	rows := func(file string) [][]string {
		t.Helper()
		got := control(t, s, "GET", "rows/"+file, "")
		all, err := csv.NewReader(strings.NewReader(got.raw)).ReadAll()
		if got.status != 200 || err != nil {
			t.Fatal(got.status, got.raw, err)
		}
		return all
	}
	domains := rows("domains.csv?n=120")
	if diff := cmp.Diff([]string{"organization_id", "discovery_domain_id"}, domains[0]); diff != "" ||
		len(domains) != 121 {
		t.Error(len(domains), diff)
	}
	for _, row := range domains[1:] {
		d, ok := s.Domain(row[0], row[1])
		if !ok || d.Status != "pending" {
			t.Fatalf("row %q: %+v", row, d)
		}
	}
	d, _ := s.Domain(domains[120][0], domains[120][1])
	if got := formatAnswer(lookUp(t, s, "udp", d.Host, dns.TypeTXT)); !strings.Contains(got[1], d.TXT) {
		t.Error("not published:", got)
	}
	unpublished := rows("unpublished.csv?n=1")
	d, ok := s.Domain(unpublished[1][0], unpublished[1][1])
	if got := formatAnswer(lookUp(t, s, "udp", d.Host, dns.TypeTXT)); !ok || d.Status != "pending" ||
		slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, d.TXT) }) {
		t.Errorf("%+v, %q", d, got)
	}

	names := rows("names.csv?n=1")
	if all := s.Domains(names[1][0]); names[0][1] != "domain" || !slices.ContainsFunc(all,
		func(d sandbox.Domain) bool { return d.Domain == names[1][1] && d.Status == "pending" }) {
		t.Errorf("%q, among %+v", names, all)
	}
	updates := rows("updates.csv?n=3")
	var changes [][]string
	for _, row := range updates {
		changes = append(changes, row[2:])
	}
	if diff := cmp.Diff([][]string{{"status", "use_for_organization_discovery"}, {"pending", "false"}, {"pending", ""},
		{"", "false"}}, changes); diff != "" {
		t.Error(diff)
	}
	if d, _ := s.Domain(updates[1][0], updates[1][1]); d.Status != "verified" || !*d.Use {
		t.Errorf("%+v", d)
	}

	clients := rows("clients.csv?n=101")
	if len(clients) != 102 || len(s.Clients(clients[1][0])) != 100 || len(s.Clients(clients[101][0])) != 1 ||
		s.Clients(clients[1][0])[0] != clients[1][1] {
		t.Error(len(clients))
	}

	templates := strings.Split(strings.TrimSpace(control(t, s, "GET", "rows/templates.jsonl", "").raw), "\n")
	for _, line := range templates {
		if got := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON, body: line}); got.status != 201 {
			t.Fatalf("%s: %d %s", line, got.status, got.raw)
		}
	}
	if len(templates) != 100 {
		t.Errorf("%d templates", len(templates))
	}
	for _, bad := range []string{"rows/domains.csv?n=x", "rows/domains.csv?n=1000001"} {
		if got := control(t, s, "GET", bad, ""); got.status != 400 {
			t.Error(bad, got.status)
		}
	}
	if got := control(t, s, "GET", "rows/other.csv", ""); got.status != 404 {
		t.Error(got.status)
	}
}

func TestControlState(t *testing.T) {
	s := start(t, sandbox.Options{})
	d := s.AddDomain("org_a", sandbox.Domain{Use: new(false)})
	s.AddClients("org_b", "a", "b")
	s.AddTemplate(sandbox.Template{Name: "n"})
	var got sandbox.State
	if err := json.Unmarshal([]byte(control(t, s, "GET", "state", "").raw), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]sandbox.Domain{"org_a": {d}}, got.Domains); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]string{"org_b": {"a", "b"}}, got.Clients); diff != "" {
		t.Error(diff)
	}
	if len(got.Templates) != 1 || !strings.Contains(string(got.Templates[0]), `"name":"n"`) {
		t.Errorf("%s", got.Templates)
	}
}

func TestControlFaults(t *testing.T) {
	s := start(t, sandbox.Options{})
	list := ask{method: "GET", path: "/organizations"}
	own := s.AddFault(sandbox.Fault{Operation: sandbox.OpListTemplates, Status: 500})
	defer own()
	for _, body := range []string{
		`{"operation":"list_organizations","status":429,"count":1,"header":{"retry-after":"2"}}`,
		`{"operation":"list_organizations","drop_after":true,"count":1,"latency_ms":1}`,
		`{"status":503}`,
	} {
		if got := control(t, s, "POST", "faults", body); got.status != 201 {
			t.Fatal(got.status, got.raw)
		}
	}
	if got := do(t, s, list); got.status != 429 || got.header.Get("Retry-After") != "2" {
		t.Error(got.status, got.header)
	}
	if _, err := try(t, s, list); err == nil {
		t.Error("answered")
	}
	if got := do(t, s, list); got.status != 503 {
		t.Error(got.status)
	}
	if got := control(t, s, "DELETE", "faults", ""); got.status != 204 {
		t.Error(got.status, got.raw)
	}
	if got := do(t, s, list); got.status != 200 {
		t.Error(got.status)
	}
	if got := do(t, s, ask{method: "GET", path: templatesPath}); got.status != 500 {
		t.Error("a fault that was not posted is gone:", got.status)
	}
	for body, want := range map[string]string{
		`{"operation":"get_discovery_domain","not_http":true,"count":1}`:     "malformed HTTP",
		`{"operation":"get_discovery_domain","wrong_record":true,"count":1}`: `"id":"ord_0000000000000000000000"`,
	} {
		if got := control(t, s, "POST", "faults", body); got.status != 201 {
			t.Fatal(got.status, got.raw)
		}
		d := s.AddDomain("org_a", sandbox.Domain{})
		got, err := try(t, s, ask{method: "GET", path: domainPath("org_a", d.ID)})
		if text := got.raw + fmt.Sprint(err); !strings.Contains(text, want) {
			t.Errorf("%s: got %s, want %q in it", body, text, want)
		}
	}
	for _, bad := range []string{`{"operation":"verify"}`, `{"status":99}`, `{"status":600}`, `{"count":-1}`,
		`{"latency_ms":-1}`, `{"wrong":true}`, `{`} {
		if got := control(t, s, "POST", "faults", bad); got.status != 400 {
			t.Error(bad, got.status)
		}
	}
	plain := ask{method: "POST", path: s.AuthURL() + "/_sandbox/faults", contentType: "text/plain", body: `{"status":503}`}
	if got := do(t, s, plain); got.status != http.StatusUnsupportedMediaType {
		t.Error(got.status)
	}
}

func TestControlIsForThisMachine(t *testing.T) {
	s := start(t, sandbox.Options{})
	path := s.AuthURL() + "/_sandbox/state"
	for host, status := range map[string]int{
		"": 200, "localhost:1": 200, "localhost": 200, "127.0.0.1": 200, "[::1]:80": 200,
		"evil.example": 404, "evil.example:80": 404, "192.0.2.1": 404,
	} {
		if got := do(t, s, ask{method: "GET", path: path, host: host}); got.status != status {
			t.Errorf("host %q: %d, want %d", host, got.status, status)
		}
	}
	for _, a := range []ask{{method: "POST", path: path}, {method: "GET", path: s.AuthURL() + "/_sandbox/"},
		{method: "OPTIONS", path: s.AuthURL() + "/_sandbox/faults"}} {
		if got := do(t, s, a); got.status != 404 {
			t.Errorf("%s %s: %d", a.method, a.path, got.status)
		}
	}
}

// TestControlDomain names an organization and its domain, and publishes, changes and removes TXT
// and NS records.
func TestControlDomain(t *testing.T) {
	s := start(t, sandbox.Options{})
	put := func(path, body string, status int) string {
		t.Helper()
		got := control(t, s, "PUT", path, body)
		if got.status != status {
			t.Errorf("PUT %s %s: %d %s, want %d", path, body, got.status, got.raw, status)
		}
		return got.raw
	}
	raw := put("domains", `{"organization_id":"org_acme","organization_name":"Acme","id":"ord_acme","domain":"acme.com"}`, 200)
	d, ok := s.Domain("org_acme", "ord_acme")
	if !ok || d.Domain != "acme.com" || d.Status != "pending" || d.Host != "_ss-verification.org_acme.acme.com" {
		t.Errorf("%+v", d)
	}
	var answer sandbox.DomainRequest
	if err := json.Unmarshal([]byte(raw), &answer); err != nil || answer.Organization != "org_acme" || answer.Domain != d {
		t.Errorf("answer %s, %v, want %+v", raw, err, d)
	}
	record := do(t, s, ask{method: "GET", path: s.BaseURL() + "/organizations/org_acme"})
	if record.status != 200 || !strings.Contains(record.raw, `"Acme"`) {
		t.Errorf("organization %d %s", record.status, record.raw)
	}
	put("domains", `{"organization_id":"org_empty"}`, 200)
	if all := s.Domains("org_empty"); len(all) != 0 || !slices.Contains(s.Organizations(), "org_empty") {
		t.Errorf("%v of %v", all, s.Organizations())
	}
	put("domains", `{"organization_id":"org_acme","id":"ord_acme","domain":"acme.net","status":"verified","verification_txt":"t"}`, 200)
	if d, _ := s.Domain("org_acme", "ord_acme"); d.Domain != "acme.net" || d.Status != "verified" || d.TXT != "t" {
		t.Errorf("replaced: %+v", d)
	}

	published := func(want ...string) {
		t.Helper()
		m := lookUp(t, s, "udp", d.Host, dns.TypeTXT)
		var have []string
		for _, rr := range m.Answer {
			have = append(have, strings.Join(rr.(*dns.TXT).Txt, ""))
		}
		if diff := cmp.Diff(want, have); diff != "" || (want == nil) != (m.Rcode == dns.RcodeNameError) {
			t.Errorf("rcode %d (-want +got):\n%s", m.Rcode, diff)
		}
	}
	published()
	put("txt", fmt.Sprintf(`{"host":%q,"values":["one","two"]}`, d.Host), 204)
	published("one", "two")
	put("txt", fmt.Sprintf(`{"host":%q,"values":["three"]}`, d.Host), 204)
	published("three")
	if got := control(t, s, "DELETE", "txt?host="+d.Host, ""); got.status != 204 {
		t.Error(got.status)
	}
	published()

	servers := func() []string { return formatAnswer(lookUp(t, s, "udp", "acme.com", dns.TypeNS)) }
	put("ns", `{"zone":"acme.com","servers":["ns1.domaincontrol.com","ns2.domaincontrol.com."]}`, 204)
	want := []string{"NOERROR", "acme.com. 0 IN NS ns1.domaincontrol.com.", "acme.com. 0 IN NS ns2.domaincontrol.com."}
	if diff := cmp.Diff(want, servers()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := formatAnswer(lookUp(t, s, "udp", "acme.com", dns.TypeTXT)); got[0] != "NOERROR" || len(got) != 2 {
		t.Errorf("TXT records of a name with name servers alone: %q", got)
	}
	put("ns", `{"zone":"acme.com"}`, 204)
	if got := servers(); got[0] != "NXDOMAIN" || len(got) != 2 {
		t.Errorf("without name servers: %q", got)
	}

	for body, path := range map[string]string{
		`{"organization_id":"acme"}`: "domains", `{"organization_id":"org_a","id":"acme"}`: "domains",
		`{"organization_id":"org_a","domain":"a b"}`: "domains", `{"organization_id":"org_a","status":"lost"}`: "domains",
		`{"colour":"red"}`: "domains", `{"values":["x"]}`: "txt", `{"host":"a..b"}`: "txt", `[]`: "txt",
		`{"withheld":["all"]}`: "scopes", `{"servers":["ns1.example"]}`: "ns",
		`{"organization_id":"a","client_id":"c"}`: "clients", `{"organization_id":"org_1"}`: "clients",
		`{"zone":"acme.com","servers":["a..b"]}`: "ns",
	} {
		put(path, body, 400)
	}
	for _, path := range []string{"domains", "txt", "ns", "scopes", "clients"} {
		got := do(t, s, ask{method: "PUT", path: s.AuthURL() + "/_sandbox/" + path, token: "none",
			contentType: "text/plain", body: `{}`})
		if got.status != 415 {
			t.Errorf("PUT %s of text: %d, want 415", path, got.status)
		}
	}
}

// TestControlClients gives an organization a client.
func TestControlClients(t *testing.T) {
	s := start(t, sandbox.Options{})
	body := `{"organization_id":"org_1","client_id":"c","use_for_member_access":true,"is_app_entitlement_active":true}`
	if got := control(t, s, "PUT", "clients", body); got.status != 204 {
		t.Fatal(got.status, got.raw)
	}
	got := do(t, s, ask{method: "GET", path: "/organizations?include_client_association_for=c"})
	for _, want := range []string{`"client":{"use_for_member_access":true}`, `"is_app_entitlement_active":true`} {
		if !strings.Contains(got.raw, want) {
			t.Errorf("%s, want %s in it", got.raw, want)
		}
	}
}

// TestControlScopes takes a scope away, also from a token that has it, and gives it back.
func TestControlScopes(t *testing.T) {
	s := start(t, sandbox.Options{})
	old := s.Token()
	status := func(token string) int {
		return do(t, s, ask{method: "GET", path: s.BaseURL() + "/organizations", token: token}).status
	}
	withhold := func(body string) {
		t.Helper()
		if got := control(t, s, "PUT", "scopes", body); got.status != 204 {
			t.Fatal(got.status, got.raw)
		}
	}
	withhold(`{"withheld":["read:organizations"]}`)
	if got := status(old); got != 403 {
		t.Errorf("with the scope withheld: %d", got)
	}
	got := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token/", token: "none", contentType: asForm,
		body: credentials(s).Encode()})
	want := slices.DeleteFunc(sandbox.AllScopes(), func(scope string) bool { return scope == "read:organizations" })
	if diff := cmp.Diff(strings.Join(want, " "), got.json["scope"]); diff != "" {
		t.Errorf("granted meanwhile (-want +got):\n%s", diff)
	}
	withhold(`{}`)
	if got := status(old); got != 200 {
		t.Errorf("after it was given back: %d", got)
	}
}
