package console

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"golang.org/x/time/rate"

	"orgops/internal/status"
)

// Pages serves the operators' pages, and asynqmon at /monitor/, to the users whom
// Config.Access admits. It answers requests for loopback names, for the address of the
// connection and for the names of Config.Access, and for no other host.
func Pages(cfg Config) http.Handler {
	mux := http.NewServeMux()
	newSite(cfg).routes(mux)
	mux.Handle(monitorRoot+"/", newMonitor(cfg))
	return newGuard(plainPaths(mux), cfg.Access, cfg.Logger)
}

// plainPaths answers 404 to a path of a file that has an element . or .., a backslash or a
// NUL, however they are encoded: only attacks have them.
func plainPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofFile := strings.HasPrefix(r.URL.Path, monitorRoot+"/") || strings.HasPrefix(r.URL.Path, "/static/")
		if ofFile && (!fs.ValidPath(strings.Trim(r.URL.Path, "/")) || strings.ContainsAny(r.URL.Path, "\\\x00")) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routes registers the pages and their files.
func (s *site) routes(mux *http.ServeMux) {
	mux.Handle("GET /static/{file}", http.FileServerFS(static)) // and not the list of them
	mux.HandleFunc("GET /domains", s.domains)
	mux.HandleFunc("POST /domains/check", s.withForm(s.checkDomain))
	mux.HandleFunc("GET /tenants", s.page("tenants", "tenants", pageWithin, s.tenants))
	mux.HandleFunc("POST /tenants/stop", s.acts(s.stopTenant))
	mux.HandleFunc("POST /tenants/start", s.acts(s.startTenant))
	mux.Handle("GET /{$}", http.RedirectHandler("/runs", http.StatusFound))
	mux.HandleFunc("GET /runs", s.page("runs", "runs", pageWithin, s.runs))
	mux.HandleFunc("GET /runs/{id}", s.page("run", "runs", pageWithin, s.run))
	mux.HandleFunc("GET /runs/{id}/failed", s.failed)
	for action, do := range runActions {
		mux.HandleFunc("POST /runs/{id}/"+action, s.acts(s.toRun(action, do)))
	}
	mux.HandleFunc("POST /sweeps", s.acts(s.sweepNow))
}

//go:embed templates
var templates embed.FS

//go:embed static
var static embed.FS

func newSite(cfg Config) *site {
	if cfg.Tenants == nil {
		cfg.Tenants = func() []Tenant { return nil }
	}
	s := &site{
		Config: cfg, pages: map[string]*template.Template{}, estimator: status.NewEstimator(cfg.Redis),
		checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst), reads: rate.NewLimiter(rate.Every(readEvery), readBurst),
	}
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"shown": status.Shown, "whole": status.Whole, "stamp": stamp, "grouped": grouped, "printable": printable, "capital": capital, "tone": toneOf,
		"runPath": runPath, "domainURL": domainURL, "domainPath": domainPath, "scanState": status.ScanState,
		"verdictTone": verdictTone, "missingAnswers": status.MissingAnswers, "serverName": status.ServerName, "answerText": status.AnswerText,
		"took": status.Took, "toDo": toDo, "utc": status.Stamp, "percent": percent, "join": strings.Join, "waiting": waiting,
		"skipped": status.SkippedTick, "sweepText": status.SweepText, "rulesText": status.RulesText,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, name := range []string{"problem", "runs", "run", "domains", "tenants"} {
		s.pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}
