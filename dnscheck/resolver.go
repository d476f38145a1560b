package dnscheck

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// The transports of queries to a resolver.
const (
	transportUDP   = "udp"   // and TCP if the answer is truncated or missing
	transportTCP   = "tcp"   // only
	transportHTTPS = "https" // DNS over HTTPS (RFC 8484)
)

const (
	defaultPort      = 53 // also of name servers (RFC 1035 section 4.2)
	defaultHTTPSPort = 443
)

var defaultPorts = map[string]uint16{transportUDP: defaultPort, transportTCP: defaultPort, transportHTTPS: defaultHTTPSPort}

// defaultPath is the path of public resolvers over HTTPS, as in RFC 8484 section 4.1.1.
const defaultPath = "/dns-query"

// Resolver is a recursive resolver.
type Resolver struct {
	Addr       netip.AddrPort
	Transport  string // "udp" (also when empty; TCP if that fails), "tcp" or "https"
	ServerName string // https: the name in the certificate (RFC 8310 section 8); empty: the address
	Path       string // https: of the URL; empty: "/dns-query"
	// Perspective names the network from which the resolver queries ("eu"), by at most 20
	// lower-case letters, digits and hyphens. Empty: the default one, this machine's.
	Perspective string
	Name        string // in observations; empty: String()
}

// DefaultPerspective is the perspective of resolvers that name none.
const DefaultPerspective = "default"

// longestPerspective is the length of a perspective's name, which each observation stores.
const longestPerspective = 20

// DefaultResolvers returns resolvers of three operators over HTTPS, for [ParseResolver].
func DefaultResolvers() []string {
	return []string{"https://1.1.1.1/dns-query#one.one.one.one", "https://8.8.8.8/dns-query#dns.google", "https://9.9.9.9/dns-query#dns.quad9.net"}
}

// InTheClear reports whether an attacker on the path can forge the resolver's answers: it is
// not [Resolver.Protected], and its address is public.
func (r Resolver) InTheClear() bool { return !r.Protected() && IsPublic(r.Addr.Addr()) }

// String returns the resolver in the form of [ParseResolver]: "1.1.1.1:53", "tcp://[::1]:53",
// "https://8.8.8.8:443/dns-query#dns.google", "https://10.1.2.3:443/dns-query#dns.eu.example@eu".
func (r Resolver) String() string {
	text := r.Addr.String()
	switch r.Transport {
	case transportTCP:
		text = r.Transport + "://" + text
	case transportHTTPS:
		text = r.Transport + "://" + text + r.path()
	}
	if r.ServerName != "" {
		text += "#" + r.ServerName
	}
	if r.Perspective != "" {
		text += "@" + r.Perspective
	}
	return text
}

func (r Resolver) perspective() string { return cmp.Or(r.Perspective, DefaultPerspective) }

// shown returns String, quoted if it has more in it than an address.
func (r Resolver) shown() string {
	if r.ServerName == "" && r.Path == "" && r.Perspective == "" {
		return r.String()
	}
	return shown(r.String(), 100)
}

// Protected reports whether no attacker on the path can forge the resolver's answers: it is
// queried over HTTPS, or at a loopback address.
func (r Resolver) Protected() bool { return r.encrypted() || r.Addr.Addr().IsLoopback() }

func (r Resolver) encrypted() bool { return r.Transport == transportHTTPS }

func (r Resolver) path() string { return cmp.Or(r.Path, defaultPath) }

// certified returns the name or the address that the certificate must be valid for.
func (r Resolver) certified() string {
	return cmp.Or(r.ServerName, r.Addr.Addr().WithZone("").String())
}

