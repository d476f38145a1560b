package console_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/console"
	"orgops/internal/customer"
	"orgops/internal/intake"
	"orgops/internal/surface"
	"orgops/internal/tenant"
	"orgops/internal/web"
)

// pageAs returns the request of a page by a user, as a browser sends it.
func pageAs(user, path string) surface.Request {
	header := signedIn(user)
	header["Accept"] = "text/html"
	return surface.Request{Method: http.MethodGet, Path: path, Note: user, Header: header}
}

// actAs returns the request of an action by a user, with the fields of its form: names and values.
func actAs(user, path string, fields ...string) surface.Request {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	header := signedIn(user)
	header["Content-Type"] = "application/x-www-form-urlencoded"
	header["Sec-Fetch-Site"] = "same-origin"
	header["Origin"] = "https://ops.example"
	return surface.Request{Method: http.MethodPost, Path: path, Note: user, Header: header, Body: form.Encode()}
}

func signedIn(user string) map[string]string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth("any", surface.Token(user))
	return map[string]string{"Authorization": r.Header.Get("Authorization")}
}

// whole has all of a page shown, with what is around its main part.
func whole(r surface.Request) surface.Request {
	r.Whole = true
	return r
}

// brief has the body of an answer left out.
func brief(r surface.Request, why string) surface.Request {
	r.Brief = why
	return r
}

const domainOf = "/domains?tenant=acme&organization="

