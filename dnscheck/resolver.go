package dnscheck

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// The transports by which a resolver is asked.
const (
	transportUDP = "udp" // and TCP where an answer does not fit, or none comes
	transportTCP = "tcp" // only
)

const defaultPort = 53 // RFC 1035 section 4.2

// Resolver is a recursive resolver to ask.
type Resolver struct {
	Addr      netip.AddrPort // never a host name: it would have to be resolved first, by whom?
	Transport string         // "udp" (TCP where that does not do; also when empty) or "tcp"
	Name      string         // how observations call it; empty: String()
}

// String writes the resolver as [ParseResolver] reads it: "1.1.1.1:53", "tcp://[::1]:53".
func (r Resolver) String() string {
	if r.Transport == transportTCP {
		return "tcp://" + r.Addr.String()
	}
	return r.Addr.String()
}

// ParseResolver reads an IP address with or without a port (53 is meant where there is none), which may be
// preceded by udp:// or tcp://: "1.1.1.1", "1.1.1.1:53", "2606:4700:4700::1111", "[::1]:5353", "tcp://9.9.9.9".
func ParseResolver(s string) (Resolver, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = transportUDP, s
	}
	switch strings.ToLower(scheme) {
	case transportUDP, transportTCP:
	case "tls", "https":
		return Resolver{}, fmt.Errorf("resolver %s: %s:// is not supported yet; use an address, or tcp:// and an address", shown(s, 100), strings.ToLower(scheme))
	default:
		return Resolver{}, fmt.Errorf("resolver %s: unknown scheme %s; use an address, or tcp:// and an address", shown(s, 100), shown(scheme, 20))
	}
	addr, err := parseAddr(rest)
	if err != nil {
		return Resolver{}, fmt.Errorf("resolver %s: %w", shown(s, 100), err)
	}
	r := Resolver{Addr: addr, Transport: strings.ToLower(scheme)}
	r.Name = r.String()
	return r, r.check()
}

func parseAddr(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), defaultPort), nil
	}
	addr, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, errors.New("want an IP address with or without a port, such as 1.1.1.1 or [2606:4700:4700::1111]:53; a host name will not do, as it would have to be resolved first")
	}
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), nil
}

// check tells what would keep the resolver from being asked.
func (r Resolver) check() error {
	switch {
	case !r.Addr.IsValid():
		return errors.New("a resolver has no address")
	case r.Addr.Port() == 0:
		return fmt.Errorf("resolver %s: port 0 cannot be asked; leave the port out to mean %d", r, defaultPort)
	case r.Addr.Addr().IsUnspecified() || r.Addr.Addr().IsMulticast():
		return fmt.Errorf("resolver %s: is not the address of one server", r)
	case r.Transport != "" && r.Transport != transportUDP && r.Transport != transportTCP:
		return fmt.Errorf("resolver %s: unknown transport %s; use udp or tcp", r, shown(r.Transport, 20))
	}
	return nil
}
