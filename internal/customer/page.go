package customer

import (
	"bytes"
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"
	texttemplate "text/template"
	"time"

	"orgops/dnscheck"
	"orgops/internal/actions"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/web"
)

// PageSettings are those of the page. Their tags are of package cli.
type PageSettings struct {
	Company string   `placeholder:"NAME" help:"Name of your company, at the top of the page."`
	Color   string   `name:"company-color" default:"#0b57b4" placeholder:"#RRGGBB" help:"Color of the top of the page and of its button."`
	Frames  []string `name:"frame-origins" placeholder:"ORIGINS" help:"Origins whose pages may have the page in a frame, such as https://app.example.com."`
}

// look is the appearance of the page.
type look struct {
	Company    string
	Color, Ink string // "#rrggbb": of the button, and of the text on it
	policy     string // content security policy
	framed     bool
}

func (s PageSettings) look() (look, error) {
	l := look{Company: s.Company, Color: strings.ToLower(s.Color), Ink: "#ffffff", framed: len(s.Frames) > 0}
	rgb, err := hex.DecodeString(strings.TrimPrefix(l.Color, "#"))
	if err != nil || len(rgb) != 3 || l.Color[0] != '#' {
		return look{}, fmt.Errorf("company-color: want #rrggbb, such as #0b57b4, got %s", untrusted.Value(s.Color))
	}
	if isLight([3]byte(rgb)) {
		l.Ink = "#000000"
	}
	ancestors := "'none'"
	if l.framed {
		ancestors = strings.Join(s.Frames, " ")
	}
	for _, origin := range s.Frames {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "https" && !untrusted.IsLoopback(u.Hostname())) || origin != u.Scheme+"://"+u.Host ||
			strings.ContainsAny(origin, "*;,' ") {
			return look{}, fmt.Errorf("frame-origins: want origins such as https://app.example.com, got %s",
				untrusted.Value(origin))
		}
	}
	l.policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors " + ancestors
	return l, nil
}

// isLight reports whether black text has more contrast on the color than white text (WCAG 2.2,
// relative luminance).
func isLight(rgb [3]byte) bool {
	luminance := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part := float64(rgb[i]) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		luminance += weight * part
	}
	return luminance > 0.179
}

// The limits of a page, and of the requests at a time: of all, and of the links to one domain,
// which few people open.
const (
	pageWithin = 10 * time.Second
	mostPages  = 128
	mostOfLink = 8
)

// page serves the pages.
type page struct {
	links   *Links
	look    look
	checker *dnscheck.Checker
	log     *slog.Logger
}

//go:embed static
var static embed.FS

var (
	templates = template.Must(inHTML("page.html"))
	style     = texttemplate.Must(texttemplate.ParseFS(static, "static/page.css"))
)

// Handler returns the handler of the page and its files, for requests to the host of the links. The
// checker's resolvers are queried for the zone of a domain; nil: none is known. The error is one of
// settings.
func (s PageSettings) Handler(links *Links, checker *dnscheck.Checker, log *slog.Logger) (http.Handler, error) {
	l, err := s.look()
	if err != nil {
		return nil, err
	}
	hosts, err := web.ParseHosts([]string{links.base.Hostname()})
	if err != nil {
		return nil, fmt.Errorf("link-url: %w", err)
	}
	p := &page{links, l, checker, log}
	front := web.Front{
		Routes: p.routes(), Unsigned: web.Customer, Pages: true, Public: true, Hosts: hosts, Limit: mostPages,
		Caller: links.domainOf, Each: mostOfLink, MaxBody: 1 << 10, Logger: log, Refuse: p.refuse,
	}
	handler := front.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path { // else the answer would lead to the clean path, with the token
			r.URL.Path = "/"
			r.URL.RawPath = ""
		}
		handler.ServeHTTP(w, r)
	}), nil
}

// routes returns all routes.
func (p *page) routes() []web.Route {
	customers := []web.Role{web.Customer}
	return []web.Route{
		{Pattern: "GET /{token}", Roles: customers, Serve: p.show},
		{Pattern: "POST /{token}", Roles: customers, Serve: p.check},
		{Pattern: "GET /page.css", Roles: customers, Serve: p.style},
		{Pattern: "GET /page.js", Roles: customers, Serve: func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, static, "static/page.js")
		}},
	}
}

// content is the content of the page.
type content struct {
	look
	status.DomainReport

	Expires time.Time     // of the link
	Steps   template.HTML // to publish the record
	Mail    string        // the URL by which they are sent to somebody
	Differs *difference   // between the record and what was found; nil: not known
	Absent  bool          // the domain is verified, but the last sweep did not find the record
	Done    bool          // it is verified, and the record was there
	Busy    time.Duration // until when no check can be requested; 0: it can
	Problem problem       // instead of all this
}

