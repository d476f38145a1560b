package console_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/miekg/dns"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/activity"
	"orgops/internal/console"
	"orgops/internal/customer"
	"orgops/internal/deliveries"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/internal/health"
	"orgops/internal/index"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/pace"
	"orgops/internal/sandbox"
	"orgops/internal/tenant"
	"orgops/internal/web"
	"orgops/internal/webhooks"
	"orgops/tasks/handlers"
)

// lookSite has the pages of a worker whose tenant is a sandbox.
type lookSite struct {
	http.Handler
	box    *sandbox.Sandbox
	mini   *miniredis.Miniredis
	rdb    redis.UniversalClient
	ledger *ledger.Ledger
	pace   *pace.Limiter
	log    *bytes.Buffer
	config console.Config
	dns    *dnscheck.Checker
	org    string
	domain sandbox.Domain
}

// permits is a limiter as the gate of a client.
type permits struct{ *pace.Limiter }

func (p permits) Wait(ctx context.Context, r apiclient.Request) error {
	return p.Limiter.Wait(ctx, pace.Request{Operation: r.Operation})
}

// newLookSite returns the site. Its resolvers are those of the sandbox unless there are others.
func newLookSite(t *testing.T, resolvers ...dnscheck.Resolver) lookSite {
	t.Helper()
	box, err := sandbox.Start(sandbox.Options{Resolvers: 3})
	if err != nil {
		t.Fatal(err)
	}
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	s := lookSite{box: box, mini: mini, rdb: rdb, ledger: ledger.New(rdb), log: new(bytes.Buffer),
		pace: pace.New(pace.Config{Redis: rdb, Tenant: "acme"})}
	s.org = box.AddOrganization("", "northwind")
	s.domain = box.AddDomain(s.org, sandbox.Domain{Domain: "northwind.example"})

	failed := new(console.APIErrors)
	api, err := apiclient.New(apiclient.Config{BaseURL: box.BaseURL(), Gate: permits{s.pace}, Failed: failed.Note,
		Tokens: apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: apiclient.DefaultTokenURL(box.AuthURL()), Audience: box.BaseURL() + "/", ClientID: box.ClientID(),
			ClientSecret: apiclient.NewSecret(box.ClientSecret()),
		})})
	if err != nil {
		t.Fatal(err)
	}
	if len(resolvers) == 0 {
		for _, addr := range box.DNSAddrs() {
			r, err := dnscheck.ParseResolver(addr)
			if err != nil {
				t.Fatal(err)
			}
			resolvers = append(resolvers, r)
		}
	}
	var servers []string
	for _, r := range resolvers {
		servers = append(servers, r.String())
	}
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.dns = checker
	network := func() dnscheck.Network { return dnscheck.Network{Port53: dnscheck.Port53Closed, Why: "no answer"} }
	receivers := endpoints(t)
	s.config = console.Config{
		Redis: rdb, Ledger: s.ledger, Intake: intake.New(rdb, s.ledger), Unsigned: web.Operator,
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		Tenants: func() []console.Tenant {
			return []console.Tenant{{
				Served: health.Served{
					Settings: tenant.Settings{Announced: tenant.Announced{Tenant: "acme", Rate: "10/s", Burst: 5, Reserve: 20,
						Sweep: "0 3 * * *", DNSMode: "resolvers", ResolverQuorum: 2,
						Resolvers: servers}},
					API: api, DNS: checker,
				},
				Network: network, Errors: failed, Webhooks: receivers,
			}}
		},
	}
	s.Handler = console.Pages(s.config)
	t.Cleanup(func() {
		checker.Close()
		api.CloseIdle()
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// endpoints returns a receiver of events.
func endpoints(t *testing.T) []webhooks.Endpoint {
	t.Helper()
	hooks := filepath.Join(t.TempDir(), "hooks.yaml")
	if err := os.WriteFile(hooks, []byte("endpoints: [{name: crm, url: https://crm.example/token, secret_env: SECRET}]"),
		0o600); err != nil {
		t.Fatal(err)
	}
	receivers, err := webhooks.ReadEndpoints(hooks, func(string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	})
	if err != nil {
		t.Fatal(err)
	}
	return receivers
}

func (s lookSite) do(t *testing.T, method, target string, form url.Values) (status int, page string) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Origin", "http://127.0.0.1:8080")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code == http.StatusSeeOther {
		return s.do(t, http.MethodGet, w.Header().Get("Location"), nil)
	}
	return w.Code, w.Body.String()
}

// asked returns the query of a domain's page.
func asked(tenant, organization, domain string) url.Values {
	return url.Values{"tenant": {tenant}, "organization": {organization}, "domain": {domain}}
}