// ParseResolver parses an IP address with or without a port (53), optionally after udp:// or
// tcp://: "1.1.1.1", "2606:4700:4700::1111", "[::1]:5353", "tcp://9.9.9.9".
//
// https:// means DNS over HTTPS (port 443, path /dns-query). The certificate must be valid for the
// address, or for the name after a #, which is never resolved: "https://8.8.8.8/dns-query#dns.google".
//
// A name after an @ is the perspective: "https://10.1.2.3#dns.eu.example@eu". "@default" is the
// same as none.
func ParseResolver(s string) (Resolver, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = transportUDP, s
	}
	r := Resolver{Transport: strings.ToLower(scheme)}
	rest, perspective, err := cutName(rest, "@")
	if perspective != DefaultPerspective {
		r.Perspective = perspective
	}
	port, known := defaultPorts[r.Transport]
	if err == nil && !known {
		err = fmt.Errorf("unknown scheme %s; use an address, or tcp:// or https:// and an address", shown(scheme, 20))
	}
	if err == nil && port != defaultPort {
		rest, r.ServerName, err = cutName(rest, "#")
	}
	if r.Transport == transportHTTPS {
		var path string
		rest, path, _ = strings.Cut(rest, "/")
		if r.Path = defaultPath; path != "" {
			r.Path = "/" + path
		}
	}
	if err == nil {
		r.Addr, err = parseAddr(rest, port)
	}
	if err != nil {
		return Resolver{}, fmt.Errorf("resolver %s: %w", shown(s, 100), err)
	}
	r.Name = r.String()
	return r, r.check()
}

// cutName splits s at the mark, after which there must be a name.
func cutName(s, mark string) (rest, name string, err error) {
	rest, name, found := strings.Cut(s, mark)
	if found && name == "" {
		return "", "", errors.New("there is no name after the " + mark)
	}
	return rest, name, nil
}

func parseAddr(s string, port uint16) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(s)
	if err != nil {
		if inner, found := strings.CutPrefix(s, "["); found {
			s = strings.TrimSuffix(inner, "]")
		}
		var bare netip.Addr
		bare, err = netip.ParseAddr(s)
		addr = netip.AddrPortFrom(bare, port)
	}
	if err != nil || strings.ContainsFunc(addr.Addr().Zone(), isOdd) {
		text := "want an IP address with or without a port, such as 1.1.1.1 or [2606:4700:4700::1111]:53; " +
			"a host name will not do, as it would have to be resolved first"
		if port != defaultPort {
			text += " (https:// takes the certificate's name after a #: https://8.8.8.8/dns-query#dns.google)"
		}
		return netip.AddrPort{}, errors.New(text)
	}
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), nil
}

// isSame reports whether both are the same server, at any port and transport. At a loopback
// address each port is another server.
func (r Resolver) isSame(other Resolver) bool {
	return r.Addr == other.Addr || r.Addr.Addr() == other.Addr.Addr() && !r.Addr.Addr().IsLoopback()
}

// check reports why the resolver cannot be queried.
func (r Resolver) check() error {
	switch {
	case !r.Addr.IsValid():
		return errors.New("a resolver has no address")
	case r.Addr.Port() == 0:
		return fmt.Errorf("resolver %s: invalid port 0; leave the port out for the transport's default", r.shown())
	case r.Addr.Addr().IsUnspecified() || r.Addr.Addr().IsMulticast():
		return fmt.Errorf("resolver %s: is not the address of one server", r.shown())
	case !isPerspective(r.Perspective):
		return fmt.Errorf("resolver %s: the perspective after the @ must have at most %d characters, "+
			"each a lower-case letter, a digit or a hyphen", r.shown(), longestPerspective)
	}
	switch r.Transport {
	case "", transportUDP, transportTCP:
		if r.ServerName != "" || r.Path != "" {
			return fmt.Errorf("resolver %s: a certificate's name and a path go with https only", r.shown())
		}
		return nil
	case transportHTTPS:
		if !isPlainPath(r.path()) {
			return fmt.Errorf("resolver %s: want a plain path, such as %s", r.shown(), defaultPath)
		}
	default:
		return fmt.Errorf("resolver %s: unknown transport %s; use udp, tcp or https", r.Addr, shown(r.Transport, 20))
	}
	if r.ServerName != "" {
		if problem := nameProblem(r.ServerName, "the name in its certificate"); problem != "" {
			return fmt.Errorf("resolver %s: the name after the # %s", r.shown(), problem)
		}
	}
	return nil
}

// isPerspective also accepts the empty name.
func isPerspective(name string) bool {
	return len(name) <= longestPerspective && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isPlainPath reports whether a path has no query, template, perspective or escapes.
func isPlainPath(path string) bool {
	u, err := url.Parse(path)
	return err == nil && u.Path == path && u.EscapedPath() == path &&
		strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.Contains(path, "@")
}
