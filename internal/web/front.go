package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// Front is one HTTP side of a process, the pages or the intake, before its handlers.
type Front struct {
	// Routes are all that it serves. They are those of an [http.ServeMux].
	Routes []Route
	// Access has the users; Proxy names them instead. If there is neither, every request has the
	// role Unsigned; such a server has to listen on loopback only.
	Access   *Access
	Proxy    Proxy
	Unsigned Role
	// Pages says that users are people with browsers, who send a token as the password of HTTP
	// Basic. Else they are programs, which send it as Bearer.
	Pages bool
	// Public says that each path has a secret of its own, so that requests may come from any site,
	// and the pages be framed.
	Public bool
	// Hosts are names that requests for pages may be for, as [ParseHosts] returns them, in addition
	// to loopback's and the address of the connection.
	Hosts []string
	// Caller returns the caller of a request without a sign-in, for the limit; "" for one that costs
	// nothing, and is served beyond it. nil: all of them are one.
	Caller func(*http.Request) string
	// Each is how many requests of one caller are served at a time; 0: as many as others leave.
	Each int
	// Limit is how many requests are served at a time, to all users: see [Places]; 0: 256.
	Limit int
	// MaxBody is the largest body in bytes; 0: handlers limit it.
	MaxBody int64
	// Patience is how long a request may take to arrive, and each write of an answer; 0: 30 s.
	Patience time.Duration
	// Refuse answers a request that is refused.
	Refuse func(http.ResponseWriter, *http.Request, *Refusal)
	// Answered is called after each request, with the pattern of its route, or "", and the status of
	// the answer; 0: there was none. It may be nil.
	Answered func(route string, status int)
	Logger   *slog.Logger

	mux    *http.ServeMux
	routes map[string]Route // by pattern
	places *Places
}

// Route is what a Front serves.
type Route struct {
	Pattern string // of [http.ServeMux]
	Roles   []Role // that may use it; none: nobody
	// Everywhere denies the route to users who are limited to tenants or organizations.
	Everywhere bool
	Serve      http.HandlerFunc
}

// Admits returns why a user may not use the route; nil: they may.
func (route Route) Admits(u User) *Refusal {
	switch {
	case !slices.Contains(route.Roles, u.Role):
		return forbidden("role", "your role is %s, which may not do this", u.Role)
	case route.Everywhere && !u.Everywhere():
		return forbidden("tenants", "this shows all tenants, and your access is limited to some")
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// StrictPolicy is the content security policy of an answer that loads nothing and may not be
// framed; a page that needs more sets its own.
const StrictPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler returns the handler of all requests.
func (f *Front) Handler() http.Handler {
	f.mux = http.NewServeMux()
	f.routes = map[string]Route{}
	f.places = NewPlaces("requests", cmp.Or(f.Limit, 256))
	f.Patience = cmp.Or(f.Patience, 30*time.Second)
	f.places.each = f.Each
	for _, route := range f.Routes {
		f.mux.HandleFunc(route.Pattern, route.Serve)
		f.routes[route.Pattern] = route
	}
	return http.HandlerFunc(f.guard)
}

// guard serves or refuses a request, and logs it.
func (f *Front) guard(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	it := &Request{ID: r.Header.Get("X-Request-Id")}
	if !idPattern.MatchString(it.ID) {
		it.ID = strings.ToLower(rand.Text())
	}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, it))
	out := &recorder{ResponseWriter: w, control: http.NewResponseController(w), patience: f.Patience}
	f.setHeaders(out.Header(), r, it.ID)
	// Handlers of bodies and streams set another deadline for reading. One for writing is set
	// before each write: over HTTP/2, the server's own would end a long upload that has no
	// answer yet.
	_ = out.control.SetReadDeadline(start.Add(f.Patience))
	_ = out.control.SetWriteDeadline(time.Time{})
	defer func() {
		broken := recover()
		cut := broken != nil && f.panicked(out, r, broken)
		f.log(r, it, out, start)
		if f.Answered != nil {
			f.Answered(r.Pattern, out.status)
		}
		if cut {
			panic(http.ErrAbortHandler) // only a broken connection shows that the rest is missing
		}
	}()
	if refused := f.serve(out, r); refused != nil {
		f.refuse(out, r, refused)
	}
}