// row makes a run with one row of the domain, which is open for that reason.
func (s lookSite) row(t *testing.T, run, tenant, org, domain, host, reason string) {
	t.Helper()
	row := fmt.Sprintf(`{"organization_id":%q,"discovery_domain_id":%q,"verification_host":%q}`, org, domain, host)
	ledgertest.Submit(t, s.ledger, ledger.NewRun{ID: ledger.RunID(run), Tenant: ledger.Tenant(tenant),
		Description: ledger.Description{Format: "jsonl"}}, row)
	if reason != "" {
		ledgertest.Wait(t, s.ledger, run, reason, time.Minute, 1)
	}
}

// serve has a worker serve the tenant acme for some seconds.
func (s lookSite) serve(t *testing.T) {
	t.Helper()
	_, err := s.ledger.Renew(t.Context(), ledger.Session{ID: livingWorker, Tenants: []ledger.Tenant{"acme"}})
	mustNot(t, err)
}

func wantIn(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func wantNotIn(t *testing.T, page string, unwanted ...string) {
	t.Helper()
	for _, text := range unwanted {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q in it:\n%s", text, page)
		}
	}
}

const script = `<script>alert(1)</script>`

func TestDomainPageSaysWhyItIsNotVerified(t *testing.T) {
	s := newLookSite(t)
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "not_yet: there it says "+script)
	s.row(t, "run-2", "acme", s.org, s.domain.ID, "", "")
	path := "/domains?" + asked("acme", s.org, s.domain.ID).Encode()
	status, page := s.do(t, http.MethodGet, path, nil)
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	wantIn(t, page, "Domain northwind.example", "no executed row waits", "No executed row has read",
		`<span class="id" id="fact-domain">`+s.domain.ID+`</span> <button type="button" data-copy="fact-domain"`,
		`<dt>Status</dt><dd><span class="badge wait">pending</span></dd>`, "<dt>Used for discovery</dt><dd>unknown</dd>",
		`href="`+html.EscapeString(path)+`&amp;all=1"`)
	wantNotIn(t, page, "/runs/run-")

	knows(t, s.ledger, "run-1", s.org, s.domain.ID, "northwind.example")
	_, page = s.do(t, http.MethodGet, path, nil)
	wantIn(t, page, "its row waits: no row of the tenant is executed", "No worker of tenant acme has been seen",
		"Start a worker that serves it")
	s.serve(t)
	_, page = s.do(t, http.MethodGet, path, nil)
	wantIn(t, page, "a run is checking it", "&lt;script&gt;", `href="/runs/run-1"`, "the row that was executed last",
		"&amp;all=1")
	wantNotIn(t, page, script, "/runs/run-2")

	s.serve(t)
	_, page = s.do(t, http.MethodGet, path+"&all=1", nil)
	wantIn(t, page, "a run is checking it", `href="/runs/run-1"`, `href="/runs/run-2"`)
	wantNotIn(t, page, script, "executed last", "all=1")
}

// TestDomainPageShowsTheRecordWhole: support sends host and value of the TXT record to the
// customer. Half a value proves nothing.
func TestDomainPageShowsTheRecordWhole(t *testing.T) {
	s := newLookSite(t)
	d := s.box.AddDomain(s.org, sandbox.Domain{Domain: strings.Repeat("subsidiary.", 9) + "example",
		TXT: "token=" + strings.Repeat("0123456789abcdef", 12) + "  &end"})
	_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, d.ID).Encode(), nil)
	wantIn(t, joined(page), `<dt>Full name</dt><dd><code id="publish-host">`+d.Host+"</code>",
		`<dt>Value</dt><dd><code id="publish-value">`+html.EscapeString(d.TXT)+"</code>")

	s.row(t, "run-1", "acme", s.org, d.ID, "", "")
	s.execute(t, "run-1", handlers.VerifyConfig{DNS: tooFewDNS{}})
	s.box.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Status: http.StatusServiceUnavailable})
	_, page = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, d.ID).Encode(), nil)
	wantIn(t, joined(page), "As a worker has read it last.",
		`<dt>Full name</dt><dd><code id="publish-host">`+d.Host+"</code>",
		`<dt>Value</dt><dd><code id="publish-value">`+html.EscapeString(d.TXT)+"</code>")
}

