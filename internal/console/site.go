package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"orgops/internal/customer"
	"orgops/internal/health"
	"orgops/internal/ids"
	"orgops/internal/obstacle"
	"orgops/internal/view"
	"orgops/internal/web"
)

// sitePolicy is the content security policy of the pages: scripts, styles and forms of this
// origin only.
const sitePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxBody is more than any form of the pages, and than a hundred task ids of asynqmon.
const maxBody = 64 << 10

// site serves the pages, which are complete HTML without a script; the script only keeps them
// up to date (static/ops.js). Its handlers read and change data through the user's view.
type site struct {
	views   *view.Store
	here    served
	notices notices
	faults  func() []health.Finding // of this worker and its Redis; nil: there are none
	signOut string                  // address at the proxy; empty: there is none
	version string
	log     *slog.Logger
	pages   map[string]*template.Template // by name: the layout with that page
	acting  sync.Map                      // the runs and tenants with an action in progress
	links   *customer.Links               // nil: none are made
	checks  *rate.Limiter                 // of domains, by hand
	reads   *rate.Limiter                 // of the API
}

// view returns the view of the user of a request.
func (s *site) view(ctx context.Context) view.View { return s.views.For(web.Of(ctx).User) }

// page is a page with the data of the layout around it.
type page struct {
	Title   string
	Section string // of the navigation: overview, runs, domains, tenants, activity
	User    web.User
	SignOut string // address at the proxy; empty: there is none
	Version string
	Now     time.Time // by which the script shows how long ago a time was
	Notice  string    // the result of the action that led here; empty: none did. show sets it
	Failed  bool      // the action failed
	Data    any       // of the page itself
}

// Write reports whether actions may be offered.
func (p page) Write() bool { return p.User.Role == web.Operator }

// May reports whether the user may use a page.
func (p page) May(section string) bool {
	switch section {
	case "queues":
		return p.User.Role != web.Support && p.User.Everywhere()
	case "check":
		return p.User.Role != web.Reader
	}
	return p.User.Role != web.Support
}

// userOf returns the name of the user of a request.
func userOf(ctx context.Context) string { return printable(web.Of(ctx).User.Name) }

// tenantOf returns the tenant of the view that a request names. The error is a *web.Refusal.
func tenantOf(v view.View, name string) (view.Tenant, error) {
	if err := ids.CheckTenant(name); err != nil {
		return view.Tenant{}, &web.Refusal{Status: http.StatusBadRequest, Text: err.Error()}
	}
	t, err := v.Tenant(name)
	if err != nil {
		return view.Tenant{}, notFound(err)
	}
	return t, nil
}

// notFound returns the refusal of something that does not exist for the user.
func notFound(err error) *web.Refusal {
	return &web.Refusal{Status: http.StatusNotFound, Text: err.Error()}
}

// show writes the page of that name once it is complete, so that an error does not cut it
// off.
func (s *site) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.User = web.Of(r.Context()).User
	p.Version = s.version
	p.SignOut = s.signOut
	p.Now = time.Now()
	n := s.notices.of(r)
	p.Notice = n.Text
	p.Failed = n.Bad
	var out bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&out, "layout.html", p); err != nil {
		s.log.ErrorContext(r.Context(), "page not written", "page", name, "error", err)
		http.Error(w, "rendering this page failed: see the worker's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", sitePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // fails if the client has gone
}

// page returns the handler of a page whose title and data build returns. An error that is no
// *web.Refusal is one of Redis.
func (s *site) page(name, section string,
	build func(ctx context.Context, r *http.Request) (title string, data any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
		defer cancel()
		title, data, err := build(ctx, r)
		if err != nil {
			s.fail(w, r, section, err)
			return
		}
		s.show(w, r, http.StatusOK, name, page{Title: title, Section: section, Data: data})
	}
}

// fail writes a page with an error and its remedy: a *web.Refusal, something that does not exist
// for the user, or Redis could not be read.
func (s *site) fail(w http.ResponseWriter, r *http.Request, section string, err error) {
	if none, is := errors.AsType[*view.NotFoundError](err); is {
		err = notFound(none)
	}
	refused, ok := errors.AsType[*web.Refusal](err)
	if !ok {
		refused = &web.Refusal{Status: http.StatusServiceUnavailable, Text: capital(unread(err))}
		if r.Context().Err() == nil {
			s.log.ErrorContext(r.Context(), "page not shown", "path", r.URL.Path, "error", err)
		}
	}
	p := problemOf(refused)
	s.show(w, r, refused.Status, "problem", page{Title: p.What, Section: section, Data: p})
}

// refuse answers a request that was refused before its handler: by a page if a browser opens it for
// a user who has signed in, else by a line of text, for scripts and programs.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, why *web.Refusal) {
	opened := strings.Contains(r.Header.Get("Accept"), "text/html")
	if !opened || web.Of(r.Context()).User.Name == "" {
		http.Error(w, why.Text, why.Status)
		return
	}
	s.fail(w, r, "", why)
}

