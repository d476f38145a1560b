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
)

// handler answers a request, or returns why it is refused.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is a path and method, with its handler. openapi.yaml describes it too.
type route struct {
	pattern    string
	serve      handler
	parameters []string // of the query
	open       bool     // without authentication
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
		{pattern: "GET /v1/openapi.yaml", serve: described("application/yaml", func() []byte { return description }), open: true},
		{pattern: "GET /v1/openapi.json", serve: described("application/json", descriptionJSON), open: true},
		{pattern: "GET /healthz", serve: s.health, open: true},
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, serve handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	methods := map[string][]string{} // of each path
	for _, one := range s.table() {
		handle(one.pattern, func(w http.ResponseWriter, r *http.Request) error { return s.answer(one, w, r) })
		method, path, _ := strings.Cut(one.pattern, " ")
		methods[path] = append(methods[path], method)
		if method == http.MethodGet {
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, all := range methods {
		slices.Sort(all)
		handle(path, func(http.ResponseWriter, *http.Request) error { return methodNotAllowed(strings.Join(all, ", ")) })
	}
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return newProblem(http.StatusNotFound, "not-found", "GET /v1/openapi.yaml lists all paths.")
	})
	return mux
}

func methodNotAllowed(allow string) error {
	p := newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "This path accepts %s.", allow)
	p.allow = allow
	return p
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

// ofRun returns a handler of the run that the path names, if it is the caller's.
func (s *Server) ofRun(serve func(w http.ResponseWriter, r *http.Request, run ledger.Run) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		run, err := s.own(r.Context(), r.PathValue("run"))
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
			return badRequest("Unknown parameter %s: this path takes no parameters.", shown(name))
		case !slices.Contains(known, name):
			return badRequest("Unknown parameter %s. Known parameters: %s.", shown(name), strings.Join(known, ", "))
		case len(values) > 1:
			return badRequest("The parameter %s is given more than once.", name)
		}
	}
	return nil
}

// health answers that the server runs: GET /healthz.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	answerJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": s.cfg.Version})
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
