package console

import (
	"embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

// Pages serves the operators' pages, and asynqmon at /monitor/, to the users of Config.
func Pages(cfg Config) http.Handler {
	s := newSite(cfg)
	front := web.Front{
		Routes: s.routes(cfg), Pages: true, Access: cfg.Access, Proxy: cfg.Proxy, Unsigned: cfg.Unsigned, Hosts: cfg.Hosts,
		MaxBody: maxBody, Logger: cfg.Logger, Refuse: s.refuse,
	}
	return compressed(front.Handler())
}

// routes returns all pages, with the roles that may use them.
func (s *site) routes(cfg Config) []web.Route {
	queues := monitors(cfg, s.missing)
	all := []web.Role{web.Reader, web.Support, web.Operator}
	readers := []web.Role{web.Reader, web.Operator}
	finders := []web.Role{web.Support, web.Operator}
	operators := []web.Role{web.Operator}
	table := []web.Route{
		{Pattern: "GET /static/{file}", Roles: all, Serve: serveStatic(s.missing)},
		{Pattern: "GET /{$}", Roles: all, Serve: s.home},
		{Pattern: "GET /domains", Roles: all, Serve: s.domains},
		{Pattern: "POST /domains/check", Roles: finders, Serve: s.withForm(s.checkDomain)},
		{Pattern: "POST /domains/link", Roles: finders, Serve: s.withForm(s.makeLink)},
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
		{Pattern: "GET /runs/{id}/rows", Roles: readers, Serve: s.rows},
		{Pattern: "POST /clients/list", Roles: operators, Serve: s.withForm(s.listClient)},
		{Pattern: "POST /sweeps", Roles: operators, Serve: s.withForm(s.sweepNow)},
		{Pattern: "POST /webhooks/resend", Roles: operators, Serve: s.withForm(s.resend)},
		{Pattern: "GET " + monitorRoot + "/orgops/waiting", Roles: readers, Serve: s.waits},
		// asynqmon shows all tenants.
		{Pattern: monitorRoot + "/", Roles: readers, Everywhere: true, Serve: queues},
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

func newSite(cfg Config) *site {
	if cfg.Tenants == nil {
		cfg.Tenants = func() []Tenant { return nil }
	}
	names := func() (all []string) {
		for _, t := range cfg.Tenants() {
			all = append(all, t.Settings.Tenant)
		}
		return all
	}
	s := &site{
		views: view.NewStore(view.Config{
			Redis: cfg.Redis, Ledger: cfg.Ledger, Intake: cfg.Intake, Tenants: names, Logger: cfg.Logger,
		}),
		here: served{cfg.Tenants}, notices: notices{cfg.Redis, cfg.Logger},
		faults: cfg.Faults, signOut: cfg.Proxy.SignOut, version: cfg.Version, log: cfg.Logger,
		pages: map[string]*template.Template{}, links: cfg.Links,
		checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst), reads: rate.NewLimiter(rate.Every(readEvery), readBurst),
	}

	// Each page is the layout with its own template.
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"shown": status.Shown, "whole": status.Whole, "stamp": stamp, "grouped": grouped, "printable": printable,
		"droppedText": status.DroppedText,
		"asset":       asset, "capital": capital, "tone": toneOf,
		"runPath": runPath, "runLink": runLink, "domainURL": domainURL, "domainPath": domainPath, "tenantPath": tenantsPath,
		"missingAnswers": status.MissingAnswers, "serverName": status.ServerName,
		"answerText": status.AnswerText, "took": status.Took, "sentence": sentence, "timed": timed,
		"advised": advised, "command": commandOf,
		"join": strings.Join,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/plots.html"))
	for _, name := range []string{"problem", "overview", "runs", "run", "domains", "tenants", "search", "selection",
		"activity"} {
		s.pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}
