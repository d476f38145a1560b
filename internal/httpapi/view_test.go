package httpapi_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orgops/internal/customer"
	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/viewtest"
	"orgops/internal/web"
)

func asks(paths ...string) viewtest.Route {
	var r viewtest.Route
	for _, path := range paths {
		r.Requests = append(r.Requests, viewtest.Request{Path: path})
	}
	return r
}

// aboutOthers are requests of each route about data of others.
var aboutOthers = viewtest.Routes{
	"POST /v1/runs/{run}": {Requests: []viewtest.Request{
		{Path: "/v1/runs/domain:verify?tenant={tenant}", Type: "application/jsonl",
			Body: `{"organization_id":"{organization}","discovery_domain_id":"{domain}"}`,
			New:  "rows of a tenant and of an organization that Redis does not know can be submitted"},
		{Path: "/v1/runs/domain:verify?tenant={tenant}&give_up=2h", Type: "application/jsonl", Body: `{"domain":"{name}"}`},
		{Path: "/v1/runs/domain:verify?tenant={tenant}&dry_run=1", Type: "application/jsonl", Body: `{"domain":"{name}"}`},
	}},
	"GET /v1/runs":               asks("/v1/runs", "/v1/runs?tenant={tenant}", "/v1/runs?state=attention"),
	"GET /v1/runs/{run}":         asks("/v1/runs/{run}", "/v1/runs/{open}"),
	"GET /v1/runs/{run}/rows":    asks("/v1/runs/{run}/rows"),
	"GET /v1/runs/{run}/failed":  asks("/v1/runs/{run}/failed"),
	"GET /v1/runs/{run}/events":  asks("/v1/runs/{run}/events"),
	"POST /v1/runs/{run}/cancel": asks("/v1/runs/{open}/cancel"),
	"POST /v1/runs/{run}/retry":  asks("/v1/runs/{run}/retry"),
	"GET /v1/domains": asks("/v1/domains?tenant={tenant}&name={name}", "/v1/domains?tenant={tenant}&id={domain}",
		"/v1/domains?tenant={tenant}&organization={organization}"),
	"GET /v1/domains/{id}":          asks("/v1/domains/{domain}?tenant={tenant}"),
	"POST /v1/domains/{id}/check":   asks("/v1/domains/{domain}/check?tenant={tenant}"),
	"POST /v1/domains/{id}/links":   asks("/v1/domains/{domain}/links?tenant={tenant}"),
	"DELETE /v1/domains/{id}/links": asks("/v1/domains/{domain}/links?tenant={tenant}"),
	"GET /v1/openapi.yaml":          {None: "the description of the API"},
	"GET /v1/openapi.json":          {None: "the description of the API"},
	"GET /healthz":                  {None: "whether the server runs"},
}

// TestDataOfOthers checks that no route shows or changes data of others.
func TestDataOfOthers(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	key := filepath.Join(t.TempDir(), "link.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	links, err := customer.Settings{LinkKeys: []string{key}, LinkURL: "https://verify.example.com"}.Open(rdb, l,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	aboutOthers.Check(t, rdb, viewtest.Server{
		Routes: httpapi.Routes(),
		Start: func(access *web.Access) http.Handler {
			return httpapi.New(httpapi.Config{Redis: rdb, Ledger: l, Intake: newIntake(rdb, l), Access: access, Links: links})
		},
		Sign: func(r *http.Request, token string) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Idempotency-Key", hashOf(r.URL.String()))
		},
	})
}
