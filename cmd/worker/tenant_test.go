package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestLongestWaitHasTwoPermits checks the longest wait of a request: one shorter than the
// second permit takes would repeat the GET of a confirmation without end.
func TestLongestWaitHasTwoPermits(t *testing.T) {
	for _, text := range []string{"unlimited", "250/s", "16/s", "2/s", "150/min", "3/min"} {
		rate, err := pace.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		limit := pace.Limit{Rate: rate, Burst: 1, Reserve: 0.2}
		left, _ := limit.Effective()
		two := time.Duration(2 / left.PerSecond() * float64(time.Second))
		// Four requests, with their permits, must fit a task's ten minutes.
		if wait := longestWait(limit); wait < two || 4*(wait+30*time.Second) > 10*time.Minute {
			t.Errorf("%s: waits at most %v, and two permits take %v", text, wait, two)
		}
	}
}

// TestOneTenantsOutage has one tenant of a worker fail, each in another way, while the other
// one's rows are submitted. All of these are done before the failure ends. Those of the first
// are open, and done afterwards.
func TestOneTenantsOutage(t *testing.T) {
	redistest.NeedsLong(t, "takes some seconds")
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault sandbox.Fault
		words []string
	}{
		{"removals down", sandbox.Fault{Operation: sandbox.OpRemoveOrganizationClients, DropBefore: true},
			[]string{"transient: "}},
		{"API down, and its token endpoint", sandbox.Fault{DropBefore: true}, []string{"blocked: "}},
		{"API slow", sandbox.Fault{Latency: 5 * time.Second, Status: http.StatusServiceUnavailable}, nil},
		{"429 always", sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}, nil},
		{"token endpoint down", sandbox.Fault{Operation: sandbox.OpToken, Status: http.StatusServiceUnavailable},
			[]string{"blocked: ", "token"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const rows = 40
			ill, healthy := startBox(t, sandbox.Options{}), startBox(t, sandbox.Options{Seed: 7})
			env := map[string]string{
				"ILL": ill.ClientSecret(), "HEALTHY": healthy.ClientSecret(), "ORGOPS_REDIS_URL": redistest.URL(t),
				"ORGOPS_HTTP_ADDR": "off", "ORGOPS_PROBE_ADDR": "off", "ORGOPS_DEBUG_HTTP": "true", "ORGOPS_LOG_LEVEL": "debug",
				"ORGOPS_CONFIG": filepath.Join(t.TempDir(), "config.yaml"),
			}
			entry := func(name string, box *sandbox.Sandbox) string {
				return fmt.Sprintf(
					"  - {name: %s, base_url: %q, client_id: %s, client_secret_env: %s, client_auth: basic, body: form, rate: unlimited, resolvers: [%s], dns_mode: resolvers}\n",
					name, box.BaseURL(), box.ClientID(), strings.ToUpper(name), strings.Join(box.DNSAddrs(), ", "))
			}
			write(t, env["ORGOPS_CONFIG"], "tenants:\n"+entry("ill", ill)+entry("healthy", healthy))
			cured := ill.AddFault(tc.fault)
			p, d := begin(t, env), newDesk(t)

			// More than are executed at a time: they would fill every resource that the two
			// share.
			d.handIn(ledger.NewRun{ID: "of-ill", Tenant: "ill"}, tasks.TypeRemove, ill.SeedClients(rows))
			d.handIn(ledger.NewRun{ID: "of-ill-too", Tenant: "ill"}, tasks.TypeUpdate, ill.SeedUpdates(150))
			d.openFor("of-ill", rows, tc.words...)
			d.handIn(ledger.NewRun{ID: "updates", Tenant: "healthy"}, tasks.TypeUpdate, healthy.SeedUpdates(rows))
			d.handIn(ledger.NewRun{ID: "domains", Tenant: "healthy"}, tasks.TypeVerify, healthy.SeedDomains(rows))
			d.handIn(ledger.NewRun{ID: "clients", Tenant: "healthy"}, tasks.TypeRemove, healthy.SeedClients(rows))
			for _, id := range []string{"updates", "domains", "clients"} {
				d.well(id, rows)
			}
			if r := d.run("of-ill"); r.Settled() != 0 {
				t.Errorf("%d rows of the one that is out of order are settled", r.Settled())
			}
			cured()
			d.well("of-ill", rows)
			if status := p.stop(); status != 0 {
				t.Errorf("status %d", status)
			}
			askedAsTold(t, healthy, p.stderr.String())
		})
	}
}

// TestLimitOfOneOperation has a proxy before the API answer 429 to all but a few reads. A run of
// verifications waits for it; removals are sent meanwhile.
func TestLimitOfOneOperation(t *testing.T) {
	redistest.NeedsLong(t, "takes some seconds")
	t.Parallel()
	box, d := startBox(t, sandbox.Options{Rate: 20, Burst: 20}), newDesk(t)
	target, err := url.Parse(box.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	target.Path = ""
	through, reads := httputil.NewSingleHostReverseProxy(target), atomic.Int64{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && reads.Add(1) > 5 {
			w.Header().Set("Retry-After", "1000")
			w.Header().Set("X-Ratelimit-Limit", "5")
			w.Header().Set("X-Ratelimit-Remaining", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		through.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	p := begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_RATE": "20/s", "ORGOPS_BURST": "20",
		"ORGOPS_BASE_URL": proxy.URL + "/api/v2", "ORGOPS_AUDIENCE": box.BaseURL() + "/",
		"ORGOPS_PROBE_ADDR": "127.0.0.1:0"}))
	d.handIn(ledger.NewRun{ID: "domains"}, tasks.TypeVerify, box.SeedDomains(40))
	await(t, "the pause of reads", func() bool {
		_, body := p.page("probe-addr", "/readyz")
		return strings.Contains(body, "the API has asked to pause get_discovery_domain (429)")
	})
	for i := range 5 {
		id := fmt.Sprintf("clients-%d", i)
		d.handIn(ledger.NewRun{ID: ledger.RunID(id)}, tasks.TypeRemove, box.SeedClients(4))
		d.well(id, 4)
	}
	if r := d.run("domains"); r.Ended() {
		t.Error("the verifications have ended: nothing was limited")
	}
}

// askedAsTold checks that the settings take effect in the requests, that each request names
// its task, and that the log has the exchanges and no secret.
func askedAsTold(t *testing.T, box *sandbox.Sandbox, log string) {
	t.Helper()
	for _, r := range box.Requests() {
		switch run, _, _ := strings.Cut(strings.ReplaceAll(r.CorrelationID, ":", "-"), "-"); {
		case r.Operation == sandbox.OpToken:
		case run != "updates" && run != "domains" && run != "clients":
			t.Fatalf("%s %s says it is of %q", r.Method, r.Path, r.CorrelationID)
		case strings.HasPrefix(r.Body, "{"):
			t.Fatalf("JSON was sent: %s", r.Body)
		}
	}
	if !strings.Contains(log, `"msg":"http exchange"`) || !strings.Contains(log, `"path":"/oauth/token/"`) {
		t.Error("the exchanges are not in the log")
	}
	for _, secret := range []string{box.ClientSecret(), "eyJhbGci"} { // as tokens begin
		if at := strings.Index(log, secret); at >= 0 {
			t.Errorf("a secret is in the log: …%q…", log[max(0, at-300):at+3])
		}
	}
}