// surfaceOf are the pages and actions with their examples.
var surfaceOf = surface.Routes{
	{"GET /static/{file}", []surface.Request{pageAs("rita", "/static/none.css")}},
	{"GET /{$}", []surface.Request{
		whole(pageAs("olga", "/")), pageAs("lea", "/"), pageAs("sam", "/"), pageAs("nobody", "/"), pageAs("rita", "/?q=ed"),
	}},
	{"GET /runs", []surface.Request{
		pageAs("olga", "/runs"), pageAs("rita", "/runs?state=failed"), pageAs("rita", "/runs?tenant=quiet"),
		pageAs("rita", "/runs?tenant=nobody"),
		pageAs("rita", "/runs?state=lost"), pageAs("sam", "/runs"), pageAs("lea", "/runs"),
	}},
	{"GET /runs/{id}", []surface.Request{
		pageAs("olga", "/runs/domains"), pageAs("rita", "/runs/domains?outcome=refused"), pageAs("olga", "/runs/october"),
		pageAs("rita", "/runs/sweep-acme-1795143600"), pageAs("rita", "/runs/sweep-acme-1794884400"),
		pageAs("olga", "/runs/revocation"), pageAs("olga", "/runs/paused"),
		pageAs("olga", "/runs/executing"), pageAs("olga", "/runs/staged"), pageAs("rita", "/runs/scanning"),
		pageAs("rita", "/runs/tomorrow"), pageAs("rita", "/runs/cancelled"), pageAs("rita", "/runs/blocked-run"),
		pageAs("rita", "/runs/stopped-run"), pageAs("rita", "/runs/unserved-run"), pageAs("rita", "/runs/limited-run"),
		pageAs("olga", "/runs/templates"), pageAs("olga", "/runs/signup-4711"), pageAs("olga", "/runs/octobre"),
		pageAs("olga", "/runs/october-again?outcome=expired&cause=There+is+no+TXT+record+at+…:+"+
			"the+name+does+not+exist."),
		pageAs("olga", "/runs/october-again?q=org_october"),
		pageAs("lea", "/runs/october"),
	}},
	{"GET /runs/{id}/failed", []surface.Request{
		pageAs("rita", "/runs/october/failed"), pageAs("rita", "/runs/october/failed?format=jsonl"),
		pageAs("rita", "/runs/octobre/failed"),
	}},
	{"GET /runs/{id}/rows", []surface.Request{
		pageAs("rita", "/runs/october/rows"), pageAs("rita", "/runs/revocation/rows?format=jsonl"),
		pageAs("rita", "/runs/october/rows?format=xml"),
		pageAs("sam", "/runs/october/rows"),
	}},
	{"POST /runs/{id}/pause", []surface.Request{
		actAs("olga", "/runs/queued/pause"), actAs("olga", "/runs/october/pause"), actAs("rita", "/runs/queued/pause"),
	}},
	{"POST /runs/{id}/resume", []surface.Request{
		actAs("olga", "/runs/paused/resume"), actAs("olga", "/runs/october/resume"),
	}},
	{"POST /runs/{id}/cancel", []surface.Request{
		actAs("olga", "/runs/domains/cancel"), actAs("olga", "/runs/october/cancel"),
	}},
	{"POST /runs/{id}/retry", []surface.Request{
		actAs("olga", "/runs/removals/retry", "outcome", "refused", "run", "again"), actAs("olga", "/runs/templates/retry"),
		actAs("olga", "/runs/revocation/retry", "outcome", "refused"),
		actAs("olga", "/runs/october-again/retry", "which", "expired", "cause", "cut", "found", "7"),
	}},
	{"POST /runs/{id}/everywhere", []surface.Request{
		actAs("olga", "/runs/removals/everywhere", "organizations", "4"),
		actAs("olga", "/runs/removals/everywhere", "organizations", "all"),
		actAs("rita", "/runs/removals/everywhere", "organizations", "4"),
	}},
	{"POST /runs/{id}/check", []surface.Request{
		actAs("olga", "/runs/domains/check", "row", "3", "row", "4"), actAs("olga", "/runs/october/check", "row", "0"),
		actAs("olga", "/runs/domains/check"),
	}},
	{"GET /selection", []surface.Request{
		pageAs("olga", "/selection?run=acme/queued&run=acme/paused&action=cancel"), pageAs("olga", "/selection"),
	}},
	{"POST /selection", []surface.Request{
		actAs("olga", "/selection", "run", "acme/queued", "run", "acme/october", "action", "pause", "reason", "ticket 4711"),
		actAs("olga", "/selection"),
	}},
	{"GET /domains", []surface.Request{
		pageAs("olga", "/domains"), pageAs("olga", "/domains?tenant=acme&domain=quoted.example"),
		pageAs("olga", "/domains?domain=nowhere.example"), pageAs("olga", "/domains?tenant=nobody&domain=quoted.example"),
		pageAs("sam", domainOf+"org_shop&domain=ord_11"), pageAs("olga", domainOf+"org_shop&domain=ord_01"),
		pageAs("olga", domainOf+"org_swept&domain=ord_17"), pageAs("olga", domainOf+"org_swept&domain=ord_18"),
		pageAs("olga", domainOf+"org_swept&domain=ord_19"),
		pageAs("olga", domainOf+"org_swept&domain=ord_22"), pageAs("olga", domainOf+"org_shop&domain=ord_08"),
		pageAs("olga", domainOf+"org_october&domain=ord_26&all=1"), pageAs("olga", domainOf+"&domain=o"),
		pageAs("olga", domainOf+"&domain=never.example"), pageAs("lea", domainOf+"org_shop&domain=ord_11"),
	}},
	{"POST /domains/check", []surface.Request{
		actAs("sam", "/domains/check", "tenant", "acme", "organization", "org_shop", "domain", "ord_11"),
		actAs("rita", "/domains/check", "tenant", "acme", "organization", "org_shop", "domain", "ord_11"),
	}},
	{"POST /domains/link", []surface.Request{
		actAs("sam", "/domains/link", "tenant", "acme", "organization", "org_october", "domain", "ord_26"),
		actAs("sam", "/domains/link", "tenant", "acme", "organization", "org_shop", "domain", "ord_99"),
		actAs("rita", "/domains/link", "tenant", "acme", "organization", "org_shop", "domain", "ord_11"),
	}},
	{"GET /tenants", []surface.Request{
		pageAs("olga", "/tenants"), pageAs("olga", "/tenants?tenant=acme"), pageAs("rita", "/tenants?tenant=blocked"),
		pageAs("rita", "/tenants?tenant=limited"), pageAs("rita", "/tenants?tenant=crowded"),
		pageAs("olga", "/tenants?tenant=stopped"),
		pageAs("rita", "/tenants?tenant=tokenless"), pageAs("rita", "/tenants?tenant=unserved"),
		pageAs("lea", "/tenants"), pageAs("rita", "/tenants?tenant=nobody"),
	}},
	{"POST /tenants/stop", []surface.Request{
		actAs("olga", "/tenants/stop", "tenant", "acme", "reason", "ticket 4711"),
		actAs("lea", "/tenants/stop", "tenant", "acme"), actAs("rita", "/tenants/stop", "tenant", "acme"),
	}},
	{"POST /tenants/start", []surface.Request{
		actAs("olga", "/tenants/start", "tenant", "stopped"), actAs("olga", "/tenants/start", "tenant", "acme"),
	}},
	{"GET /activity", []surface.Request{
		pageAs("rita", "/activity"), pageAs("rita", "/activity?tenant=acme&by=schedule"), pageAs("lea", "/activity"),
	}},
	{"GET /search", []surface.Request{
		pageAs("rita", "/search?q=quoted"), pageAs("rita", "/search?q=october"), pageAs("rita", "/search?q=shops"),
		pageAs("sam", "/search?q=october"), pageAs("rita", "/search?q=nothing"),
	}},
	{"POST /sweeps", []surface.Request{
		actAs("olga", "/sweeps", "tenant", "acme"), actAs("olga", "/sweeps", "tenant", "nobody"),
	}},
	{"POST /clients/list", []surface.Request{
		actAs("olga", "/clients/list", "tenant", "acme", "client", "client_of_a_shop"),
		actAs("olga", "/clients/list", "tenant", "acme", "client", "no id"),
		actAs("rita", "/clients/list", "tenant", "acme", "client", "client_of_a_shop"),
	}},
	{"POST /webhooks/resend", []surface.Request{
		actAs("olga", "/webhooks/resend", "tenant", "acme", "endpoint", "gone"),
		actAs("olga", "/webhooks/resend", "tenant", "acme", "endpoint", "desk", "waiting", "true"),
		actAs("olga", "/webhooks/resend", "tenant", "acme", "endpoint", "none"),
	}},
	{"GET /monitor/orgops/waiting", []surface.Request{pageAs("rita", "/monitor/orgops/waiting")}},
	{"/monitor/", []surface.Request{
		brief(pageAs("rita", "/monitor/"), "asynqmon's page"), pageAs("lea", "/monitor/"),
		actAs("rita", "/monitor/api/queues/acme.rows:pause"),
	}},
}

