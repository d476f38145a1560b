package dnscheck

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"orgops/dnscheck/dnsname"
	"orgops/internal/untrusted"
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

var defaultPorts = map[string]uint16{transportUDP: defaultPort, transportTCP: defaultPort,
	transportHTTPS: defaultHTTPSPort}

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
	return []string{"https://1.1.1.1/dns-query#one.one.one.one", "https://8.8.8.8/dns-query#dns.google",
		"https://9.9.9.9/dns-query#dns.quad9.net"}
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
	return untrusted.QuoteASCII(r.String(), 100)
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
// address, or for the name after a #, which is never resolved:
// "https://8.8.8.8/dns-query#dns.google".
//
// A name after an @ is the perspective: "https://10.1.2.3#dns.eu.example@eu". "@default" is the
// same as none.
func ParseResolver(s string) (Resolver, error) {
	// The parts, from the end: @PERSPECTIVE, #NAME and /PATH of https.
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme = transportUDP
		rest = s
	}
	r := Resolver{Transport: strings.ToLower(scheme)}
	rest, perspective, err := cutName(rest, "@")
	if perspective != DefaultPerspective {
		r.Perspective = perspective
	}
	port, known := defaultPorts[r.Transport]
	if err == nil && !known {
		err = fmt.Errorf("unknown scheme %s; use an address, or tcp:// or https:// and an address",
			untrusted.QuoteASCII(scheme, 20))
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

	// The rest is the address.
	if err == nil {
		r.Addr, err = parseAddr(rest, port)
	}
	if err != nil {
		return Resolver{}, fmt.Errorf("resolver %s: %w", untrusted.QuoteASCII(s, 100), err)
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
	if err != nil || strings.ContainsFunc(addr.Addr().Zone(), dnsname.IsOdd) {
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
	return r.Addr == other.Addr || (r.Addr.Addr() == other.Addr.Addr() && !r.Addr.Addr().IsLoopback())
}

func (r Resolver) check() error {
	// Checks for every transport.
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

	// Only https has a server name and a path.
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
		return fmt.Errorf("resolver %s: unknown transport %s; use udp, tcp or https", r.Addr,
			untrusted.QuoteASCII(r.Transport, 20))
	}
	if r.ServerName != "" {
		if problem := dnsname.Problem(r.ServerName, "the name in its certificate"); problem != "" {
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

// publicOperator is an operator of public resolvers, identified by its networks and by the
// names in its certificates.
type publicOperator struct {
	name     string
	networks []netip.Prefix
	domains  []string
}

// publicOperators are the widely used operators that have several networks or domains, as
// they publish them.
var publicOperators = []publicOperator{
	publicResolvers("Cloudflare", "1.1.1.0/24 1.0.0.0/24 2606:4700:4700::/48",
		"cloudflare-dns.com one.one.one.one cloudflare-gateway.com"),
	publicResolvers("Google", "8.8.8.0/24 8.8.4.0/24 2001:4860:4860::/48", "dns.google dns.google.com dns64.dns.google"),
	publicResolvers("Quad9", "9.9.9.0/24 149.112.112.0/24 2620:fe::/48", "quad9.net"),
	publicResolvers("OpenDNS",
		"208.67.222.0/24 208.67.220.0/24 2620:119:35::/48 2620:119:53::/48 2620:0:ccc::/48 2620:0:ccd::/48",
		"opendns.com umbrella.com dns.sse.cisco.com"),
	publicResolvers("AdGuard", "94.140.14.0/24 94.140.15.0/24 2a10:50c0::/48", "adguard-dns.com adguard.com"),
	publicResolvers("CleanBrowsing", "185.228.168.0/24 185.228.169.0/24 2a0d:2a00:1::/48 2a0d:2a00:2::/48",
		"cleanbrowsing.org"),
	publicResolvers("Control D", "76.76.2.0/24 76.76.10.0/24 2606:1a40::/48 2606:1a40:1::/48", "controld.com"),
	publicResolvers("NextDNS", "45.90.28.0/24 45.90.30.0/24 2a07:a8c0::/48 2a07:a8c1::/48", "nextdns.io"),
	publicResolvers("DNS.SB", "185.222.222.0/24 45.11.45.0/24 2a09::/48 2a11::/48", "dns.sb"),
	publicResolvers("DNS.WATCH", "84.200.69.0/24 84.200.70.0/24 2001:1608:10::/48", "dns.watch"),
	publicResolvers("CIRA", "149.112.121.0/24 149.112.122.0/24 2620:10a:80bb::/48 2620:10a:80bc::/48", "cira.ca"),
	publicResolvers("Vercara",
		"64.6.64.0/24 64.6.65.0/24 156.154.70.0/24 156.154.71.0/24 2620:74:1b::/48 2620:74:1c::/48 2610:a1:1018::/48 2610:a1:1019::/48", "ultradns.com"),
	publicResolvers("Level 3", "4.2.2.0/24 209.244.0.0/24", ""),
	publicResolvers("Hurricane Electric", "74.82.42.0/24 2001:470:20::/48", "he.net"),
	publicResolvers("Yandex", "77.88.8.0/24 2a02:6b8::/48 2a02:6b8:0:1::/64", "yandex.net"),
	publicResolvers("AliDNS", "223.5.5.0/24 223.6.6.0/24 2400:3200::/32", "alidns.com"),
	publicResolvers("114DNS", "114.114.114.0/24 114.114.115.0/24", "114dns.com"),
}

func publicResolvers(name, networks, domains string) publicOperator {
	o := publicOperator{name: name, domains: strings.Fields(domains)}
	for network := range strings.FieldsSeq(networks) {
		o.networks = append(o.networks, netip.MustParsePrefix(network))
	}
	return o
}

// Operators returns the operator of each resolver: the name of a known operator of public
// resolvers ("Cloudflare"), or the registrable domain of the name in its certificate
// ("example.com"), or its network ("192.0.2.0/24"). Resolvers that share one of these have
// the same operator. At a loopback or private address each resolver has an operator of its
// own, named by the address.
func Operators(resolvers []Resolver) []string {
	type group struct {
		keys    []string
		members []int
	}
	var groups []group
	for i, r := range resolvers {
		merged := group{keys: r.operatorKeys(), members: []int{i}}
		groups = slices.DeleteFunc(groups, func(g group) bool {
			if !slices.ContainsFunc(g.keys, func(key string) bool { return slices.Contains(merged.keys, key) }) {
				return false
			}
			merged.keys = append(merged.keys, g.keys...)
			merged.members = append(merged.members, g.members...)
			return true
		})
		groups = append(groups, merged)
	}
	names := make([]string, len(resolvers))
	for _, g := range groups {
		name := resolvers[slices.Min(g.members)].operatorKeys()[0]
		if known := slices.IndexFunc(g.keys, isPublicOperator); known >= 0 {
			name = g.keys[known]
		}
		for _, i := range g.members {
			names[i] = name
		}
	}
	return names
}

func isPublicOperator(name string) bool {
	return slices.ContainsFunc(publicOperators, func(o publicOperator) bool { return o.name == name })
}

// operatorKeys returns the keys that resolvers of one operator share, at least one.
func (r Resolver) operatorKeys() []string {
	addr := embeddedIPv4(r.Addr.Addr())
	name := strings.ToLower(dnsname.Unrooted(r.ServerName))
	var keys []string
	for _, o := range publicOperators {
		if o.runs(addr, name) {
			keys = append(keys, o.name)
		}
	}
	if !IsPublic(addr) {
		switch {
		case len(keys) > 0:
			return keys
		case addr.IsLoopback():
			return []string{r.Addr.String()}
		}
		return []string{addr.String()}
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		keys = append(keys, domain)
	}
	bits := 48 // a site's prefix (RFC 6177)
	if addr.Is4() {
		bits = 24 // the longest prefix that is routed
	}
	network, _ := addr.Prefix(bits) // fails only for an address with a zone, which is not public
	return append(keys, network.String())
}

// runs reports whether the operator has a resolver at this address, or of this name.
func (o publicOperator) runs(addr netip.Addr, name string) bool {
	return slices.ContainsFunc(o.networks, func(p netip.Prefix) bool { return p.Contains(addr) }) ||
		slices.ContainsFunc(o.domains, func(d string) bool { return name == d || strings.HasSuffix(name, "."+d) })
}

// embeddedIPv4 returns the IPv4 address in a NAT64 address, and any other as it is.
func embeddedIPv4(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		raw := addr.As16()
		return netip.AddrFrom4([4]byte(raw[12:]))
	}
	return addr
}

// minResolvers is how many resolvers a proof needs: the operator of a single one could
// prove any domain.
const minResolvers = 2

// QuorumOf returns how many of the resolvers have to agree: the setting, or for 0 the least
// that is allowed. That is all of two or fewer, all but one of three to five, and all but two
// of six or more, as the CA/Browser Forum's Baseline Requirements let one or two remote
// perspectives miss a record (section 3.2.2.9). It is always more than half.
func QuorumOf(set, resolvers int) (int, error) {
	least := leastQuorum(resolvers)
	switch {
	case set == 0:
		return least, nil
	case set < least || set > resolvers:
		return 0, fmt.Errorf("resolver quorum %d: want %d to %d of %d resolvers, or 0 for %d", set, least,
			resolvers, resolvers, least)
	}
	return set, nil
}

func leastQuorum(of int) int {
	switch {
	case of >= 6:
		return of - 2
	case of >= 3:
		return of - 1
	}
	return of
}

// checkOperators refuses resolvers of which one operator has a quorum. A single resolver is
// allowed: it proves nothing, but can be used for advice. Where perspectives are named, the
// tenant's own resolvers may be a quorum, since the perspectives have to agree. Public ones
// may not: they are anycast, and queried from this machine's network.
func checkOperators(resolvers []Resolver, quorum int) error {
	if len(resolvers) < minResolvers {
		return nil
	}
	spans := namesPerspectives(resolvers)
	of := make(map[string][]string)
	operators := Operators(resolvers)
	for i, operator := range operators {
		of[operator] = append(of[operator], resolvers[i].String())
	}
	for _, operator := range operators {
		names := of[operator]
		if len(names) < quorum || (spans && !isPublicOperator(operator)) {
			continue
		}
		remedy := "keep one of them, and add resolvers of other operators"
		if len(names) < len(resolvers) {
			remedy += fmt.Sprintf("; or set the quorum to %d", len(names)+1)
		}
		last := len(names) - 1
		return fmt.Errorf("resolvers %s and %s are of one operator (%s), which reaches the quorum of %d alone: %s",
			strings.Join(names[:last], ", "), names[last], operator, quorum, remedy)
	}
	return nil
}

// checkProtected refuses resolvers of which those that count for a proof without name servers are
// no quorum.
func checkProtected(resolvers []Resolver, quorum int) error {
	var exposed []string
	for _, r := range resolvers {
		if r.InTheClear() {
			exposed = append(exposed, r.String())
		}
	}
	if len(exposed) == 0 || len(resolvers)-len(exposed) >= quorum {
		return nil
	}
	return fmt.Errorf("resolvers %s are queried without encryption at public addresses, and do not count for a proof "+
		"in mode resolvers, since anybody on the way can answer for them; the %d others are fewer than the quorum of %d: "+
		"name resolvers by https://", strings.Join(exposed, ", "), len(resolvers)-len(exposed), quorum)
}

// checkPerspectives refuses perspectives that a proof cannot span, and those of public
// resolvers. A single resolver is allowed, as by checkOperators.
func checkPerspectives(resolvers []Resolver) error {
	var in votes
	operators := Operators(resolvers)
	for i, r := range resolvers {
		if r.perspective() != DefaultPerspective && isPublicOperator(operators[i]) {
			return fmt.Errorf(
				"resolver %s is a public one (%s): it is anycast, so that the instance nearest to this machine answers, "+
					"whatever perspective is named; leave out @%s, and name a resolver of your own for that perspective", r,
				operators[i], r.Perspective)
		}
		in.add(r.perspective())
	}
	if namesPerspectives(resolvers) && len(resolvers) >= minResolvers && len(in.in) < 2 {
		return fmt.Errorf("resolvers are all in one perspective (%s), and a proof has to span two: "+
			"add resolvers in another network, or leave out @%s", resolvers[0].perspective(), resolvers[0].perspective())
	}
	return nil
}

// perspectivesOf returns the number of resolvers in each perspective; nil if none is named.
func perspectivesOf(resolvers []Resolver) map[string]int {
	if !namesPerspectives(resolvers) {
		return nil
	}
	in := make(map[string]int)
	for _, r := range resolvers {
		in[r.perspective()]++
	}
	return in
}

// namesPerspectives reports whether a proof has to span two perspectives: any is named.
func namesPerspectives(resolvers []Resolver) bool {
	return slices.ContainsFunc(resolvers, func(r Resolver) bool { return r.perspective() != DefaultPerspective })
}

// votes are the resolvers with the same answer.
type votes struct {
	count int
	in    map[string]int // by perspective
}

func (v *votes) add(perspective string) {
	v.count++
	if v.in == nil {
		v.in = make(map[string]int)
	}
	v.in[perspective]++
}
