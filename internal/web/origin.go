package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"orgops/internal/untrusted"
)

const label = `[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?`

var hostPattern = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)

// ParseHosts parses names of hosts, without ports.
func ParseHosts(names []string) ([]string, error) {
	var hosts []string
	for _, name := range names {
		host := strings.ToLower(strings.TrimSuffix(name, "."))
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && (!hostPattern.MatchString(host) || len(host) > 253) {
			return nil, fmt.Errorf("want host names without ports, such as ops.example.com, got %s", untrusted.Value(name))
		}
		hosts = append(hosts, strings.Trim(host, "[]"))
	}
	return hosts, nil
}

// foreign returns why a request is refused that another site may have made a browser send; nil: it
// did not. A browser sends passwords by itself, and reaches this machine's loopback, so the pages,
// and a server without a sign-in, have to tell requests of their own from others.
func (f *Front) foreign(r *http.Request) *Refusal {
	if !f.ownHost(r) {
		refused := forbidden("foreign_host", "this server accepts requests for localhost, its own address and, with pages, "+
			"the names in --ops-hosts, but not for %s", untrusted.Value(r.Host))
		refused.About = []any{"host", untrusted.Value(r.Host)}
		return refused
	}
	if f.Public {
		return nil
	}
	// Each read takes time of Redis, and a domain's page a permit of the API, though no other site
	// would see the answer. Links of other sites work. A client without the header is no browser,
	// or one from before 2023.
	site := r.Header.Get("Sec-Fetch-Site")
	elsewhere := site != "" && site != "same-origin" && site != "none"
	refused := forbidden("cross_origin",
		"another site's page sent this request: other sites may link here, but not load or change anything")
	refused.About = []any{"origin", untrusted.Value(r.Header.Get("Origin"))}
	if reads(r) {
		if elsewhere && (r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document") {
			return refused
		}
		return nil
	}
	switch given := r.Header.Values("Origin"); {
	case len(given) == 0 && f.Pages:
		refused.Text = "a request that changes something needs the header Origin, which browsers send: the scheme and " +
			"host of these pages"
	case !elsewhere && (len(given) == 0 || (len(given) == 1 && f.ownOrigin(r, given[0]))):
		return nil
	}
	return refused
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// ownHost checks the Host header against DNS rebinding: a foreign name that resolves to this
// address is in it, and the browser considers both one origin. The port does not count, so that a
// forwarded one works.
func (f *Front) ownHost(r *http.Request) bool {
	host := Host(r)
	if IsLocal(host) || slices.Contains(f.Hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}

// ownOrigin reports whether an Origin is that of the request's host, or of a name in Hosts: a proxy
// may put another name in the Host header.
func (f *Front) ownOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || slices.Contains(f.Hosts, strings.ToLower(u.Hostname()))
}
