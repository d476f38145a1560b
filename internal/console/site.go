package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"orgops/internal/status"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

//go:embed templates
var templates embed.FS

//go:embed static
var static embed.FS

// sitePolicy is the content security policy of our own pages: their own script and
// style, from here, and forms that lead here.
const sitePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// site is our own pages: HTML that is whole without a script, which the script only
// keeps up to date (static/ops.js).
type site struct {
	Config
	pages    map[string]*template.Template // by name: the layout with that page in it
	oracle   *status.Oracle
	notices  notices
	acting   sync.Map            // the runs and tenants to which something is being done from these pages
	checking sync.Mutex          // is held while a domain is checked by hand
	checks   *rate.Limiter       // of domains, by hand
	reads    *rate.Limiter       // of the API
	lookUps  *semaphore.Weighted // of stored rows
}

// page is what the layout shows around a page.
type page struct {
	Title   string
	Section string // the entry of the navigation that it belongs to: runs, domains, tenants
	Write   bool   // actions may be offered
	Version string
	Notice  string // what became of the action that led here; empty: none did. show sets it
	Failed  bool   // the action did not do what was asked
	Data    any    // of the page itself
}

func newSite(cfg Config) *site {
	s := &site{
		Config: cfg, pages: map[string]*template.Template{}, oracle: status.NewOracle(cfg.Redis), lookUps: semaphore.NewWeighted(mostLookUps),
		checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst), reads: rate.NewLimiter(rate.Every(readEvery), readBurst),
	}
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"shown": status.Shown, "stamp": stamp, "grouped": grouped, "printable": printable, "capital": capital, "tone": toneOf,
		"runPath": runPath, "previewPath": previewPath, "domainURL": domainURL, "walkState": status.WalkState, "openReason": status.OpenReason,
		"verdict": verdictOf, "verdictTone": verdictTone, "notHeard": status.NotHeard, "whoSaid": status.WhoSaid, "whatIsThere": status.WhatIsThere,
		"took": took, "toDo": toDo, "utc": utc, "percent": percent, "join": strings.Join, "waiting": waiting,
		"skipped": status.Skipped, "sweepText": status.SweepText, "rulesText": rulesText,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, name := range []string{"problem", "runs", "run", "domains", "tenants", "preview"} {
		s.pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}

// routes puts the pages and their files at their places.
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

// show writes the page of that name. It is written only once it is whole, so that an
// error in the middle is not taken for its end.
func (s *site) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Write, p.Version = s.Write, s.Version
	if told := s.notices.of(r); told.text != "" {
		p.Notice, p.Failed = told.text, told.bad
	}
	var out bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&out, "layout.html", p); err != nil {
		s.logger().ErrorContext(r.Context(), "page not written", "page", name, "error", err)
		http.Error(w, "rendering this page failed: see the worker's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", sitePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // who has gone is not told
}

// pageWithin is how long a page may take.
const pageWithin = 10 * time.Second

// page returns a handler of the page of that name, whose title and data build returns within
// that time. An error that is no *refusal is Redis'.
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

// problem says in the frame of a page what went wrong, and what to do.
func (s *site) problem(w http.ResponseWriter, r *http.Request, status int, section, what string) {
	s.show(w, r, status, "problem", page{Title: http.StatusText(status), Section: section, Data: what})
}

// fail says in the frame of a page why it is not shown: the error is a *refusal, or Redis
// could not be read.
func (s *site) fail(w http.ResponseWriter, r *http.Request, section string, err error) {
	if refused, ok := errors.AsType[*refusal](err); ok {
		s.problem(w, r, refused.status, section, refused.text)
		return
	}
	if r.Context().Err() == nil {
		s.logger().ErrorContext(r.Context(), "page not shown", "path", r.URL.Path, "error", err)
	}
	s.problem(w, r, http.StatusServiceUnavailable, section, "Reading Redis failed: "+status.Shown(err.Error())+". "+
		"Check that Redis runs and that this worker can reach it. No rows are lost; workers resume once Redis is back.")
}

// acts lets a handler of an action run where the settings allow actions, its form read.
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

// stamp is a moment as pages show it, with what a script and a reader's software need.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	//nolint:gosec // of digits alone
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

// grouped is a number with its digits in threes: 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