// problem is why nothing can be shown: the name of its text. "": there is none.
type problem string

const (
	notValid problem = "not-valid"
	notNow   problem = "not-now"
)

// show shows a domain: GET /{token}.
func (p *page) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	d, expires, err := p.links.open(ctx, r.PathValue("token"))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.answer(ctx, w, r, content{DomainReport: d.DomainReport, Expires: expires})
}

// check requests a check of a domain, and shows it: POST /{token}.
func (p *page) check(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	d, expires, err := p.links.open(ctx, r.PathValue("token"))
	if err == nil {
		err = d.CheckNow(ctx, expires.Sub(p.links.now()).Truncate(time.Second))
	}
	v := content{DomainReport: d.DomainReport, Expires: expires}
	many, _ := errors.AsType[*actions.TooManyChecks](err)
	switch {
	case many != nil:
		v.Busy = many.After
	case err != nil && !errors.Is(err, actions.ErrVerified):
		p.fail(w, r, err)
		return
	case err == nil:
		p.log.InfoContext(ctx, "check of a domain requested", "caller", web.Link, "tenant", d.Tenant,
			"organization", d.Organization, "domain", d.ID, "effect", v.Check)
	}
	p.answer(ctx, w, r, v)
}

// answer writes the page of a domain.
func (p *page) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, v content) {
	v.Absent = v.Status == "verified" && !v.AbsentSince.IsZero()
	v.Done = v.Status == "verified" && !v.Absent
	if !v.Done {
		instructions, err := InstructionsOf(ctx, v.Domain(), p.checker)
		if v.Finding != nil && !v.Absent {
			instructions.correct(*v.Finding)
		}
		if err == nil {
			v.Steps, err = instructions.Steps()
		}
		if err == nil {
			v.Mail, err = mailOf(instructions)
		}
		if err != nil {
			p.fail(w, r, err)
			return
		}
		if v.Finding != nil && !v.Absent {
			v.Differs = differenceOf(instructions, *v.Finding)
		}
	}
	code := http.StatusOK
	if v.Busy > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(v.Busy/time.Second)))
		code = http.StatusTooManyRequests
	}
	p.write(w, r, code, v)
}

// mailOf returns the URL of a mail with the instructions, to whom the reader chooses.
func mailOf(i Instructions) (string, error) {
	text, err := i.Text()
	if err != nil {
		return "", err
	}
	var subject strings.Builder
	err = textInstructions.ExecuteTemplate(&subject, "mail-subject", i)
	return "mailto:?subject=" + url.PathEscape(subject.String()) + "&body=" + mailBody(text), err
}

// mailBody returns a text as the body of a mail in a URL, whose lines end with CR LF (RFC 6068).
func mailBody(text string) string { return url.PathEscape(strings.ReplaceAll(text, "\n", "\r\n")) }

// fail answers a request whose link is not valid, or that could not be served.
func (p *page) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errInvalid) {
		p.refuse(w, r, &web.Refusal{Status: http.StatusNotFound})
		return
	}
	if r.Context().Err() == nil { // else the client has gone
		p.log.ErrorContext(r.Context(), "page of a customer not shown", "request_id", web.Of(r.Context()).ID, "error", err)
	}
	p.refuse(w, r, &web.Refusal{Status: http.StatusServiceUnavailable})
}

// refuse answers a request that is refused: each in the same way, unless the reason is in the
// server, or that its link has many requests in progress.
func (p *page) refuse(w http.ResponseWriter, r *http.Request, why *web.Refusal) {
	if why.Status < http.StatusInternalServerError && why.Status != http.StatusTooManyRequests {
		p.write(w, r, http.StatusNotFound, content{Problem: notValid})
		return
	}
	p.write(w, r, why.Status, content{Problem: notNow})
}

// write writes the page once it is complete.
func (p *page) write(w http.ResponseWriter, r *http.Request, code int, v content) {
	v.look = p.look
	var out bytes.Buffer
	if err := templates.Execute(&out, v); err != nil {
		p.log.ErrorContext(r.Context(), "page of a customer not written", "error", err)
		http.Error(w, "writing this page failed", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", p.look.policy)
	header.Set("Referrer-Policy", "no-referrer") // the address is a secret
	header.Set("X-Robots-Tag", "noindex, nofollow")
	if p.look.framed {
		header.Del("X-Frame-Options") // the policy names the allowed origins
	}
	w.WriteHeader(code)
	_, _ = out.WriteTo(w) // fails if the client has gone
}

// style serves the style sheet in the company's color.
func (p *page) style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	if err := style.Execute(w, p.look); err != nil {
		p.log.DebugContext(r.Context(), "style sheet not sent", "error", err)
	}
}
