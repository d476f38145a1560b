package intakeapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// handler answers a request, or returns what is wrong with it.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is what openapi.yaml describes too.
type route struct {
	pattern string
	serve   handler
	open    bool // to anybody
}

func (s *Server) table() []route {
	return []route{
		{pattern: "POST /v1/runs/{run}", serve: s.submit},
		{pattern: "GET /v1/runs", serve: s.list},
		{pattern: "GET /v1/runs/{run}", serve: s.show},
		{pattern: "GET /v1/runs/{run}/failed", serve: s.failed},
		{pattern: "GET /v1/runs/{run}/events", serve: s.events},
		{pattern: "POST /v1/runs/{run}/cancel", serve: s.cancel},
		{pattern: "POST /v1/runs/{run}/retry", serve: s.retry},
		{pattern: "GET /v1/openapi.yaml", serve: openapiYAML, open: true},
		{pattern: "GET /v1/openapi.json", serve: openapiJSON, open: true},
		{pattern: "GET /healthz", serve: s.health, open: true},
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, one := range s.table() {
		mux.Handle(one.pattern, s.handle(one))
	}
	return mux
}

// handle makes a handler of net/http.
func (s *Server) handle(one route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !one.open {
			caller, err := s.authenticate(r)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			r = r.WithContext(withCaller(r.Context(), caller))
		}
		if err := one.serve(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// route answers by the table. Where that has nothing, net/http's own plain text
// is told as a problem.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	answer := discarded{header: http.Header{}}
	s.mux.ServeHTTP(&answer, r)
	if answer.status == http.StatusMethodNotAllowed {
		p := newProblem(answer.status, "method-not-allowed", "This path accepts %s.", answer.header.Get("Allow"))
		p.allow = answer.header.Get("Allow")
		s.fail(w, r, p)
		return
	}
	s.fail(w, r, newProblem(http.StatusNotFound, "not-found", "GET /v1/openapi.yaml lists all paths."))
}

// discarded is an answer of which the body is nobody's.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }

// queryOf reads the query, and refuses parameters that there are none of: one
// that was misspelt would be taken for not given.
func queryOf(r *http.Request, names ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("The query is not correctly percent-encoded.")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			return nil, badRequest("Unknown parameter %s: this path takes no parameters.", shown(name))
		case !slices.Contains(names, name):
			return nil, badRequest("Unknown parameter %s. Known parameters: %s.", shown(name), strings.Join(names, ", "))
		case len(values) > 1:
			return nil, badRequest("The parameter %s is given more than once.", name)
		}
	}
	return query, nil
}

// flagOf reads a parameter that is 1 or 0, or not there.
func flagOf(query url.Values, name string) (bool, error) {
	switch value := query.Get(name); value {
	case "1", "true":
		return true, nil
	case "", "0", "false":
		return false, nil
	default:
		return false, badRequest("The parameter %s must be 1 or 0, not %s.", name, shown(value))
	}
}

// health says that the server answers.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	answerJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": s.cfg.Version})
	return nil
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, v)
}
