package console

import (
	"context"
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

// Access determines who may use the pages. Users or ProxyHeader is set, or neither on loopback:
// then there is no sign-in.
type Access struct {
	// Users sign in with name and password, by HTTP Basic; nil: no sign-in.
	Users *Users
	// ProxyHeader is the header in which a proxy names the user, as ParseProxyHeader returns
	// it; empty: no proxy does.
	ProxyHeader string
	// ProxyFrom are the addresses of the proxy; requests from other addresses are refused.
	// Empty: requests may come from any address.
	ProxyFrom []netip.Prefix
	// Hosts are names that requests may be for, as ParseHosts returns them, in addition to
	// loopback's and the address of the connection.
	Hosts []string
}

// ParseProxyFrom parses addresses and networks (10.0.0.0/8).
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

// ParseProxyHeader parses the name of a header that a proxy sets.
func ParseProxyHeader(name string) (string, error) {
	name = http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || len(name) > 64 || slices.Contains([]string{"Host", "Authorization", "Cookie", "Origin", "User-Agent"}, name) {
		return "", fmt.Errorf("want the name of a header that only the proxy sets, such as X-Forwarded-User, got %.60q", name)
	}
	return name, nil
}

var hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// ParseHosts parses names of hosts, without ports.
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

// fromProxy reports whether a request may come from its address.
func (a Access) fromProxy(r *http.Request) bool {
	if len(a.ProxyFrom) == 0 {
		return a.ProxyHeader == "" // which any client could send
	}
	peer := peerOf(r)
	return slices.ContainsFunc(a.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// peerOf returns the address of the client of the connection. Headers (X-Forwarded-For) can be
// written by any client.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // if it has none, the invalid address, which is in no network
	return peer.Addr().Unmap().WithZone("")
}

// maxUser bounds the name that a proxy sends.
const maxUser = 256

// named returns the user whom the proxy names.
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

type userKey struct{}

// withUser sets the user of the requests of ctx.
func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf returns the user who sent the request; empty: there was no sign-in.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}
