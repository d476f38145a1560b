package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

const (
	// maxOperator is the length of an operator's key in bytes, enough for two or three
	// operators. The owner of a zone could make it any length.
	maxOperator = 100
	// maxZoneServers is how many name servers of a zone are returned and cached.
	maxZoneServers = 100
	// operatorTime bounds the queries: two without an answer, and some with one.
	operatorTime = 5 * time.Second
	// maxCuts is how many names are queried for a host's zone. Hosts have two labels before
	// the domain.
	maxCuts = 8
)

// Operator returns the operator of the name servers of the host's zone, as
// [Verdict.Operator], by the resolvers: for verdicts without name servers. It queries as ZoneOf
// does. Empty: not known.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Operator(ctx context.Context, host string) (string, error) {
	zone, err := c.ZoneOf(ctx, host)
	return operatorOf(zone.Servers), err
}

// ZoneOf returns the host's zone, by the resolvers: for verdicts without name servers. The
// resolvers are queried for the NS records of the host and of the names above it, up to the
// registered one, until a quorum agrees on some. They may cache the negative answers: call it only
// after the token was checked.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) ZoneOf(ctx context.Context, host string) (Zone, error) {
	if err := dnsname.CheckHost(host); err != nil {
		return Zone{}, err
	}
	limited, cancel := context.WithTimeout(ctx, operatorTime)
	defer cancel()
	for _, name := range possibleCuts(host) {
		zone, err := c.zones.load(limited, name, func() (Zone, time.Duration, error) {
			return c.zoneAt(limited, name)
		})
		switch {
		case ctx.Err() != nil:
			return Zone{}, contextError(ctx, host)
		case err != nil: // the time is up, and the zones above may have other name servers
			return Zone{}, nil
		case zone.Name != "":
			return zone, nil
		}
	}
	return Zone{}, nil
}

// zoneAt returns the zone that begins at the name; without a name: none does. The error: the time
// is up.
func (p panel) zoneAt(ctx context.Context, name string) (Zone, time.Duration, error) {
	servers, ttl, err := p.agreed(ctx, name, dns.TypeNS)
	switch {
	case errors.Is(err, errNone):
		return Zone{}, ttl, nil
	case errors.Is(err, errNoQuorum): // of the zone above there may be one
		return Zone{}, notFoundTTL, nil
	case err != nil:
		return Zone{}, 0, err
	}
	for i, server := range servers {
		servers[i] = dnsname.Unrooted(server)
	}
	return Zone{dnsname.Unrooted(name), servers[:min(len(servers), maxZoneServers)]}, ttl, nil
}

// possibleCuts returns the names below registries' at which the host's zone can begin.
func possibleCuts(host string) []string {
	name := dnsname.Canonical(host)
	var names []string
	for _, off := range dns.Split(name) {
		if isRegistry(name[off:]) {
			break
		}
		names = append(names, name[off:])
	}
	return names[max(0, len(names)-maxCuts):]
}

// operatorOf returns the key of the operator of name servers with these names.
//
// Big operators spread their customers over many names: Route 53 has two thousand, in as many
// domains (ns-123.awsdns-12.com, ns-5.awsdns-40.co.uk). These share the registered label
// without its digits. Some unrelated operators get the same key (a.net and a1.org): a group
// that is too large prevents an action on an absence, one that is too small does not.
func operatorOf(servers []string) string {
	labels := make(map[string]bool)
	for _, name := range servers {
		labels[operatorLabel(name)] = true
	}
	key := strings.Join(slices.Sorted(maps.Keys(labels)), "+")
	return key[:min(len(key), maxOperator)]
}

// operatorLabel returns the label of the name's registrable domain without digits, and without
// the hyphens between digits. A label of digits only is returned as it is.
func operatorLabel(name string) string {
	name = dnsname.Unrooted(dnsname.Canonical(name))
	label, _, _ := strings.Cut(cmp.Or(dnsname.Registered(name), name), ".")
	var parts []string
	for part := range strings.SplitSeq(label, "-") {
		if bare := strings.Map(withoutDigits, part); bare != "" || part == "" {
			parts = append(parts, bare)
		}
	}
	if len(parts) == 0 {
		return label
	}
	return strings.Join(parts, "-")
}

// withoutDigits drops digits, and replaces bytes that host names do not have: names of foreign
// name servers may have any.
func withoutDigits(r rune) rune {
	switch {
	case '0' <= r && r <= '9':
		return -1
	case !dnsname.IsHostRune(r):
		return '_'
	}
	return r
}