// TestDomainPageSaysWhatToPublish: support copies from the page, by buttons or without a script.
func TestDomainPageSaysWhatToPublish(t *testing.T) {
	s := newLookSite(t, zoneAtGoDaddy(t, "northwind.example."))
	name := "_ss-verification." + s.org
	_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, s.domain.ID).Encode(), nil)
	wantIn(t, page, "<dt>Type</dt><dd>TXT</dd>", `<code id="publish-name">`+name+"</code>",
		"<dt>In the zone</dt><dd>northwind.example, by its name servers at GoDaddy</dd>", "<dt>TTL</dt><dd>300 seconds</dd>",
		"   Name:       "+name+"\n   Full name:  "+s.domain.Host+"\n   Value:      "+s.domain.TXT+"\n",
		"Tell us when you have published", "enqueue domains verify --tenant acme --org "+s.org+" --domain "+s.domain.ID)
	for _, what := range []string{"name", "host", "value", "text"} {
		wantIn(t, page, ` id="publish-`+what+`">`, `<button type="button" data-copy="publish-`+what+`" aria-label="Copy `)
	}

	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "not_yet: no")
	_, page = s.do(t, http.MethodGet, "/domains?all=1&"+asked("acme", s.org, s.domain.ID).Encode(), nil)
	wantIn(t, page, "We look for the record by ourselves, next on ", "<dt>Next check</dt><dd><time")
	wantNotIn(t, page, "Tell us when")

	s.box.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Status: http.StatusServiceUnavailable})
	_, page = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, s.domain.ID).Encode(), nil)
	wantIn(t, page, "no row of tenant acme about it was executed")
	wantNotIn(t, page, "publish-value")
}

// TestWhatToPublishIsText has a tenant's record say markup.
func TestWhatToPublishIsText(t *testing.T) {
	s := newLookSite(t)
	d := s.box.AddDomain(s.org, sandbox.Domain{Domain: "markup.example", TXT: script + "\u202e"})
	_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, d.ID).Encode(), nil)
	wantIn(t, page, "has characters that cannot be copied", html.EscapeString(script)+"\\u202e")
	wantNotIn(t, page, script, `data-copy="publish-`)
	d = s.box.AddDomain(s.org, sandbox.Domain{Domain: "markup2.example", TXT: "</pre>" + script})
	_, page = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, d.ID).Encode(), nil)
	wantIn(t, page, "   Value:      "+html.EscapeString("</pre>"+script)+"\n")
	wantNotIn(t, page, script, "</pre><script")
}

// zoneAtGoDaddy returns a resolver that knows the name servers of a zone, and nothing else.
func zoneAtGoDaddy(t *testing.T, zone string) dnscheck.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(up) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			m := new(dns.Msg)
			m.SetReply(q)
			m.RecursionAvailable = true
			if one := q.Question[0]; one.Qtype == dns.TypeNS && dns.CanonicalName(one.Name) == zone {
				m.Answer = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: one.Name, Rrtype: one.Qtype, Class: dns.ClassINET, Ttl: 60},
					Ns: "ns47.domaincontrol.com."}}
			}
			_ = w.WriteMsg(m)
		})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.ActivateAndServe() })
	<-up
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = server.Shutdown() })
	return dnscheck.Resolver{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort(), Transport: "udp"}
}

// knows has the index of names store a domain, as the first row of the run has read it.
func knows(t *testing.T, l *ledger.Ledger, run ledger.RunID, organization, id, name string) {
	t.Helper()
	r, err := l.Get(t.Context(), "", run)
	if err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation}
	k := index.Entry{Domain: discovery.Domain{OrganizationID: organization, ID: id, Name: name, Host: "_v." + name,
		TXT: "t", Status: schema.StatusPending}, Read: time.Now(), At: time.Now(), Run: r.ID}
	if _, err := l.End(t.Context(), seg, ledger.NewNonce(),
		ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: k.Subject()}); err != nil {
		t.Fatal(err)
	}
}

// TestDomainPageShowsTheMistake checks that pages have the mistake and its remedy as the reason of
// a row, and that the values found are neither markup nor a link.
func TestDomainPageShowsTheMistake(t *testing.T) {
	s := newLookSite(t)
	s.box.SetTXT(s.domain.Host, `<a href="https://evil.example">`+s.domain.TXT+"</a>")
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "")
	s.execute(t, "run-1", handlers.VerifyConfig{DNS: s.dns})
	for _, path := range []string{"/runs/run-1", "/domains?" + asked("acme", s.org, s.domain.ID).Encode()} {
		_, page := s.do(t, http.MethodGet, path, nil)
		wantIn(t, joined(page), "The value at "+s.domain.Host+" has the expected one and more in it (", `\x3ca href=`,
			"enter the expected value alone.")
		wantNotIn(t, page, "<a href=\"https://evil", "https://evil", "&lt;a href")
	}
}

