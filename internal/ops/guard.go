package ops

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// strictPolicy is the content security policy of a page that loads nothing and
// is framed by nobody; a page that needs more says so after it.
const strictPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded refuses what another site could make the operator's browser do, and
// sets the headers that keep the browser itself strict.
func guarded(next http.Handler, logger *slog.Logger) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger.WarnContext(r.Context(), "request refused", "reason", "cross_origin", "method", r.Method, "origin", printable(r.Header.Get("Origin")))
		http.Error(w, "this request came from another site and was not carried out", http.StatusForbidden)
	}))
	next = sameOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", strictPolicy)
		header.Set("X-Frame-Options", "DENY")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !ownHost(r) {
			logger.WarnContext(r.Context(), "request refused", "reason", "foreign_host", "host", printable(r.Host))
			http.Error(w, "these pages answer to localhost and to their own address only, not to "+printable(r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost holds the Host header against DNS rebinding: a name that a stranger
// points at this address has his name in it, and the browser takes both for one
// origin. The port does not count, so that a forwarded one works.
func ownHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761 6.3
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}
