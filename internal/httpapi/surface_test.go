package httpapi_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"orgops/internal/customer"
	"orgops/internal/httpapi"
	"orgops/internal/surface"
	"orgops/internal/web"
)

// callAs returns a request by a user.
func callAs(user, method, path, body string, header ...string) surface.Request {
	r := surface.Request{Method: method, Path: path, Note: user, Body: body,
		Header: map[string]string{"Authorization": "Bearer " + surface.Token(user), "X-Request-Id": "request-1"}}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = header[i+1]
	}
	return r
}

func getAs(user, path string) surface.Request { return callAs(user, http.MethodGet, path, "") }

func postAs(user, path string) surface.Request { return callAs(user, http.MethodPost, path, "") }

// submitAs returns the submission of rows by the user shop.
func submitAs(kind, key, mediaType, body string) surface.Request {
	return callAs("shop", http.MethodPost, "/v1/runs/"+kind, body, "Idempotency-Key", key, "Content-Type", mediaType)
}

func brief(r surface.Request, why string) surface.Request {
	r.Brief = why
	return r
}

const goodRows = "organization_id,discovery_domain_id\norg_shop,ord_03\norg_shop,ord_04\n"

// surfaceOf are the routes with their examples.
var surfaceOf = surface.Routes{
	{"POST /v1/runs/{run}", []surface.Request{
		submitAs("domain:verify", "order-1", "text/csv", goodRows),
		submitAs("domain:verify?tenant=acme&label=shops&dry_run=true", "order-2", "text/csv", goodRows),
		submitAs("domain:verify", "order-3", "text/csv", "organization_id,discovery_domain_id\norg_shop,not an id\n"),
		submitAs("domain:verify?skip_invalid=true", "order-4", "text/csv", goodRows+"org_shop,not an id\n"),
		submitAs("domain:verify?colour=blue", "order-5", "text/csv", goodRows),
		submitAs("domain:verify", "order-6", "text/csv", "organization_id\norg_shop\n"),
		submitAs("clients:remove", "order-7", "application/jsonl",
			`{"organization_id":"org_shop","client_id":"cli_9"}`+"\n"),
		submitAs("domain:paint", "order-8", "text/csv", goodRows),
		submitAs("domain:verify", "", "text/csv", goodRows),
		submitAs("domain:verify", "order-9", "image/png", goodRows),
		submitAs("domain:verify?tenant=quiet", "order-10", "text/csv", goodRows),
		callAs("owner", http.MethodPost, "/v1/runs/domain:verify", goodRows, "Content-Type", "text/csv"),
		callAs("nobody", http.MethodPost, "/v1/runs/domain:verify", goodRows),
	}},
	{"GET /v1/runs", []surface.Request{
		getAs("shop", "/v1/runs"), getAs("shop", "/v1/runs?state=lost"), getAs("owner", "/v1/runs"),
	}},
	{"GET /v1/runs/{run}", []surface.Request{getAs("shop", "/v1/runs/intake"), getAs("shop", "/v1/runs/october")}},
	{"GET /v1/runs/{run}/rows", []surface.Request{getAs("shop", "/v1/runs/intake/rows")}},
	{"GET /v1/runs/{run}/failed", []surface.Request{getAs("shop", "/v1/runs/intake/failed")}},
	{"GET /v1/runs/{run}/events", []surface.Request{getAs("shop", "/v1/runs/intake-ended/events")}},
	{"POST /v1/runs/{run}/cancel", []surface.Request{
		postAs("shop", "/v1/runs/intake/cancel"), postAs("shop", "/v1/runs/october/cancel"),
	}},
	{"POST /v1/runs/{run}/retry", []surface.Request{
		callAs("shop", http.MethodPost, "/v1/runs/intake-ended/retry", "", "Idempotency-Key", "retry-1"),
		postAs("shop", "/v1/runs/intake-ended/retry"),
		callAs("shop", http.MethodPost, "/v1/runs/intake/retry", "", "Idempotency-Key", "retry-2"),
		callAs("shop", http.MethodPost, "/v1/runs/intake-ended/retry?reason=quoted", "", "Idempotency-Key", "retry-3"),
	}},
	{"GET /v1/domains", []surface.Request{
		getAs("owner", "/v1/domains?tenant=acme&name=quoted.example"), getAs("sam", "/v1/domains?tenant=acme&name=lost.example"),
		getAs("owner", "/v1/domains?tenant=acme&name=lost.example"), getAs("owner", "/v1/domains?tenant=acme"),
		getAs("owner", "/v1/domains?tenant=quiet&name=quoted.example"), getAs("owner", "/v1/domains?name=quoted.example"),
	}},
	{"GET /v1/domains/{id}", []surface.Request{
		getAs("owner", "/v1/domains/ord_11?tenant=acme"), getAs("owner", "/v1/domains/ord_01?tenant=acme"),
		getAs("rita", "/v1/domains/ord_17?tenant=acme"), getAs("owner", "/v1/domains/ord_17?tenant=acme"),
		getAs("rita", "/v1/domains/ord_05?tenant=acme"),
	}},
	{"POST /v1/domains/{id}/check", []surface.Request{
		postAs("owner", "/v1/domains/ord_11/check?tenant=acme"), postAs("owner", "/v1/domains/ord_01/check?tenant=acme"),
		postAs("rita", "/v1/domains/ord_11/check?tenant=acme"),
	}},
	{"POST /v1/domains/{id}/links", []surface.Request{
		postAs("owner", "/v1/domains/ord_11/links?tenant=acme&for=2d"),
		postAs("owner", "/v1/domains/ord_11/links?tenant=acme&for=1y"),
		postAs("shop", "/v1/domains/ord_11/links?tenant=acme"),
	}},
	{"DELETE /v1/domains/{id}/links", []surface.Request{
		callAs("owner", http.MethodDelete, "/v1/domains/ord_11/links?tenant=acme", ""),
	}},
	{"GET /v1/openapi.yaml", []surface.Request{brief(getAs("nobody", "/v1/openapi.yaml"), "openapi.yaml")}},
	{"GET /v1/openapi.json", []surface.Request{brief(getAs("nobody", "/v1/openapi.json"), "openapi.yaml as JSON")}},
	{"GET /healthz", []surface.Request{getAs("nobody", "/healthz")}},
}

// TestSurface compares the answers of each route about the fixed world.
func TestSurface(t *testing.T) {
	room, world := surface.Open(t, "httpapi"), surface.New(t)
	access, err := web.ReadAccess(surface.AccessFile(t), slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	key := surface.LinkKey(t)
	var patterns []string
	for _, route := range httpapi.Routes() {
		patterns = append(patterns, route.Pattern)
	}
	surfaceOf.Compare(t, room, world, "intake.example", patterns, func(t *testing.T, m *surface.Moment) http.Handler {
		log := slog.New(slog.DiscardHandler)
		settings := customer.Settings{LinkKeys: []string{key}, LinkURL: "https://verify.example.com"}
		links, err := settings.Open(m.Redis, m.Ledger, log)
		if err != nil {
			t.Fatal(err)
		}
		return httpapi.New(httpapi.Config{Redis: m.Redis, Ledger: m.Ledger, Access: access, Version: "v1.0.0", Logger: log,
			Links: links, Intake: newIntake(m.Redis, m.Ledger)})
	})
}