func TestDomainIsFoundByIdOrName(t *testing.T) {
	s := newLookSite(t)
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "_v.northwind.example", "not_yet: no")
	s.row(t, "run-2", "acme", "org_new", "ord_new", "", "not_yet: no")
	knows(t, s.ledger, "run-1", s.org, s.domain.ID, "northwind.example")
	knows(t, s.ledger, "run-1", "org_other", "ord_2", "southwind.example")
	knows(t, s.ledger, "run-1", "org_third", "ord_3", "southwind.example")
	knows(t, s.ledger, "run-1", "org_third", "ord_4", "southwind2.example")
	for _, c := range []struct {
		name   string
		asked  url.Values
		status int
		want   []string
	}{
		{"nothing asked for", url.Values{}, http.StatusOK, []string{"Find out why a domain is not verified"}},
		{"the id alone", asked("acme", "", s.domain.ID), http.StatusOK, []string{`id="summary"`, "northwind.example"}},
		{"its name, by the API", asked("acme", s.org, "NORTHWIND.example"), http.StatusOK,
			[]string{`id="summary"`, s.domain.ID}},
		{"its name", asked("acme", "", "northwind.example"), http.StatusOK, []string{`id="summary"`, s.domain.ID}},
		{"the beginning of its name", asked("acme", "", "north"), http.StatusOK, []string{`id="summary"`, s.domain.ID}},
		{"the beginning of several", asked("acme", "", "south"), http.StatusOK,
			[]string{`id="candidates"`, "ord_2", "ord_3", "ord_4", "southwind2.example"}},
		{"the beginning of several, of one organization", asked("acme", "org_other", "southwind.example"), http.StatusOK,
			[]string{`id="summary"`, "ord_2"}},
		{"the id of a row that was not executed", asked("acme", "", "ord_new"), http.StatusBadRequest,
			[]string{"name the organization too"}},
		{"a name of two", asked("acme", "", "southwind.example"), http.StatusOK,
			[]string{`id="candidates"`, "ord_2", "ord_3"}},
		{"a name of nobody", asked("acme", "", "elsewhere.example"), http.StatusBadRequest,
			[]string{"name the organization too"}},
		{"an id of nobody", asked("acme", "", "ord_none"), http.StatusBadRequest, []string{"name the organization too"}},
		{"no such record", asked("acme", s.org, "ord_none"), http.StatusOK, []string{"The API has no such domain"}},
		{"a letter of none", asked("acme", "", "q"), http.StatusBadRequest, []string{"no domain of tenant acme has that id"}},
		{"its name in capitals", asked("acme", "", "NorthWind.example"), http.StatusOK,
			[]string{`id="summary"`, s.domain.ID}},
		{"not an id", asked("acme", s.org, script), http.StatusBadRequest, []string{`id="problem"`}},
		{"not a tenant", asked("A/../b", s.org, "ord_1"), http.StatusBadRequest, []string{`id="problem"`}},
		{"the organization alone", asked("acme", s.org, ""), http.StatusBadRequest,
			[]string{"domain: want its id or its name"}},
		{"another worker's", asked("other", s.org, s.domain.ID), http.StatusOK,
			[]string{`id="not-served"`, "does not serve tenant other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, page := s.do(t, http.MethodGet, "/domains?"+c.asked.Encode(), nil)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			wantIn(t, page, c.want...)
			wantNotIn(t, page, script)
		})
	}
}

// TestDomainIsListedInUnicode checks that a name in Unicode finds the record that the tenant lists
// in punycode.
func TestDomainIsListedInUnicode(t *testing.T) {
	s := newLookSite(t)
	d := s.box.AddDomain(s.org, sandbox.Domain{Domain: "xn--bcher-kva.example"})
	_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, "B\u00fccher.example.").Encode(), nil)
	wantIn(t, page, d.ID)
}

// TestDomainIsFoundNextToABadRecord checks that a listed record outside the specification does
// not prevent finding another one by its name, and is found by its own name if it has an ID.
func TestDomainIsFoundNextToABadRecord(t *testing.T) {
	s := newLookSite(t)
	list := func(records ...string) {
		s.box.AddFault(sandbox.Fault{Operation: sandbox.OpListDiscoveryDomains, Count: 1,
			Body: `{"domains":[` + strings.Join(records, ",") + `]}`})
	}
	good, err := json.Marshal(s.domain)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, bad, want string }{
		{"its name", `{"id":"ord_bad","domain":"a_b.example"}`, s.domain.ID},
		{"the bad one's name", `{"id":"` + s.domain.ID + `","domain":"Bad.example","status":"new"}`, s.domain.ID},
		{"the name of one without an id", `{"domain":"bad.example","status":"pending"}`,
			"of that name violates the specification: domains[0], which has no valid id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list(c.bad, string(good))
			name := "bad.example"
			if c.name == "its name" {
				name = s.domain.Domain
			}
			_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, name).Encode(), nil)
			wantIn(t, page, c.want)
		})
	}
}

