package console

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"orgops/internal/serving"
)

// strictPolicy is the content security policy of a page that loads nothing and may not be
// framed; a page that needs more adds it.
const strictPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxBody is more than any form of the pages, and than a hundred task ids of asynqmon.
const maxBody = 64 << 10

// methods are the methods of all pages.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}

// guard refuses requests of users without access, and requests that another site makes the
// operator's browser send; and it sets the headers that restrict the browser.
type guard struct {
	next       http.Handler
	access     Access
	attempts   *attempts
	sameOrigin *http.CrossOriginProtection
	logger     *slog.Logger
}

func newGuard(next http.Handler, access Access, logger *slog.Logger) *guard {
	return &guard{next: next, access: access, attempts: newAttempts(), sameOrigin: http.NewCrossOriginProtection(), logger: logger}
}

// ServeHTTP serves or refuses a request.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", strictPolicy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.TLS != nil && !serving.IsLocal(serving.Host(r)) { // on localhost it would apply to every port
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	user, refused := "", g.check(r)
	if refused == nil {
		user, refused = g.user(r)
	}
	if refused != nil {
		g.refuse(w, r, refused)
		return
	}
	if user != "" {
		r = r.WithContext(withUser(r.Context(), user))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		g.next.ServeHTTP(w, r)
		return
	}
	g.write(w, r)
}

// write serves a request that may change something, and logs its user.
func (g *guard) write(w http.ResponseWriter, r *http.Request) {
	out := &recorded{ResponseWriter: w, status: http.StatusOK}
	g.next.ServeHTTP(out, r)
	g.logger.InfoContext(r.Context(), "action requested", "user", printable(UserOf(r.Context())), "method", r.Method, "path", printable(r.URL.Path), "status", out.status, "remote", r.RemoteAddr)
}

// recorded records the status of an answer.
type recorded struct {
	http.ResponseWriter
	status int
}

func (t *recorded) WriteHeader(status int) {
	t.status = status
	t.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (t *recorded) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// check refuses requests that are refused for all users.
func (g *guard) check(r *http.Request) *refusal {
	switch {
	case !g.ownHost(r):
		return &refusal{
			status: http.StatusForbidden, reason: "foreign_host", about: []any{"host", printable(r.Host)},
			text: "these pages accept requests for localhost, their own address and the names in --ops-hosts, but not for " + printable(r.Host),
		}
	case !g.access.fromProxy(r):
		return &refusal{
			status: http.StatusForbidden, reason: "not_by_the_proxy",
			text: "these pages accept requests only from their proxy (--ops-proxy-from)",
		}
	case !slices.Contains(methods, r.Method):
		return &refusal{status: http.StatusMethodNotAllowed, text: "these pages accept GET, HEAD, POST and DELETE"}
	}
	err := g.sameOrigin.Check(r)
	if err == nil && !readsFromElsewhere(r) {
		return nil
	}
	text := "this request came from another site and was refused"
	if err == nil {
		text = "another site's page sent this request: other sites may link to these pages, but not load them"
	}
	return &refusal{status: http.StatusForbidden, reason: "cross_origin", about: []any{"method", r.Method, "origin", printable(r.Header.Get("Origin"))}, text: text}
}

// readsFromElsewhere reports whether another site's page makes the operator's browser load
// something here. It would not see the answer, but each read takes time of Redis, and a
// domain's page a permit of the API. Links of other sites work. Without the header the client
// is no browser, or one from before 2023.
func readsFromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func (g *guard) refuse(w http.ResponseWriter, r *http.Request, why *refusal) {
	if why.reason != "" {
		about := append([]any{"reason", why.reason, "remote", r.RemoteAddr}, why.about...)
		g.logger.WarnContext(r.Context(), "request refused", about...)
	}
	switch why.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="orgops", charset="UTF-8"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(methods, ", "))
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, why.text, why.status)
}

// user returns the user of the request; empty: there is no sign-in.
func (g *guard) user(r *http.Request) (string, *refusal) {
	switch {
	case g.access.Users != nil:
		return g.signedIn(r)
	case g.access.ProxyHeader != "":
		return g.access.named(r)
	}
	return "", nil
}

// signedIn checks name and password.
func (g *guard) signedIn(r *http.Request) (string, *refusal) {
	if len(r.Header.Values("Authorization")) == 0 {
		return "", &refusal{status: http.StatusUnauthorized, text: "sign in with name and password"}
	}
	name, password, ok := r.BasicAuth()
	if !ok || len(r.Header.Values("Authorization")) > 1 {
		return "", &refusal{status: http.StatusUnauthorized, reason: "authorization_malformed", text: "want one Authorization header with the scheme Basic"}
	}
	list := g.access.Users.list.Get()
	if list.verified(name, password) {
		return name, nil
	}
	right, err := g.attempts.try(r.Context(), peerOf(r), func() bool { return list.verified(name, password) || list.verify(name, password) })
	about := []any{"user", "unknown"} // a password is often typed there by mistake
	if list.hashes[name] != "" {
		about[1] = name
	}
	switch {
	case errors.Is(err, errTooMany):
		return "", &refusal{status: http.StatusTooManyRequests, reason: "too_many_attempts", text: err.Error(), about: about}
	case err != nil: // the client has gone
		return "", &refusal{status: http.StatusServiceUnavailable, text: "the request was cancelled"}
	case !right:
		return "", &refusal{status: http.StatusUnauthorized, reason: "wrong_password", text: "wrong name or password", about: about}
	}
	return name, nil
}

// ownHost checks the Host header against DNS rebinding: a foreign name that resolves to this
// address is in it, and the browser considers both one origin. The port does not count, so
// that a forwarded one works.
func (g *guard) ownHost(r *http.Request) bool {
	host := serving.Host(r)
	if serving.IsLocal(host) || slices.Contains(g.access.Hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}
