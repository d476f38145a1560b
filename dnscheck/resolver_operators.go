package dnscheck

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

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
	publicResolvers("Cloudflare", "1.1.1.0/24 1.0.0.0/24 2606:4700:4700::/48", "cloudflare-dns.com one.one.one.one cloudflare-gateway.com"),
	publicResolvers("Google", "8.8.8.0/24 8.8.4.0/24 2001:4860:4860::/48", "dns.google dns.google.com dns64.dns.google"),
	publicResolvers("Quad9", "9.9.9.0/24 149.112.112.0/24 2620:fe::/48", "quad9.net"),
	publicResolvers("OpenDNS", "208.67.222.0/24 208.67.220.0/24 2620:119:35::/48 2620:119:53::/48 2620:0:ccc::/48 2620:0:ccd::/48", "opendns.com umbrella.com dns.sse.cisco.com"),
	publicResolvers("AdGuard", "94.140.14.0/24 94.140.15.0/24 2a10:50c0::/48", "adguard-dns.com adguard.com"),
	publicResolvers("CleanBrowsing", "185.228.168.0/24 185.228.169.0/24 2a0d:2a00:1::/48 2a0d:2a00:2::/48", "cleanbrowsing.org"),
	publicResolvers("Control D", "76.76.2.0/24 76.76.10.0/24 2606:1a40::/48 2606:1a40:1::/48", "controld.com"),
	publicResolvers("NextDNS", "45.90.28.0/24 45.90.30.0/24 2a07:a8c0::/48 2a07:a8c1::/48", "nextdns.io"),
	publicResolvers("DNS.SB", "185.222.222.0/24 45.11.45.0/24 2a09::/48 2a11::/48", "dns.sb"),
	publicResolvers("DNS.WATCH", "84.200.69.0/24 84.200.70.0/24 2001:1608:10::/48", "dns.watch"),
	publicResolvers("CIRA", "149.112.121.0/24 149.112.122.0/24 2620:10a:80bb::/48 2620:10a:80bc::/48", "cira.ca"),
	publicResolvers("Vercara", "64.6.64.0/24 64.6.65.0/24 156.154.70.0/24 156.154.71.0/24 2620:74:1b::/48 2620:74:1c::/48 2610:a1:1018::/48 2610:a1:1019::/48", "ultradns.com"),
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
			merged.keys, merged.members = append(merged.keys, g.keys...), append(merged.members, g.members...)
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
	name := strings.ToLower(unrooted(r.ServerName))
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