func TestDomainPageWithoutTheAPI(t *testing.T) {
	s := newLookSite(t)
	s.box.AddFault(sandbox.Fault{Operation: sandbox.OpGetDiscoveryDomain, Status: http.StatusServiceUnavailable})
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "not_yet: no")
	knows(t, s.ledger, "run-1", s.org, s.domain.ID, "northwind.example")
	_, page := s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, s.domain.ID).Encode(), nil)
	wantIn(t, page, "503 Service Unavailable", `href="/runs/run-1"`, "Domain northwind.example",
		"<dt>Name</dt><dd>northwind.example</dd>", `<span class="badge wait">pending, read at <time`)
	wantNotIn(t, page, "Used for discovery")
	_, page = s.do(t, http.MethodGet, "/tenants", nil)
	wantIn(t, page, "503 Service Unavailable", "get_discovery_domain")
}

func TestCheckNow(t *testing.T) {
	s := newLookSite(t)
	s.box.SetTXT(s.domain.Host, script, s.domain.TXT+"x")
	status, page := s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	wantIn(t, page, `id="checked"`, "current record", "absent", "resolver 127.0.0.1:", `\x3cscript\x3e`, "What to do")
	wantNotIn(t, page, script)

	s.box.SetTXT(s.domain.Host, s.domain.TXT)
	_, page = s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, `<span class="badge good">present (`)
	if d, _ := s.box.Domain(s.org, s.domain.ID); d.Status != "pending" {
		t.Errorf("after a check the domain is %s", d.Status)
	}

	_, page = s.do(t, http.MethodPost, "/domains/check", asked("other", s.org, s.domain.ID))
	wantIn(t, page, "has none of its resolvers") // which sent no query, and is not counted
	s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	status, page = s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	if status != http.StatusOK || !strings.Contains(page, "at most six checks a minute") ||
		strings.Contains(page, `id="checked"`) {
		t.Errorf("the fourth check at once: %d\n%s", status, page)
	}
}

// TestCheckNowDecides checks that the headline is that of the check, which is newer than all else,
// and that a worker checks a domain whose record was found.
func TestCheckNowDecides(t *testing.T) {
	s := newLookSite(t)
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "not_yet: no")
	knows(t, s.ledger, "run-1", s.org, s.domain.ID, "northwind.example")
	s.serve(t)
	s.box.SetTXT(s.domain.Host, s.domain.TXT)
	_, page := s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, "Not verified yet, but the TXT record is published", "A worker checks it now")
	run, err := s.ledger.Get(t.Context(), "acme", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	released, err := s.ledger.Release(t.Context(), ledger.Segment{Tenant: "acme", Run: run.ID,
		Incarnation: run.Incarnation}, ledger.Quota{First: 9, Check: 9, Ready: 9})
	if err != nil || len(released.Rows) != 1 {
		t.Errorf("released %+v, %v; want the row", released.Rows, err)
	}

	verified := s.domain
	verified.Status = "verified"
	s.box.SetDomain(s.org, verified)
	_, page = s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, "<h2>Verified</h2>")
	s.box.SetTXT(s.domain.Host, "another")
	_, page = s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, "Verified, but the TXT record is missing", "holds another value")
}

// TestTenantsPageAfterAFailedToken: this page and the first one have the reason why nothing works,
// also while no row waits for the token.
func TestTenantsPageAfterAFailedToken(t *testing.T) {
	s := newLookSite(t)
	s.box.AddFault(sandbox.Fault{Operation: sandbox.OpToken, Status: http.StatusUnauthorized,
		Body: `{"error":"access_denied","error_description":"the client is gone"}`})
	_, _ = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, s.domain.ID).Encode(), nil) // fetches a token
	status, page := s.do(t, http.MethodGet, "/tenants", nil)
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	wantIn(t, page, "No token: POST ", "<dt>State</dt><dd>no valid token since ", "<dt>Last error</dt><dd>",
		"the client is gone", "<dt>Failures</dt>")
	_, page = s.do(t, http.MethodGet, "/", nil)
	wantIn(t, page, "No token: POST ", "the client is gone (since ")
	wantNotIn(t, page, "All is well")
}