// TestSurface compares what each page shows of the fixed world, and each action answers. An
// action that leads to a page is followed: its notice is there.
func TestSurface(t *testing.T) {
	room, world := surface.Open(t, "console"), surface.New(t)
	access, err := web.ReadAccess(surface.AccessFile(t), slog.New(slog.DiscardHandler), time.Now)
	mustNot(t, err)
	key := surface.LinkKey(t)
	unused := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = unused.Close() })
	var patterns []string
	for _, route := range console.Routes(console.Config{Redis: unused}) {
		patterns = append(patterns, route.Pattern)
	}
	surfaceOf.Compare(t, room, world, "ops.example", patterns, func(t *testing.T, m *surface.Moment) http.Handler {
		acme, announced, err := tenant.ReadAnnounced(t.Context(), m.Redis, surface.Acme)
		if err != nil || !announced {
			t.Fatal(announced, err)
		}
		settings := customer.Settings{LinkKeys: []string{key}, LinkURL: "https://verify.example.com"}
		links, err := settings.Open(m.Redis, m.Ledger, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return console.Pages(console.Config{
			Links: links,
			Redis: m.Redis, Ledger: m.Ledger, Intake: intake.New(m.Redis, m.Ledger), Access: access,
			Hosts: []string{"ops.example"}, Version: "v1.0.0", Logger: slog.New(slog.DiscardHandler),
			Tenants: func() []console.Tenant {
				return []console.Tenant{servedHere(acme)}
			},
		})
	})
}
