package console

import (
	"context"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/web"
)

// Pages serves the operators' pages, and asynqmon at /monitor/, to the users of Config.
func Pages(cfg Config) http.Handler {
	front := web.Front{
		Routes: routes(cfg), Pages: true, Access: cfg.Access, Proxy: cfg.Proxy, Unsigned: cfg.Unsigned, Hosts: cfg.Hosts,
		MaxBody: maxBody, Logger: cfg.Logger,
		Refuse: func(w http.ResponseWriter, _ *http.Request, why *web.Refusal) { http.Error(w, why.Text, why.Status) },
	}
	return compressed(front.Handler())
}

// routes returns all pages, with the roles that may use them.
func routes(cfg Config) []web.Route {
	s := newSite(cfg)
	all := []web.Role{web.Reader, web.Support, web.Operator}
	readers, finders := []web.Role{web.Reader, web.Operator}, []web.Role{web.Support, web.Operator}
	operators := []web.Role{web.Operator}
	table := []web.Route{
		{Pattern: "GET /static/{file}", Roles: all, Serve: serveStatic},
		{Pattern: "GET /{$}", Roles: all, Serve: s.home},
		{Pattern: "GET /domains", Roles: all, Serve: s.domains},
		{Pattern: "POST /domains/check", Roles: finders, Serve: s.withForm(s.checkDomain)},
		{Pattern: "GET /tenants", Roles: readers, Serve: s.page("tenants", "tenants", s.tenants)},
		{Pattern: "POST /tenants/stop", Roles: operators, Serve: s.withForm(s.stopTenant)},
		{Pattern: "POST /tenants/start", Roles: operators, Serve: s.withForm(s.startTenant)},
		{Pattern: "GET /search", Roles: all, Serve: s.search},
		{Pattern: "GET /selection", Roles: operators, Serve: s.page("selection", "runs", s.selection)},
		{Pattern: "POST /selection", Roles: operators, Serve: s.withForm(s.actOnSelection)},
		{Pattern: "GET /activity", Roles: readers, Serve: s.page("activity", "activity", s.activity)},
		{Pattern: "GET /runs", Roles: readers, Serve: s.page("runs", "runs", s.runs)},
		{Pattern: "GET /runs/{id}", Roles: readers, Serve: s.page("run", "runs", s.run)},
		{Pattern: "GET /runs/{id}/failed", Roles: readers, Serve: s.failed},
		{Pattern: "POST /sweeps", Roles: operators, Serve: s.withForm(s.sweepNow)},
		{Pattern: "POST /webhooks/resend", Roles: operators, Serve: s.withForm(s.resend)},
		{Pattern: "GET " + monitorRoot + "/orgops/waiting", Roles: readers, Serve: s.waits},
		// asynqmon shows all tenants.
		{Pattern: monitorRoot + "/", Roles: readers, Everywhere: true, Serve: s.monitors()},
	}
	for _, action := range slices.Sorted(maps.Keys(runActions)) {
		act := s.withForm(s.toRun(action, runActions[action]))
		table = append(table, web.Route{Pattern: "POST /runs/{id}/" + action, Roles: operators, Serve: act})
	}
	return table
}

// home is the first page, GET /; users of support are led to theirs.
func (s *site) home(w http.ResponseWriter, r *http.Request) {
	if web.Of(r.Context()).User.Role == web.Support {
		http.Redirect(w, r, "/domains", http.StatusFound)
		return
	}
	s.page("overview", "overview", s.first)(w, r)
}

//go:embed templates
var templates embed.FS

// openShare bounds the part of the time in which the open rows are read.
const openShare = 20

func newSite(cfg Config) *site {
	if cfg.Tenants == nil {
		cfg.Tenants = func() []Tenant { return nil }
	}
	s := &site{
		Config: cfg, pages: map[string]*template.Template{}, estimator: status.NewEstimator(cfg.Redis),
		checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst), reads: rate.NewLimiter(rate.Every(readEvery), readBurst),
	}
	s.fleet = s.newFleet()
	// The open rows may be old: there may be a million runs. Without an answer they are not known.
	s.openRows = &health.Poll[map[string]ledger.OpenCounts]{Within: time.Minute, Patience: time.Second,
		Ask: func(ctx context.Context) map[string]ledger.OpenCounts {
			open, err := s.Ledger.OpenByTenant(ctx)
			if err != nil {
				return nil
			}
			return open
		},
		Fresh: func(_ map[string]ledger.OpenCounts, took time.Duration) time.Duration { return openShare * took },
	}
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"shown": status.Shown, "whole": status.Whole, "stamp": stamp, "grouped": grouped, "printable": printable,
		"asset": asset, "capital": capital, "tone": toneOf,
		"runPath": runPath, "runLink": runLink, "domainURL": domainURL, "domainPath": domainPath, "tenantPath": tenantsPath,
		"verdictTone": verdictTone, "missingAnswers": status.MissingAnswers, "serverName": status.ServerName,
		"answerText": status.AnswerText, "took": status.Took, "toDo": toDo, "timed": timed, "percent": percent,
		"join": strings.Join, "skipped": status.SkippedTick, "rulesText": status.RulesText,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/plots.html"))
	for _, name := range []string{"problem", "overview", "runs", "run", "domains", "tenants", "search", "selection",
		"activity"} {
		s.pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}