func TestTenantsPage(t *testing.T) {
	s := newLookSite(t)
	s.row(t, "run-1", "other", "org_1", "ord_1", "", "not_yet: no")
	if err := s.pace.Block(t.Context(), schema.OpUpdateDiscoveryDomain, "403 insufficient_scope "+script,
		"fix it"); err != nil {
		t.Fatal(err)
	}
	_, _ = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, s.domain.ID).Encode(), nil) // fetches a token
	status, page := s.do(t, http.MethodGet, "/tenants?tenant=acme", nil)
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	_, other := s.do(t, http.MethodGet, "/tenants?tenant=other", nil)
	wantIn(t, other, `id="tenant-other"`, "shown only on the pages of workers that serve this tenant")
	wantIn(t, page, `id="tenant-acme" data-live`, "update_discovery_domain is blocked",
		"403 insufficient_scope &lt;script&gt;", "10/s, burst 5",
		"<dt>State</dt><dd>ok, fetched <time", "<dd>operator 127.0.0.1:", ", perspective default",
		"2 of 3 resolvers must agree",
		"From here, port 53 is closed", "set dns_mode: resolvers", "0 3 * * *, next at",
		"https://crm.example", "1 of 480 permits used in the last minute", "No errors since the start",
		"No row was settled, no request sent and no domain checked.")
	wantNotIn(t, page, script, s.box.ClientSecret(), "eyJ")
}

func TestMonitorLoadsNothingFromOtherHosts(t *testing.T) {
	s := newLookSite(t)
	for _, path := range []string{"/monitor/", "/monitor/queues/acme.dns/tasks/run-1-0-0", "/monitor/redis"} {
		_, page := s.do(t, http.MethodGet, path, nil)
		wantIn(t, page, `<div id="root">`, `<script src="/static/monitor.`)
		wantNotIn(t, page, `rel="manifest"`, "googleapis", "//fonts", `href="http`, `src="http`)
	}
}

func TestMonitorWrites(t *testing.T) {
	const queue = "/monitor/api/queues/acme.rows"
	for _, c := range []struct {
		name, method, path, body string
		want                     int
		paused                   bool
		pending, archived        int
	}{
		{"pause", http.MethodPost, queue + ":pause", "", http.StatusNoContent, true, 1, 0},
		{"archive one", http.MethodPost, queue + "/pending_tasks/run-1-0-0:archive", "", http.StatusNoContent, false, 0, 1},
		{"archive those chosen", http.MethodPost, queue + "/pending_tasks:batch_archive", `{"task_ids":["run-1-0-0"]}`,
			http.StatusOK, false, 0, 1},
		{"delete one", http.MethodDelete, queue + "/pending_tasks/run-1-0-0", "", http.StatusNoContent, false, 0, 0},
		{"delete the queue", http.MethodDelete, queue, "", http.StatusForbidden, false, 1, 0},
		{"delete all that wait", http.MethodDelete, queue + "/pending_tasks:delete_all", "",
			http.StatusForbidden, false, 1, 0},
		{"archive all that wait", http.MethodPost, queue + "/pending_tasks:archive_all", "",
			http.StatusForbidden, false, 1, 0},
		{"cancel what runs", http.MethodPost, queue + "/active_tasks/run-1-0-0:cancel", "",
			http.StatusForbidden, false, 1, 0},
		{"too long", http.MethodPost, queue + "/pending_tasks:batch_delete", strings.Repeat(" ", 65<<10),
			http.StatusRequestEntityTooLarge, false, 1, 0},
		{"delete one that is gone", http.MethodDelete, queue + "/pending_tasks/run-9-0-0", "",
			http.StatusInternalServerError, false, 1, 0},
		{"delete a chosen one that is gone", http.MethodPost, queue + "/pending_tasks:batch_delete",
			`{"task_ids":["run-9-0-0"]}`, http.StatusOK, false, 1, 0},
		{"a page", http.MethodPost, "/monitor/", "", http.StatusMethodNotAllowed, false, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newLookSite(t)
			task := asynq.NewTask("domain:verify", []byte(`{}`))
			if _, err := asynq.NewClientFromRedisClient(s.rdb).EnqueueContext(t.Context(), task, asynq.Queue("acme.rows"),
				asynq.TaskID("run-1-0-0")); err != nil {
				t.Fatal(err)
			}
			request := func(site string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
				r.Host = "127.0.0.1:8080"
				r.Header.Set("Sec-Fetch-Site", site)
				r.Header.Set("Origin", "http://127.0.0.1:8080")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w
			}
			if w := request("cross-site"); w.Code != http.StatusForbidden {
				t.Errorf("from another site: %d", w.Code)
			}
			w := request("same-origin")
			if w.Code != c.want {
				t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.want)
			}
			info, err := asynq.NewInspectorFromRedisClient(s.rdb).GetQueueInfo("acme.rows")
			if err != nil {
				t.Fatal(err)
			}
			if info.Paused != c.paused || info.Pending != c.pending || info.Archived != c.archived {
				t.Errorf("paused %v, pending %d, archived %d; want %v, %d, %d", info.Paused, info.Pending, info.Archived,
					c.paused, c.pending, c.archived)
			}
			all, _, err := activity.Page(t.Context(), s.rdb, activity.Query{Tenants: []string{"acme"}, Limit: 10})
			changed := c.want < 300 && !strings.HasSuffix(c.name, "gone")
			if recorded := len(all) == 1; err != nil || recorded != changed {
				t.Errorf("activity of the tenant: %v, %v", all, err)
			}
			if told := strings.Contains(s.log.String(), "queue changed by hand"); told != changed {
				t.Errorf("log: %s", s.log)
			}
		})
	}
}

