package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/console"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/metrics"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
	"orgops/internal/web"
)

// TestRoundTrips checks that the metrics and pages of 200 tenants take as many round trips as
// those of three, and those of 201 to 400 at most twice as many. Each tenant has queues, and the
// worker serves every other one. Each, or if long tests do not run the first 80, has a run:
// with one round trip for every other of these, there would be too many too.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	few, many := roundTrips(t, 3), roundTrips(t, 250)
	for what, n := range few {
		t.Logf("%s: %d round trips for 3 tenants, %d for 250", what, n, many[what])
		if n == 0 || many[what] > 2*n {
			t.Errorf("%s: %d round trips for 3 tenants, %d for 250", what, n, many[what])
		}
	}
}

// roundTrips returns the number of round trips of each page and of the metrics for n tenants.
func roundTrips(t *testing.T, n int) map[string]int64 {
	p := newPages(t)
	l, tenants, settings := ledger.New(p.rdb), []console.Tenant(nil), []tenant.Announced(nil)
	client := asynq.NewClientFromRedisClient(p.rdb)
	count := new(redistest.RoundTrips)
	read := func() map[string]int64 {
		took := map[string]int64{}
		m := metrics.New(prometheus.NewRegistry())
		m.WatchRedis(p.rdb, l, func() []tenant.Announced { return settings }, slog.New(slog.DiscardHandler))
		cfg := console.Config{Redis: p.rdb, Ledger: l, Unsigned: web.Reader,
			Tenants: func() []console.Tenant { return tenants }}
		for path, h := range map[string]http.Handler{"/metrics": m.Handler(), "/runs": console.Pages(cfg),
			"/tenants": console.Pages(cfg)} {
			before := count.Load()
			if w := do(h, http.MethodGet, path, nil); w.Code != http.StatusOK {
				t.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
			}
			took[path] = count.Load() - before
		}
		return took
	}
	for i := range n {
		name := fmt.Sprint("tenant-", i)
		if i < redistest.Amount(80, n) {
			ledgertest.Submit(t, l, ledger.NewRun{ID: ledger.RunID("of-" + name), Tenant: ledger.Tenant(name)},
				`{"organization_id":"org_1","discovery_domain_id":"ord_1"}`)
		}
		for _, queue := range []string{".rows", ".webhook.crm"} {
			_, err := client.Enqueue(asynq.NewTask("x", nil), asynq.Queue(name+queue))
			mustNot(t, err)
		}
		if i%2 == 0 {
			settings = append(settings, tenant.Announced{Tenant: name, Rate: "10/s", Burst: 10})
			tenants = append(tenants, console.Tenant{Served: health.Served{Settings: settings[len(settings)-1]}})
		}
		if i == 2 {
			read() // connects, and stores the scripts
		}
	}
	p.rdb.AddHook(count)
	return read()
}

// TestManyTenants checks that each tenant is on one of the pages, that a page of several
// starts at the requested tenant, and that an unknown tenant is reported.
func TestManyTenants(t *testing.T) {
	p := newPages(t)
	var tenants []console.Tenant
	for i := range 120 {
		name := fmt.Sprintf("tenant-%03d", i)
		tenants = append(tenants, console.Tenant{
			Served: health.Served{Settings: tenant.Announced{Tenant: name, Rate: "10/s", Burst: 10}},
		})
	}
	ids := regexp.MustCompile(`<section id="tenant-(tenant-\d+)"`)
	shown := func(n int, path string) (names []string, page string) {
		t.Helper()
		w := do(console.Pages(console.Config{Redis: p.rdb, Ledger: ledger.New(p.rdb), Unsigned: web.Reader,
			Tenants: func() []console.Tenant { return tenants[:n] }}), http.MethodGet, path, nil)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		for _, match := range ids.FindAllStringSubmatch(w.Body.String(), -1) {
			names = append(names, match[1])
		}
		return names, w.Body.String()
	}
	var all []string
	path := "/tenants"
	for range 3 {
		names, page := shown(120, path)
		if first := link(page, "First"); (first == "") != (path == "/tenants") {
			t.Errorf("%s: first page %q", path, first)
		}
		if !strings.Contains(page, "120 tenants") || !strings.Contains(page, `<option value="tenant-119">`) {
			t.Errorf("%s does not offer all tenants", path)
		}
		all, path = append(all, names...), link(page, "Next")
	}
	if path != "" || len(all) != 120 || !slices.IsSorted(all) || len(slices.Compact(all)) != 120 {
		t.Errorf("on the pages: %q, then %q", all, path)
	}
	if names, _ := shown(120, "/tenants?tenant=tenant-077"); len(names) != 43 || names[0] != "tenant-077" {
		t.Errorf("from tenant-077: %q", names)
	}
	if names, page := shown(120, "/tenants?tenant=no<ne"); len(names) != 50 ||
		!strings.Contains(page, "There is no tenant no&lt;ne in this Redis.") {
		t.Errorf("an unknown tenant: %q", names)
	}
	if names, page := shown(50, "/tenants?tenant=tenant-020"); len(names) != 50 || strings.Contains(page, "50 tenants") ||
		link(page, "First")+link(page, "Next") != "" {
		t.Errorf("of 50 tenants: %q", names)
	}
}
