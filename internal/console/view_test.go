package console_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"orgops/internal/console"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
	"orgops/internal/viewtest"
	"orgops/internal/web"
)

const form = "application/x-www-form-urlencoded"

func acts(path, body string) viewtest.Request {
	return viewtest.Request{Path: path, Type: form, Body: body}
}

const one = "tenant={tenant}&organization={organization}&domain={domain}"

// aboutOthers are requests of each route about data of others.
var aboutOthers = viewtest.Routes{
	"GET /static/{file}": {None: "files of the pages"},
	"GET /{$}":           {Requests: []viewtest.Request{{Path: "/", Whole: true}, {Path: "/?q={tenant}", Whole: true}}},
	"GET /domains": {Requests: []viewtest.Request{
		{Path: "/domains?" + one}, {Path: "/domains?tenant={tenant}&domain={domain}"},
		{Path: "/domains?tenant={tenant}&domain={name}"}, {Path: "/domains?all=1&" + one},
		{Path: "/domains?tenant={tenant}&organization={organization}&domain={name}"},
	}},
	"POST /domains/check": {Requests: []viewtest.Request{
		acts("/domains/check", one), acts("/domains/check", "tenant={tenant}&domain={name}"),
	}},
	"POST /domains/link":  {Requests: []viewtest.Request{acts("/domains/link", one)}},
	"GET /tenants":        {Requests: []viewtest.Request{{Path: "/tenants"}, {Path: "/tenants?tenant={tenant}"}}},
	"POST /tenants/stop":  {Requests: []viewtest.Request{acts("/tenants/stop", "tenant={tenant}&reason=r")}},
	"POST /tenants/start": {Requests: []viewtest.Request{acts("/tenants/start", "tenant={tenant}")}},
	"GET /search": {Requests: []viewtest.Request{
		{Path: "/search?q={run}", Whole: true}, {Path: "/search?q={domain}"}, {Path: "/search?q={name}"},
		{Path: "/search?q={organization}"},
		{Path: "/search?q=label", Whole: true}, {Path: "/search?q=owner", Whole: true},
	}},
	"GET /selection": {Requests: []viewtest.Request{
		{Path: "/selection?action=cancel&run={tenant}/{open}"}, {Path: "/selection?action=cancel&all=1"},
	}},
	"POST /selection": {Requests: []viewtest.Request{
		acts("/selection", "action=pause&reason=r&run={tenant}/{open}"),
	}},
	"GET /activity": {Requests: []viewtest.Request{{Path: "/activity"}, {Path: "/activity?tenant={tenant}"}}},
	"GET /runs": {Requests: []viewtest.Request{
		{Path: "/runs"}, {Path: "/runs?tenant={tenant}"}, {Path: "/runs?state=attention"}, {Path: "/runs?caller=owner"},
	}},
	"GET /runs/{id}": {Requests: []viewtest.Request{
		{Path: "/runs/{run}"}, {Path: "/runs/{run}?tenant={tenant}"}, {Path: "/runs/{open}?outcome=all"},
	}},
	"GET /runs/{id}/failed": {Requests: []viewtest.Request{{Path: "/runs/{run}/failed"}}},
	"GET /runs/{id}/rows":   {Requests: []viewtest.Request{{Path: "/runs/{run}/rows"}}},
	"POST /sweeps":          {Requests: []viewtest.Request{acts("/sweeps", "tenant={tenant}")}},
	"POST /webhooks/resend": {Requests: []viewtest.Request{
		acts("/webhooks/resend", "tenant={tenant}&endpoint={endpoint}"),
	}},
	"GET /monitor/orgops/waiting": {Requests: []viewtest.Request{
		{Path: "/monitor/orgops/waiting"}, {Path: "/monitor/orgops/waiting?tenant={tenant}&domain={domain}"},
	}},
	"/monitor/": {Requests: []viewtest.Request{
		{Path: "/monitor/api/queues"}, {Path: "/monitor/api/queues/{tenant}.rows"},
	}},
	"POST /runs/{id}/check":  {Requests: []viewtest.Request{acts("/runs/{open}/check", "row=0")}},
	"POST /runs/{id}/pause":  {Requests: []viewtest.Request{acts("/runs/{open}/pause", "")}},
	"POST /runs/{id}/resume": {Requests: []viewtest.Request{acts("/runs/{open}/resume?tenant={tenant}", "")}},
	"POST /runs/{id}/cancel": {Requests: []viewtest.Request{acts("/runs/{open}/cancel", "")}},
	"POST /runs/{id}/everywhere": {Requests: []viewtest.Request{
		acts("/runs/{run}/everywhere", "organizations=1"),
	}},
	"POST /clients/list":    {Requests: []viewtest.Request{acts("/clients/list", "tenant={tenant}&client=client_1")}},
	"POST /runs/{id}/retry": {Requests: []viewtest.Request{acts("/runs/{run}/retry", "outcome=expired")}},
}

// TestDataOfOthers checks that no route shows or changes data of others.
func TestDataOfOthers(t *testing.T) {
	t.Parallel() // a stop takes two seconds
	rdb := redistest.Open(t)
	in := intake.New(rdb, ledger.New(rdb))
	in.VerifyAfter = time.Millisecond
	config := console.Config{Redis: rdb, Ledger: in.Ledger, Intake: in, Links: linksOf(t, rdb, in.Ledger),
		Hosts: []string{"ops.example"}, Logger: slog.New(slog.DiscardHandler),
		Tenants: func() (here []console.Tenant) {
			for _, name := range []string{"tenant-alba", "tenant-borea"} {
				here = append(here, servedHere(tenant.Announced{Tenant: name}))
			}
			return here
		}}
	aboutOthers.Check(t, rdb, viewtest.Server{
		Routes: console.Routes(config),
		Start: func(access *web.Access) http.Handler {
			config.Access = access
			return console.Pages(config)
		},
		Sign: func(r *http.Request, token string) {
			r.Host = "ops.example"
			r.Header.Set("Origin", "http://ops.example")
			r.SetBasicAuth("any", token)
		},
	})
}

// servedHere is a tenant that this worker serves, with these settings.
func servedHere(settings tenant.Announced) console.Tenant {
	return console.Tenant{Served: health.Served{Settings: tenant.Settings{Announced: settings}}}
}