// TestMonitorLosesNoEvent: a delivery is all that has its event. Requests that would take it from
// its receiver are refused, and are no activity; it may be sent again.
func TestMonitorLosesNoEvent(t *testing.T) {
	s := newLookSite(t)
	name := deliveries.Queue("acme", "crm")
	client, inspector := asynq.NewClientFromRedisClient(s.rdb), asynq.NewInspectorFromRedisClient(s.rdb)
	for _, id := range []string{"waiting", "given-up"} {
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask(deliveries.TaskType, []byte(`{}`)), asynq.Queue(name),
			asynq.TaskID(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := inspector.ArchiveTask(name, "given-up"); err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/monitor/api/queues/"+name+path, strings.NewReader(body))
		r.Host = "127.0.0.1:8080"
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Origin", "http://127.0.0.1:8080")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for _, c := range [][3]string{
		{"DELETE", "/pending_tasks/waiting", ""}, {"POST", "/pending_tasks/waiting:archive", ""},
		{"POST", "/pending_tasks:batch_delete", `{"task_ids":["waiting"]}`},
		{"POST", "/pending_tasks:batch_archive", `{"task_ids":["waiting"]}`},
		{"DELETE", "/pending_tasks:delete_all", ""}, {"DELETE", "/archived_tasks/given-up", ""},
		{"POST", "/archived_tasks:batch_delete", `{"task_ids":["given-up"]}`}, {"DELETE", "/archived_tasks:delete_all", ""},
	} {
		if w := do(c[0], c[1], c[2]); w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(), "would be lost for its receiver") {
			t.Errorf("%s %s: %d %s, want it refused, and why", c[0], c[1], w.Code, w.Body)
		}
	}
	info, err := inspector.GetQueueInfo(name)
	if err != nil || info.Pending != 1 || info.Archived != 1 {
		t.Errorf("%+v, %v; want a delivery that waits, and one that was given up", info, err)
	}
	all, _, err := activity.Page(t.Context(), s.rdb, activity.Query{Tenants: []string{"acme"}, Limit: 10})
	if err != nil || len(all) > 0 {
		t.Errorf("activity of the tenant: %v, %v; want none", all, err)
	}
	if w := do("POST", "/archived_tasks/given-up:run", ""); w.Code != http.StatusNoContent {
		t.Errorf("to send it again: %d %s", w.Code, w.Body)
	}
}

// TestInvalidChecksAreNotLimited checks that a check with invalid input does not count towards
// the limit of checks.
func TestInvalidChecksAreNotLimited(t *testing.T) {
	s := newLookSite(t)
	for range 5 {
		if status, page := s.do(t, http.MethodPost, "/domains/check",
			asked("acme", s.org, "a/b!")); status != http.StatusBadRequest {
			t.Errorf("no id: status %d: %s", status, page)
		}
		if status, page := s.do(t, http.MethodPost, "/domains/check",
			asked("other", s.org, s.domain.ID)); status != http.StatusOK {
			t.Errorf("another worker's: status %d: %s", status, page)
		}
	}
	status, page := s.do(t, http.MethodPost, "/domains/check", asked("acme", s.org, s.domain.ID))
	if status != http.StatusOK {
		t.Errorf("status %d: %s", status, page)
	}
}

// tooFewDNS finds the token at too few name servers.
type tooFewDNS struct{ handlers.DNS }

func (tooFewDNS) Check(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	return dnscheck.Verdict{State: dnscheck.Present, Host: host}, nil
}

func (tooFewDNS) Prove(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	return dnscheck.Verdict{Reason: dnscheck.ReasonTooFew, Host: host, Basis: dnscheck.ByBoth}, nil
}

// noLine is a tenant without requests that wait for a permit.
type noLine struct{}

