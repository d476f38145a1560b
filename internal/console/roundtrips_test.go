package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"orgops/internal/console"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/metrics"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
	"orgops/internal/web"
)

// TestRoundTrips checks that the metrics and pages of 200 tenants take as many round trips as
// those of three, and those of 201 to 400 at most twice as many; and that a page asks for the
// worker's tenants, all of which it then has, as often. Each tenant has queues, and the
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
		var asked atomic.Int64
		cfg := console.Config{Redis: p.rdb, Ledger: l, Unsigned: web.Reader, Tenants: func() []console.Tenant {
			asked.Add(1)
			return tenants
		}}
		for path, h := range map[string]http.Handler{"/metrics": m.Handler(), "/": console.Pages(cfg),
			"/runs":    console.Pages(cfg),
			"/tenants": console.Pages(cfg)} {
			before := count.Load()
			asked.Store(0)
			if w := do(h, http.MethodGet, path, nil); w.Code != http.StatusOK {
				t.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
			}
			took[path] = count.Load() - before
			if n := asked.Load(); n > 0 {
				took[path+", the worker's tenants"] = n
			}
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
			tenants = append(tenants, servedHere(settings[len(settings)-1]))
		}
		if i == 2 {
			read() // connects, and stores the scripts
		}
	}
	p.rdb.AddHook(count.Hook())
	return read()
}

// TestManyTenants checks that each tenant is on one of the first pages, held ones before the
// others, and that a tenant's page names one that is unknown.
func TestManyTenants(t *testing.T) {
	p := newPages(t)
	var tenants []console.Tenant
	for i := range 120 {
		tenants = append(tenants, servedHere(
			tenant.Announced{Tenant: fmt.Sprintf("tenant-%03d", i), Rate: "10/s", Burst: 10}))
	}
	session := ledger.Session{ID: livingWorker, Version: "1.2.3", Busy: 3, Places: 400, Refused: true}
	for i := range 120 {
		if i != 90 { // no worker serves it
			session.Tenants = append(session.Tenants, ledger.Tenant(fmt.Sprintf("tenant-%03d", i)))
		}
	}
	_, err := ledger.New(p.rdb).Renew(t.Context(), session)
	mustNot(t, err)
	pages := console.Pages(console.Config{Redis: p.rdb, Ledger: ledger.New(p.rdb), Unsigned: web.Reader,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Tenants: func() []console.Tenant { return tenants }})
	shown := func(path string) string {
		t.Helper()
		w := do(pages, http.MethodGet, path, nil)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	want := []string{"tenant-090"}
	for i := range 120 {
		if i != 90 {
			want = append(want, fmt.Sprintf("tenant-%03d", i))
		}
	}
	var all []string
	path := "/"
	for range 3 {
		page := shown(path)
		if first := link(page, "First"); (first == "") != (path == "/") {
			t.Errorf("%s: first page %q", path, first)
		}
		if text := plain(page); !strings.Contains(text, "1 worker serves 119 tenants; 1 without a worker.") ||
			!strings.Contains(text, "version 1.2.3: 119 tenants, 3 of 400 places busy, seen ") ||
			!strings.Contains(text, "it refuses its changed file of tenants") {
			t.Errorf("%s: %s", path, text)
		}
		for _, match := range regexp.MustCompile(`<li id="tenant-(tenant-\d+)"`).FindAllStringSubmatch(page, -1) {
			all = append(all, match[1])
		}
		path = link(page, "Next")
	}
	if path != "" || !slices.Equal(all, want) {
		t.Errorf("on the pages: %q, then %q", all, path)
	}
	slices.Sort(want)
	for first, want := range map[string][]string{
		"/tenants": want, "/tenants?q=-09": want[90:100], "/tenants?q=none": nil,
	} {
		var all []string
		for path := first; path != ""; {
			page := shown(path)
			names := regexp.MustCompile(`<li><a href="/tenants\?tenant=([^"]+)"`).FindAllStringSubmatch(page, -1)
			if path = link(page, "Next"); path != "" && len(names) != 50 {
				t.Errorf("%s: %d tenants on a page", path, len(names))
			}
			for _, name := range names {
				all = append(all, name[1])
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("%s leads to %q", first, all)
		}
	}
	page := plain(shown("/?q=tenant-11"))
	if strings.Count(page, "tenant-11") < 10 || strings.Contains(page, "tenant-090 ") {
		t.Errorf("a filter of the overview: %s", page)
	}
	if page := shown("/tenants?tenant=tenant-077"); !strings.Contains(page, `id="tenant-tenant-077"`) ||
		!strings.Contains(page, "Last hour") {
		t.Error("no page of tenant-077")
	}
	if page := shown("/tenants?tenant=no<ne"); !strings.Contains(page, "There is no tenant no&lt;ne in this Redis.") {
		t.Error("an unknown tenant is not named")
	}
}
