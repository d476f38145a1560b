package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"orgops/internal/untrusted"
)

// Proxy is a reverse proxy that signs users in. It names them in a header, and their role in
// another one, so that no name is taken for a role, whatever its characters.
type Proxy struct {
	Header string // of the name, canonical; empty: there is no such proxy
	Role   string // the header of the role, canonical; empty: everybody is a [Reader]
	// From are the addresses of the proxy. Requests from others are refused. Empty: any address may
	// send the header, and nobody's role is more than [Reader].
	From []netip.Prefix
	// SignOut is the address that signs a user out at the proxy; empty: pages have no such link.
	SignOut string
}

// ParseSignOut checks the address that signs users out at the proxy: a path of this host, or an
// https URL.
func ParseSignOut(address string) (string, error) {
	u, err := url.Parse(address)
	path := strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
	if address != "" && (err != nil || (!path && (u.Scheme != "https" || u.Host == "" || u.User != nil))) {
		return "",
			fmt.Errorf("ops-proxy-sign-out: want a path such as /oauth2/sign_out, or an https URL, got %s", untrusted.Value(address))
	}
	return address, nil
}

// ParseProxy parses the names of the headers of name and role, which only a proxy sets, and its
// addresses and networks (10.0.0.0/8).
func ParseProxy(header, role string, from []string) (p Proxy, err error) {
	// Without the header no proxy names the users. Other settings of a proxy would have no effect,
	// so that they are a mistake.
	if header == "" {
		for flag, set := range map[string]bool{"ops-proxy-from": len(from) > 0, "ops-proxy-role-header": role != ""} {
			if set {
				return p, fmt.Errorf("%s is set without ops-proxy-header: name the header in which the proxy passes the user",
					flag)
			}
		}
		return p, nil
	}

	// The headers must be ones that no client of the proxy sends by itself, and two different ones:
	// a name must not pass for a role.
	if p.Header, err = proxyHeader("ops-proxy-header", header, "X-Forwarded-User"); err != nil {
		return p, err
	}
	if role != "" {
		if p.Role, err = proxyHeader("ops-proxy-role-header", role, "X-Forwarded-Role"); err != nil {
			return p, err
		}
		if p.Role == p.Header {
			return p, fmt.Errorf("ops-proxy-role-header: want another header than ops-proxy-header, got %s for both", p.Role)
		}
	}

	// Only connections from these networks may name a user. A single address is a network of one. A
	// connection over IPv4 is compared as IPv4, so that the IPv6 form of it would never match.
	for _, text := range from {
		prefix, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			return p, fmt.Errorf("ops-proxy-from: want addresses or networks such as 10.1.2.3 or 10.0.0.0/8, got %s",
				untrusted.Value(text))
		case prefix.Bits() == 0:
			return p, fmt.Errorf("ops-proxy-from: %s contains every address, so any client could claim to be any user: "+
				"want the proxy's addresses", text)
		case prefix.Addr().Is4In6():
			return p, fmt.Errorf("ops-proxy-from: %s: want it written as IPv4", text)
		}
		p.From = append(p.From, prefix.Masked())
	}
	return p, nil
}

// proxyHeader returns the canonical name of a header that only a proxy sets.
func proxyHeader(flag, name, example string) (string, error) {
	canonical := http.CanonicalHeaderKey(name)
	clients := []string{"Host", "Authorization", "Cookie", "Origin", "User-Agent"}
	if !httpguts.ValidHeaderFieldName(canonical) || len(canonical) > 64 || slices.Contains(clients, canonical) {
		return "", fmt.Errorf("%s: want the name of a header that only the proxy sets, such as %s, got %s",
			flag, example, untrusted.Value(canonical))
	}
	return canonical, nil
}

// maxUser bounds the header, which has to be printable text.
const maxUser = 256

// user returns the user whom the proxy names. Only the address of the connection counts: any client
// can write headers with addresses (X-Forwarded-For).
func (p Proxy) user(r *http.Request) (User, *Refusal) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // if it has none, the invalid address, which is in no network
	addr := peer.Addr().Unmap().WithZone("")
	if len(p.From) > 0 && !slices.ContainsFunc(p.From, func(from netip.Prefix) bool { return from.Contains(addr) }) {
		return User{}, forbidden("not_by_the_proxy", "these pages accept requests only from their proxy (--ops-proxy-from)")
	}
	const reason = "no_user"
	values := r.Header.Values(p.Header)
	switch {
	case len(values) == 0:
		return User{}, forbidden(reason, "the proxy did not identify you: this request lacks the header %s", p.Header)
	case len(values) > 1:
		return User{}, forbidden(reason, "the header %s came twice: the proxy must replace that of clients", p.Header)
	}
	name := values[0]
	garbage := strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
	if name == "" || len(name) > maxUser || !utf8.ValidString(name) || garbage {
		return User{}, forbidden(reason, "the header %s is not a valid name: want 1 to %d bytes of printable text",
			p.Header, maxUser)
	}
	if reserved(name) {
		return User{}, forbidden(reason, "the header %s names %s, which is the name of requests without a sign-in",
			p.Header, name)
	}
	u := Unsigned(Reader)
	u.Name = name
	if p.Role == "" || len(p.From) == 0 {
		return u, nil
	}
	// A proxy that knows no role of a user sends an empty header, or none.
	switch roles := r.Header.Values(p.Role); {
	case len(roles) > 1:
		return User{}, forbidden(reason, "the header %s came twice: the proxy must replace that of clients", p.Role)
	case len(roles) == 1 && roles[0] != "":
		u.Role = Role(roles[0])
	}
	if !slices.Contains([]Role{Reader, Support, Operator}, u.Role) {
		return User{}, forbidden(reason, "the header %s names an unknown role: want reader, support or operator", p.Role)
	}
	return u, nil
}
