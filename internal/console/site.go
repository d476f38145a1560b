package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"orgops/internal/status"
)

//go:embed templates
var templates embed.FS

//go:embed static
var static embed.FS

// sitePolicy is the content security policy of the pages: scripts, styles and forms of this
// origin only.
const sitePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// site serves the pages, which are complete HTML without a script; the script only keeps them
// up to date (static/ops.js).
type site struct {
	Config
	pages     map[string]*template.Template // by name: the layout with that page
	estimator *status.Estimator
	notices   notices
	acting    sync.Map      // the runs and tenants with an action in progress
	checks    *rate.Limiter // of domains, by hand
	reads     *rate.Limiter // of the API
}

// page is a page with the data of the layout around it.
type page struct {
	Title   string
	Section string // of the navigation: runs, domains, tenants
	Write   bool   // actions may be offered
	Version string
	Notice  string // the result of the action that led here; empty: none did. show sets it
	Failed  bool   // the action failed
	Data    any    // of the page itself
}

func newSite(cfg Config) *site {
	if cfg.Tenants == nil {
		cfg.Tenants = func() []Tenant { return nil }
	}
	s := &site{
		Config: cfg, pages: map[string]*template.Template{}, estimator: status.NewEstimator(cfg.Redis),
		checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst), reads: rate.NewLimiter(rate.Every(readEvery), readBurst),
	}
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"shown": status.Shown, "stamp": stamp, "grouped": grouped, "printable": printable, "capital": capital, "tone": toneOf,
		"runPath": runPath, "previewPath": previewPath, "domainURL": domainURL, "scanState": status.ScanState, "openReason": status.OpenReason,
		"verdictTone": verdictTone, "missingAnswers": status.MissingAnswers, "serverName": status.ServerName, "answerText": status.AnswerText,
		"took": status.Took, "toDo": toDo, "utc": status.Stamp, "percent": percent, "join": strings.Join, "waiting": waiting,
		"skipped": status.SkippedTick, "sweepText": status.SweepText, "rulesText": status.RulesText,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, name := range []string{"problem", "runs", "run", "domains", "tenants", "preview"} {
		s.pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}

// monitorRoot is the path of asynqmon.
const monitorRoot = "/monitor"

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
	mux.HandleFunc("GET /sweeps/preview", s.page("preview", "runs", previewWithin, s.preview))
	mux.HandleFunc("POST /sweeps", s.acts(s.sweepNow))
	mux.HandleFunc("POST /sweeps/confirm", s.acts(s.confirmSweep))
}

// show writes the page of that name once it is complete, so that an error does not cut it
// off.
func (s *site) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Write, p.Version = s.Write, s.Version
	if n := s.notices.of(r); n.text != "" {
		p.Notice, p.Failed = n.text, n.bad
	}
	var out bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&out, "layout.html", p); err != nil {
		s.Logger.ErrorContext(r.Context(), "page not written", "page", name, "error", err)
		http.Error(w, "rendering this page failed: see the worker's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", sitePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // fails if the client has gone
}

// pageWithin bounds the time of a page.
const pageWithin = 10 * time.Second

// page returns the handler of a page whose title and data build returns within that time. An
// error that is no *refusal is one of Redis.
func (s *site) page(name, section string, within time.Duration, build func(ctx context.Context, r *http.Request) (title string, data any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		title, data, err := build(ctx, r)
		if err != nil {
			s.fail(w, r, section, err)
			return
		}
		s.show(w, r, http.StatusOK, name, page{Title: title, Section: section, Data: data})
	}
}

// problem writes a page with an error and its remedy.
func (s *site) problem(w http.ResponseWriter, r *http.Request, status int, section, what string) {
	s.show(w, r, status, "problem", page{Title: http.StatusText(status), Section: section, Data: what})
}

// fail writes a page with an error: a *refusal, or Redis could not be read.
func (s *site) fail(w http.ResponseWriter, r *http.Request, section string, err error) {
	if refused, ok := errors.AsType[*refusal](err); ok {
		s.problem(w, r, refused.status, section, refused.text)
		return
	}
	if r.Context().Err() == nil {
		s.Logger.ErrorContext(r.Context(), "page not shown", "path", r.URL.Path, "error", err)
	}
	s.problem(w, r, http.StatusServiceUnavailable, section, "Reading Redis failed: "+status.Shown(err.Error())+". "+
		"Check that Redis runs and that this worker can reach it. No rows are lost; workers resume once Redis is back.")
}

// acts reads the form for the handler of an action, and refuses it if pages are read-only.
func (s *site) acts(next http.HandlerFunc) http.HandlerFunc {
	if s.Write {
		return s.withForm(next)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, http.StatusForbidden, "", "These pages are read-only. Start the worker with --ops-write to allow actions.")
	}
}

// withForm reads the form before a handler.
func (s *site) withForm(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := r.ParseForm()
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			s.problem(w, r, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("The form is larger than %d bytes. Nothing was changed.", maxBody))
			return
		}
		if err != nil {
			s.problem(w, r, http.StatusBadRequest, "", "The form could not be read. Nothing was changed.")
			return
		}
		next(w, r)
	}
}

// stamp returns a time as pages show it, readable by scripts and screen readers.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	//nolint:gosec // only digits
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339), t.Format("2006-01-02 15:04:05")+" UTC"))
}

// capital returns a label with its first letter in upper case.
func capital(label string) string {
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}

// grouped returns a number with its digits in threes: 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
