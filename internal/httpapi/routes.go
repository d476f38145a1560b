package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"orgops/internal/ledger"
	"orgops/internal/untrusted"
	"orgops/internal/view"
	"orgops/internal/web"
)

// handler answers a request, or returns why it is refused.
type handler func(w http.ResponseWriter, r *http.Request) error

// Routes are the routes of the intake, with the roles that may use them. openapi.yaml describes
// them too.
func Routes() []web.Route { return new(Server).routes() }

// parameters are those of each route's query.
var parameters = map[string][]string{
	"POST /v1/runs/{run}": {"tenant", "label", "skip_invalid", "ignore_columns", "give_up", "max", "batch_wait",
		"not_before", "dry_run"},
	"GET /v1/runs":               {"limit", "after", "tenant", "state", "kind", "label", "since", "until"},
	"GET /v1/runs/{run}":         {"tenant"},
	"GET /v1/runs/{run}/rows":    {"tenant", "outcomes"},
	"GET /v1/runs/{run}/failed":  {"tenant"},
	"GET /v1/runs/{run}/events":  {"tenant"},
	"POST /v1/runs/{run}/cancel": {"tenant"},
	"POST /v1/runs/{run}/retry":  {"tenant", "outcomes", "reason", "label", "not_before"},

	"GET /v1/domains":             {"tenant", "name", "id", "organization"},
	"GET /v1/domains/{id}":        {"tenant"},
	"POST /v1/domains/{id}/check": {"tenant"},

	"POST /v1/domains/{id}/links":   {"tenant", "for"},
	"DELETE /v1/domains/{id}/links": {"tenant"},
}

// The roles of routes.
var (
	anybody    = []web.Role{web.Anybody}
	submitters = []web.Role{web.Submitter}
	readers    = web.Roles
	checkers   = []web.Role{web.Customer, web.Support, web.Operator, web.Submitter}
	linkers    = []web.Role{web.Customer, web.Support, web.Operator}
)

func (s *Server) routes() []web.Route {
	route := func(roles []web.Role, pattern string, serve handler) web.Route {
		return web.Route{Pattern: pattern, Roles: roles, Serve: func(w http.ResponseWriter, r *http.Request) {
			var err error
			if !slices.Contains(roles, web.Anybody) {
				err = checkQuery(r, parameters[pattern])
			}
			if err == nil {
				err = serve(w, r)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		}}
	}
	return []web.Route{
		route(submitters, "POST /v1/runs/{run}", s.submit),
		route(submitters, "GET /v1/runs", s.list),
		route(submitters, "GET /v1/runs/{run}", s.ofRun(s.show)),
		route(submitters, "GET /v1/runs/{run}/rows", s.ofRun(s.rows)),
		route(submitters, "GET /v1/runs/{run}/failed", s.ofRun(s.failed)),
		route(submitters, "GET /v1/runs/{run}/events", s.ofRun(s.events)),
		route(submitters, "POST /v1/runs/{run}/cancel", s.ofRun(s.cancel)),
		route(submitters, "POST /v1/runs/{run}/retry", s.ofRun(s.retry)),
		route(readers, "GET /v1/domains", s.domains),
		route(readers, "GET /v1/domains/{id}", s.domain),
		route(checkers, "POST /v1/domains/{id}/check", s.checkDomain),
		route(linkers, "POST /v1/domains/{id}/links", s.link),
		route(linkers, "DELETE /v1/domains/{id}/links", s.revokeLinks),
		route(anybody, "GET /v1/openapi.yaml", described("application/yaml", func() []byte { return description })),
		route(anybody, "GET /v1/openapi.json", described("application/json", descriptionJSON)),
		route(anybody, "GET /healthz", s.health),
	}
}

// ofRun returns a handler of the run that the path names, by its id or the key of its request, if
// it is the caller's.
func (s *Server) ofRun(serve func(w http.ResponseWriter, r *http.Request, run view.Run) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := r.Context()
		name := r.PathValue("run")
		tenant, err := tenantOf(r)
		if err != nil {
			return err
		}
		run, err := s.own(ctx, ledger.Tenant(tenant), name)
		if err != nil && problemOf(err).Status == http.StatusNotFound {
			if byKey, failed := s.own(ctx, ledger.Tenant(tenant), idOf(callerOf(ctx).Name, name)); failed == nil {
				run = byKey
				err = nil
			}
		}
		if err != nil {
			return err
		}
		return serve(w, r, run)
	}
}

// checkQuery refuses unknown parameters: a misspelt one would be ignored.
func checkQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("The query is not correctly percent-encoded.")
	}
	for name, values := range query {
		switch {
		case len(known) == 0:
			return badRequest("Unknown parameter %s: this path takes no parameters.", untrusted.Value(name))
		case !slices.Contains(known, name):
			return badRequest("Unknown parameter %s. Known parameters: %s.", untrusted.Value(name), strings.Join(known, ", "))
		case len(values) > 1:
			return badRequest("The parameter %s is given more than once.", name)
		}
	}
	return nil
}

// health answers that the server runs: GET /healthz.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	answerJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": s.version})
	return nil
}

//go:embed openapi.yaml
var description []byte

// descriptionJSON returns the description as JSON.
var descriptionJSON = sync.OnceValue(func() []byte {
	var v any
	err := yaml.Unmarshal(description, &v)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(v); err == nil {
			return text
		}
	}
	panic(fmt.Sprintf("httpapi: openapi.yaml: %v", err)) // it is embedded, and tested
})

// described returns the handler of the description in a format.
func described(mediaType string, text func() []byte) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write(text())
		return nil
	}
}
