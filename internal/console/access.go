package console

import (
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Access says who may look at the pages. Of Users and ProxyHeader one is set, or
// neither: then nobody is asked, which is for loopback.
type Access struct {
	// Users are asked for name and password, by HTTP Basic; nil: nobody is.
	Users *Users
	// ProxyHeader is the header in which a proxy says who the user is, as
	// ParseProxyHeader gives it; empty: none does.
	ProxyHeader string
	// ProxyFrom are the addresses that the proxy asks from; requests from elsewhere are
	// refused, whatever they say of themselves. Empty: they may come from anywhere.
	ProxyFrom []netip.Prefix
	// Hosts are names that requests may be for, as ParseHosts gives them, beside
	// loopback's and the address that they came in at.
	Hosts []string
}

// ParseProxyFrom reads addresses, and networks of them (10.0.0.0/8).
func ParseProxyFrom(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("want addresses or networks such as 10.1.2.3 or 10.0.0.0/8, got %.60q", text)
		case prefix.Bits() == 0:
			return nil, fmt.Errorf("%s contains every address, so any client could claim to be any user: want the proxy's addresses", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("%s: want it written as IPv4", text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// ParseProxyHeader reads the name of a header that a proxy sets.
func ParseProxyHeader(name string) (string, error) {
	name = http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || len(name) > 64 || slices.Contains([]string{"Host", "Authorization", "Cookie", "Origin", "User-Agent"}, name) {
		return "", fmt.Errorf("want the name of a header that only the proxy sets, such as X-Forwarded-User, got %.60q", name)
	}
	return name, nil
}

var hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// ParseHosts reads names of hosts, without ports.
func ParseHosts(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		host := strings.ToLower(strings.TrimSuffix(name, "."))
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && (!hostPattern.MatchString(host) || len(host) > 253) {
			return nil, fmt.Errorf("want host names without ports, such as ops.example.com, got %.60q", name)
		}
		all = append(all, strings.Trim(host, "[]"))
	}
	return all, nil
}

// fromProxy says whether a request came from where all have to come from.
func (a Access) fromProxy(r *http.Request) bool {
	if len(a.ProxyFrom) == 0 {
		return a.ProxyHeader == "" // which anybody could send
	}
	peer := peerOf(r)
	return slices.ContainsFunc(a.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// peerOf is the address at the other end of the connection. What headers say of
// others (X-Forwarded-For) anybody can write.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // of none the invalid address, which is in no network
	return peer.Addr().Unmap().WithZone("")
}

// maxUser is how long a name may be that a proxy tells.
const maxUser = 256

// named is who the proxy says that the user is.
func (a Access) named(r *http.Request) (string, *refusal) {
	values := r.Header.Values(a.ProxyHeader)
	refused := &refusal{status: http.StatusForbidden, reason: "no_user"}
	switch {
	case len(values) == 0:
		refused.text = "the proxy did not identify you: this request lacks the header " + a.ProxyHeader
	case len(values) > 1:
		refused.text = "the header " + a.ProxyHeader + " came twice: the proxy must replace the header that clients send"
	case values[0] == "" || len(values[0]) > maxUser || !utf8.ValidString(values[0]) || strings.ContainsFunc(values[0], func(c rune) bool { return !unicode.IsPrint(c) }):
		refused.text = fmt.Sprintf("the header %s is not a valid name: want 1 to %d bytes of printable text", a.ProxyHeader, maxUser)
	default:
		return values[0], nil
	}
	return "", refused
}