// serve finds out who sends the request, and serves it, or returns why not.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) *Refusal {
	// The route of the path as it was sent.
	found, pattern := f.mux.Handler(r)
	if asked := r.URL.EscapedPath(); path.Clean(asked) != strings.TrimSuffix(asked, "/") && asked != "/" {
		found = http.NotFoundHandler()
		pattern = "" // the mux would redirect //path
	}
	r.Pattern = pattern

	// Browsers send other sites' requests with the user's credentials.
	if f.Pages || f.Access == nil {
		if refused := f.foreign(r); refused != nil {
			return refused
		}
	}

	// The user, a place, and whether the user's role may use the route.
	if route := f.routes[pattern]; !slices.Contains(route.Roles, Anybody) {
		user, refused := f.user(r)
		if refused != nil {
			return refused
		}
		Of(r.Context()).User = user
		free, refused := f.takePlace(r, user)
		if refused != nil {
			return refused
		}
		defer free()
		if pattern == "" { // there is no such path, or not with this method: the mux knows
			answer := &recorder{ResponseWriter: nowhere(w.Header()), control: http.NewResponseController(w)}
			found.ServeHTTP(answer, r)
			return &Refusal{Status: answer.status, Text: http.StatusText(answer.status)}
		}
		if refused := route.Admits(user); refused != nil {
			return refused
		}
		Of(r.Context()).Admitted = func() bool {
			now, refused := f.user(r)
			if refused != nil || now.Name != user.Name || route.Admits(now) != nil {
				return false
			}
			Of(r.Context()).User = now
			return true
		}
	}
	if f.MaxBody > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, f.MaxBody)
	}
	f.mux.ServeHTTP(w, r)
	return nil
}

// panicked answers a request whose handler has panicked, and reports whether its answer is
// incomplete, so that the connection has to be cut.
func (f *Front) panicked(out *recorder, r *http.Request, broken any) (cut bool) {
	it := Of(r.Context())
	if err, _ := broken.(error); errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	f.Logger.ErrorContext(r.Context(), "panic",
		"request_id", it.ID, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
	it.Failed = true
	if out.status != 0 {
		return true
	}
	f.refuse(out, r, &Refusal{
		Status: http.StatusInternalServerError,
		Text:   "internal error: the log has the details under request id " + it.ID,
	})
	return false
}

// nowhere is a writer of an answer that has only a header.
type nowhere http.Header

func (h nowhere) Header() http.Header       { return http.Header(h) }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// takePlace takes one of the requests that are served at a time.
func (f *Front) takePlace(r *http.Request, user User) (free func(), refused *Refusal) {
	caller := user.Name
	if f.Caller != nil && caller == string(Anybody) {
		caller = f.Caller(r)
	}
	if caller == "" {
		return func() {}, nil
	}
	return f.places.Take(caller)
}

func (f *Front) setHeaders(header http.Header, r *http.Request, id string) {
	header.Set("X-Request-Id", id)
	header.Set("Content-Security-Policy", StrictPolicy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send no Origin to this one
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if f.Pages && r.TLS != nil && !IsLocal(Host(r)) { // on localhost it would apply to every port
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// user returns the user of a request.
func (f *Front) user(r *http.Request) (User, *Refusal) {
	if f.Proxy.Header != "" {
		return f.Proxy.user(r)
	}
	if f.Access == nil {
		return Unsigned(f.Unsigned), nil
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return User{}, &Refusal{Status: http.StatusUnauthorized, Text: f.how()}
	}
	var token string
	var ok bool
	if f.Pages {
		_, token, ok = r.BasicAuth()
	} else {
		var scheme string
		scheme, token, ok = strings.Cut(given[0], " ")
		ok = ok && strings.EqualFold(scheme, "Bearer")
	}
	if !ok || len(given) > 1 {
		return User{}, &Refusal{Status: http.StatusUnauthorized, Reason: "authorization_malformed", Text: f.how()}
	}
	user, known := f.Access.User(strings.TrimSpace(token))
	if !known {
		return User{}, &Refusal{Status: http.StatusUnauthorized, Reason: "unknown_token", Text: "the token is unknown"}
	}
	return user, nil
}

// how says how a client sends its token.
func (f *Front) how() string {
	if f.Pages {
		return "sign in with your token as the password; the name does not matter"
	}
	return `send your token in one header "Authorization: Bearer TOKEN"`
}

func (f *Front) refuse(w http.ResponseWriter, r *http.Request, why *Refusal) {
	it := Of(r.Context())
	header := w.Header()
	if why.Reason != "" {
		it.Failed = true
		it.About = append(append(it.About, "reason", why.Reason), why.About...)
	}
	if why.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="orgops"`)
		if f.Pages {
			header.Set("WWW-Authenticate", `Basic realm="orgops", charset="UTF-8"`)
		} else if why.Reason == "unknown_token" {
			header.Set("WWW-Authenticate", `Bearer realm="orgops", error="invalid_token"`)
		}
	}
	if why.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(why.RetryAfter/time.Second)))
	}
	f.Refuse(w, r, why)
}

// log writes the line of a request; of its path only the route, since a client chooses the rest.
// Reads of pages, which repeat themselves every two seconds, have none, unless they fail.
func (f *Front) log(r *http.Request, it *Request, out *recorder, start time.Time) {
	if f.Pages && reads(r) && !it.Failed {
		return
	}
	level := slog.LevelInfo
	if it.Failed || out.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	attrs := []any{
		"request_id", it.ID, "method", untrusted.Plain(r.Method, 16), "route", r.Pattern,
		"status", out.status, "bytes", out.bytes, "seconds", time.Since(start).Seconds(), "remote", r.RemoteAddr,
	}
	if it.User.Name != "" {
		attrs = append(attrs, "user", it.User.Name)
	}
	f.Logger.Log(r.Context(), level, "request", append(attrs, it.About...)...)
}
