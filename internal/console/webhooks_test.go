package console_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/console"
	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/web"
)

// given has a delivery to an endpoint that was given up.
func (d *desk) given(tenant, endpoint, reason string) {
	d.t.Helper()
	ledgertest.Create(d.t, d.ledger, ledger.NewRun{ID: "given", Tenant: ledger.Tenant(tenant)})
	queue := deliveries.Queue(tenant, endpoint)
	_, err := asynq.NewClientFromRedisClient(d.rdb).Enqueue(asynq.NewTask(deliveries.TaskType, nil),
		asynq.Queue(queue), asynq.TaskID("1"))
	mustNot(d.t, err)
	mustNot(d.t, d.inspector.ArchiveTask(queue, "1"))
	mustNot(d.t, d.rdb.HSet(d.t.Context(), "orgops:v3:{tenant:"+tenant+"}:webhooks", endpoint+".failed", 1_900_000_000_000,
		endpoint+".reason", reason).Err())
}

// TestDroppedEvents: the overview and the page of a tenant say that events were dropped, and
// how many.
func TestDroppedEvents(t *testing.T) {
	d := newDesk(t)
	d.given("default", "crm", "answered 503")
	last := time.Now().Add(-time.Hour).UTC()
	mustNot(t, d.rdb.HSet(t.Context(), "orgops:v3:{tenant:default}:webhooks", "crm.dropped", 12_345,
		"crm.dropped_since", last.UnixMilli(), "crm.dropped_last", last.UnixMilli()).Err())
	const text = "its backlog was full, and the oldest 12,345 events dropped since "
	wantIn(t, plain(d.get("/")), "Webhook endpoint crm: "+text)
	wantIn(t, plain(d.get("/tenants?tenant=default")), "Webhook endpoint crm: "+text, "; "+text,
		"dropped ones are not sent again")

	// After a week they are no news.
	mustNot(t, d.rdb.HSet(t.Context(), "orgops:v3:{tenant:default}:webhooks",
		"crm.dropped_last", last.AddDate(0, 0, -8).UnixMilli()).Err())
	if page := plain(d.get("/tenants?tenant=default")); strings.Contains(page, "dropped") {
		t.Errorf("the page of the tenant has events that were dropped long ago: %s", page)
	}
}

// TestWebhooks checks that the page of tenants has the endpoints of the user's tenants only, and
// that operators have deliveries sent again.
func TestWebhooks(t *testing.T) {
	d := newDesk(t)
	d.given("default", "crm", "answered 503")
	d.given("other", "desk", "answered 410")
	mustNot(t, d.rdb.HSet(t.Context(), "orgops:v3:{tenant:other}:webhooks", "desk.gone", "entry").Err())
	file, tokens := access(t,
		web.User{Name: "mine", Role: web.Operator, Tenants: []string{"default"}},
		web.User{Name: "all", Role: web.Operator, Tenants: []string{"*"}},
		web.User{Name: "reads", Role: web.Reader, Tenants: []string{"default"}},
	)
	var log bytes.Buffer
	h := console.Pages(console.Config{Redis: d.rdb, Ledger: d.ledger, Access: file,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	page := func(user, path string) string {
		return plain(do(h, http.MethodGet, path, nil, basic(tokens[user])).Body.String())
	}
	for user, others := range map[string]bool{"mine": false, "all": true, "reads": false} {
		got := page(user, "/tenants?tenant=default")
		if !strings.Contains(got, "answered 503") {
			t.Errorf("%s does not see the last error: %s", user, got)
		}
		if may := strings.Contains(got, "Send 1 again to crm"); may != (user != "reads") {
			t.Errorf("%s may send again: %t", user, may)
		}
		if list := page(user, "/tenants"); strings.Contains(list, "default other") != others {
			t.Errorf("%s sees the other tenant, or does not: %s", user, list)
		}
		if got := page(user, "/tenants?tenant=other"); strings.Contains(got, "answered 410: gets nothing") != others {
			t.Errorf("%s, the other tenant: %s", user, got)
		}
	}
	send := func(user, tenant, endpoint string) string {
		w := do(h, http.MethodPost, "/webhooks/resend", url.Values{"tenant": {tenant}, "endpoint": {endpoint}},
			basic(tokens[user]))
		if w.Code != http.StatusSeeOther {
			return w.Body.String()
		}
		return page(user, w.Header().Get("Location"))
	}
	for _, c := range [][4]string{
		{"reads", "default", "crm", "your role is reader"},
		{"mine", "other", "desk", "Not done: there is no tenant other, or your access does not include it"},
		{"mine", "default", "cr{m", "had no deliveries"},
		{"mine", "default", "crm", "1 delivery sent again"},
		{"all", "other", "desk", "Endpoint desk gets deliveries"},
	} {
		if got := send(c[0], c[1], c[2]); !strings.Contains(got, c[3]) {
			t.Errorf("%s sends again to %s of %s: %s, want %q", c[0], c[2], c[1], got, c[3])
		}
	}
	for _, tenant := range []string{"default", "other"} {
		if got := page("all", "/tenants?tenant="+tenant); strings.Contains(got, "Send") ||
			strings.Contains(got, "answered 410: gets nothing") {
			t.Errorf("after that: %s", got)
		}
	}
	if got := page("all", "/activity?tenant=other"); !strings.Contains(got, "all webhooks sent again to desk: 1 delivery") {
		t.Errorf("the act is not in the tenant's activity: %s", got)
	}
}
