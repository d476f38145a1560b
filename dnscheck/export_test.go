package dnscheck

import (
	"context"
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// What tests outside the package may see of its inside.

var (
	Unescape   = unescape
	MaxAliases = maxAliases
)

// DialFunc stands in for the network.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f DialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// NewOver makes a Checker that dials through d.
func NewOver(c Config, d DialFunc) (*Checker, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return assemble(c, &exchange{dialer: d, timeout: c.Timeout})
}

// ReadReply takes the way of a reply that comes in for (id, host): what is parsed of it, and what that says of the token.
func ReadReply(raw []byte, id uint16, host, token string) (sections [3]int, state State, reason Reason, values []string, err error) {
	path := newTrail(host)
	r, err := parseReply(raw, id, path.at, dns.TypeTXT)
	if err != nil || r.truncated {
		return sections, Unknown, "", nil, err
	}
	found := path.read(r, token)
	sections = [3]int{len(r.answer), len(r.authority), len(r.additional)}
	return sections, found.state, found.reason, found.values, nil
}

// PackQuery writes a query for the host.
func PackQuery(host string) ([]byte, error) {
	return query{name: newTrail(host).at, kind: dns.TypeTXT, edns: true}.pack(randomID())
}

// RememberFolders has n servers remembered that do not keep letters, and tells how many are kept at the end.
func RememberFolders(n int) (kept, most int) {
	var f folders
	for i := range n {
		f.add(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(i)))
	}
	return len(f.until), mostFolders
}
