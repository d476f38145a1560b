package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orgops/internal/runs"
)

// handler answers a request, or returns what is wrong with it.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is what openapi.yaml describes too.
type route struct {
	pattern    string
	serve      handler
	parameters []string // of the query
	open       bool     // to anybody
}

func (s *Server) table() []route {
	return []route{
		{pattern: "POST /v1/runs/{run}", serve: s.submit, parameters: []string{"tenant", "label", "skip_invalid", "ignore_columns", "give_up", "batch_wait", "not_before", "dry_run"}},
		{pattern: "GET /v1/runs", serve: s.list, parameters: []string{"limit", "after"}},
		{pattern: "GET /v1/runs/{run}", serve: s.ofRun(s.show)},
		{pattern: "GET /v1/runs/{run}/failed", serve: s.ofRun(s.failed)},
		{pattern: "GET /v1/runs/{run}/events", serve: s.ofRun(s.events)},
		{pattern: "POST /v1/runs/{run}/cancel", serve: s.ofRun(s.cancel)},
		{pattern: "POST /v1/runs/{run}/retry", serve: s.ofRun(s.retry), parameters: []string{"outcomes", "label", "not_before"}},
		{pattern: "GET /v1/openapi.yaml", serve: openapiYAML, open: true},
		{pattern: "GET /v1/openapi.json", serve: openapiJSON, open: true},
		{pattern: "GET /healthz", serve: s.health, open: true},
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, one := range s.table() {
		mux.HandleFunc(one.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := s.answer(one, w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	return mux
}

func (s *Server) answer(one route, w http.ResponseWriter, r *http.Request) (err error) {
	if one.open {
		return one.serve(w, r)
	}
	if aboutOf(r.Context()).caller, err = s.authenticate(r); err != nil {
		return err
	}
	if err := checkQuery(r, one.parameters); err != nil {
		return err
	}
	return one.serve(w, r)
}

// ofRun returns a handler that is about the run that the path names, if it is the caller's.
func (s *Server) ofRun(serve func(w http.ResponseWriter, r *http.Request, run runs.Run) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		run, err := s.own(r.Context(), r.PathValue("run"))
		if err != nil {
			return err
		}
		return serve(w, r, run)
	}
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

// checkQuery refuses parameters that there are none of: one that was misspelt would be
// taken for not given.
func checkQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("The query is not correctly percent-encoded.")
	}
	for name, values := range query {
		switch {
		case len(known) == 0:
			return badRequest("Unknown parameter %s: this path takes no parameters.", shown(name))
		case !slices.Contains(known, name):
			return badRequest("Unknown parameter %s. Known parameters: %s.", shown(name), strings.Join(known, ", "))
		case len(values) > 1:
			return badRequest("The parameter %s is given more than once.", name)
		}
	}
	return nil
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