func (noLine) Ahead(pace.Class) time.Duration { return 0 }

// execute has a worker execute the rows of a run that are due.
func (s lookSite) execute(t *testing.T, id ledger.RunID, cfg handlers.VerifyConfig) {
	t.Helper()
	api, err := apiclient.New(apiclient.Config{BaseURL: s.box.BaseURL(),
		Tokens: apiclient.StaticToken(apiclient.NewSecret(s.box.Token()))})
	if err != nil {
		t.Fatal(err)
	}
	defer api.CloseIdle()
	cfg.API = func(b apiclient.Binding) handlers.Domains { return api.For(b) }
	cfg.Line, cfg.RequestTimeout = noLine{}, time.Second
	cfg.GiveUp = 72 * time.Hour
	core := s.ledger
	worker := engine.New(engine.Config{
		Tenant: "acme", Ledger: core, Session: ledger.NewSessionID(), Logger: slog.New(slog.DiscardHandler),
		Handlers: map[ledger.Kind]engine.Handler{handlers.Verify: handlers.NewVerify(cfg)},
	})
	run, err := core.Get(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	released, err := core.Release(t.Context(), seg, ledger.Quota{First: 1, Check: 1, Ready: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(released.Rows) == 0 {
		return
	}
	payload, err := engine.NewTask(run, seg, released.Token, released.Rows...).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	_ = worker.ProcessTask(t.Context(), asynq.NewTask(string(handlers.Verify), payload)) // its result is in the ledger
}

// TestMakeALink checks the remedy of an expired row on the page: a link, made by support, whose
// making has the domain checked again. The link is in that answer alone.
func TestMakeALink(t *testing.T) {
	s := newLookSite(t)
	address := "/domains?" + asked("acme", s.org, s.domain.ID).Encode()
	s.row(t, "run-1", "acme", s.org, s.domain.ID, "", "")
	ledgertest.Settle(t, s.ledger, "run-1", "expired", "there is no TXT record", 0)
	knows(t, s.ledger, "run-1", s.org, s.domain.ID, "northwind.example")
	_, page := s.do(t, http.MethodGet, address, nil)
	wantIn(t, page, "Once the customer has corrected the record: press Check now.",
		"If the record is there, a worker proves it and verifies the domain at once; otherwise this changes nothing.")
	wantNotIn(t, page, `action="/domains/link"`, "Make a link", "runs retry")
	_, page = s.do(t, http.MethodPost, "/domains/link", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, "No link was made: this worker makes no links")

	s.config.Links = linksOf(t, s.rdb, s.ledger)
	s.Handler = console.Pages(s.config)
	_, page = s.do(t, http.MethodGet, address, nil)
	wantIn(t, page, "press Check now, or Make a link to have it checked for 14 days", `action="/domains/link"`)
	_, page = s.do(t, http.MethodPost, "/domains/link", asked("acme", s.org, s.domain.ID))
	wantIn(t, page, `<code id="link-url">https://verify.example.com/`)
	wantIn(t, page, "it is checked as long as the link is valid")
	open, err := s.ledger.CountSingles(t.Context(), "acme")
	if err != nil || open["acme"] != 1 {
		t.Errorf("open single rows %v, %v; want that of the link", open, err)
	}
	_, page = s.do(t, http.MethodGet, address, nil)
	wantNotIn(t, page, "https://verify.example.com/")
	if strings.Contains(s.log.String(), "https://verify.example.com/") {
		t.Error("the log has the link")
	}

	never := s.box.AddDomain(s.org, sandbox.Domain{Domain: "never.example"})
	_, page = s.do(t, http.MethodGet, "/domains?"+asked("acme", s.org, never.ID).Encode(), nil)
	wantIn(t, page, "This changes nothing. To have a worker verify the domain:",
		"enqueue domains verify --tenant acme --org "+s.org+" --domain "+never.ID)
	wantNotIn(t, page, "press Check now")
	_, page = s.do(t, http.MethodPost, "/domains/link", asked("acme", s.org, never.ID))
	wantIn(t, page, "No link was made: no row about the domain was executed", "domains verify --tenant acme --org "+s.org)
}

// linksOf makes links to https://verify.example.com.
func linksOf(t *testing.T, rdb redis.Cmdable, l *ledger.Ledger) *customer.Links {
	t.Helper()
	key := filepath.Join(t.TempDir(), "link.key")
	mustNot(t, os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600))
	links, err := customer.Settings{LinkKeys: []string{key}, LinkURL: "https://verify.example.com"}.
		Open(rdb, l, slog.New(slog.DiscardHandler))
	mustNot(t, err)
	return links
}