// missing answers a path at which there is neither a page nor a file, as that of any missing page.
func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, &web.Refusal{Status: http.StatusNotFound, Text: http.StatusText(http.StatusNotFound)})
}

// problem is the page of a request that was not served.
type problem struct{ What, Why, Do string }

// problemOf returns the page of a refusal.
func problemOf(refused *web.Refusal) problem {
	p := problem{What: http.StatusText(refused.Status), Why: sentence(refused.Text)}
	if refused.Text == p.What {
		p.Why = "" // of the mux, which says no more
	}
	switch refused.Status {
	case http.StatusForbidden:
		p.What = "You have no access to this page"
		p.Do = "Use the pages named above. If you need this one, ask the administrator of the access file, or of the proxy’s roles."
	case http.StatusNotFound:
		p.What = "Not found"
		p.Why = cmp.Or(p.Why, "There is no page at this address.")
		p.Do = "Check the address, or search for the domain, run or label above."
	case http.StatusMethodNotAllowed:
		p.What = "This address is not a page"
		p.Why = cmp.Or(p.Why, "It only takes the forms of other pages.")
		p.Do = "Go to the page with the form, and press its button. Nothing was changed."
	}
	return p
}

// withForm reads the form before a handler. An error is shown on the page that every role may see.
func (s *site) withForm(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := r.ParseForm()
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			s.lead(w, r, "/domains", fmt.Sprintf("The form is larger than %d bytes. Nothing was changed.", maxBody), true)
			return
		}
		if err != nil {
			s.lead(w, r, "/domains", "The form could not be read. Nothing was changed.", true)
			return
		}
		next(w, r)
	}
}

// field returns the text of a field of a form.
func field(form url.Values, name string) string { return strings.TrimSpace(form.Get(name)) }

// lead redirects the browser to a page that shows the result of an action.
func (s *site) lead(w http.ResponseWriter, r *http.Request, path, text string, bad bool) {
	s.leadWith(w, r, path, notice{Text: text, Bad: bad})
}

// leadWith redirects the browser to a page with a notice, so that the page can be reloaded.
func (s *site) leadWith(w http.ResponseWriter, r *http.Request, path string, n notice) {
	with := "?"
	if strings.Contains(path, "?") {
		with = "&"
	}
	if key := s.notices.keep(context.WithoutCancel(r.Context()), n); key != "" {
		path += with + "notice=" + key
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
}

// served has the tenants of this worker.
type served struct{ all func() []Tenant }

// of returns the data of a view's tenant that this worker has, if it serves it.
func (s served) of(t view.Tenant) (Tenant, bool) {
	all := s.all()
	at := slices.IndexFunc(all, func(here Tenant) bool { return here.Settings.Tenant == t.Name() })
	if at < 0 {
		return Tenant{}, false
	}
	return all[at], true
}

// noTokens returns why this worker has no good token, by those tenants of the view for which it has
// none.
func (s served) noTokens(v view.View) map[string]*obstacle.NoToken {
	lacking := map[string]*obstacle.NoToken{}
	for _, here := range s.all() {
		if here.API == nil || here.NoToken() == nil {
			continue
		}
		if t, err := v.Tenant(here.Settings.Tenant); err == nil {
			lacking[t.Name()] = here.NoToken()
		}
	}
	return lacking
}

// among returns the names of those tenants of the view that this worker serves.
func (s served) among(v view.View) (names []string) {
	for _, here := range s.all() {
		if t, err := v.Tenant(here.Settings.Tenant); err == nil {
			names = append(names, t.Name())
		}
	}
	return names
}
