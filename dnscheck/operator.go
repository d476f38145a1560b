package dnscheck

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"
)

const (
	// maxOperator is how many bytes of an operator's key are kept: two or three operators, where a zone has that many. How long it
	// gets is for whoever delegates the zone to choose.
	maxOperator = 100
	// operatorTime bounds the questions: two that nobody answers, and some that are answered.
	operatorTime = 5 * time.Second
	// maxCuts is for how many names a host's zone is looked for: hosts have two labels before the domain.
	maxCuts = 8
)

// Operator tells who runs the name servers of the host's zone, as [Verdict.Operator] does, by the resolvers' word: for where
// the name servers were not asked, or could not be. The resolvers are asked for the NS records of the host and of the names
// above it, up to the one that a registry lets register, till a quorum agrees on some, and go on saying what they have said:
// ask only once the token has been looked for. Empty: nobody could say.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Operator(ctx context.Context, host string) (string, error) {
	if err := CheckHost(host); err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, operatorTime)
	defer cancel()
	for _, name := range cutsAbove(host) {
		operator, err := c.operators.find(limited, name, func() (string, time.Duration, error) { return c.operatorAt(limited, name) })
		switch {
		case ctx.Err() != nil:
			return "", ended(ctx, host)
		case err != nil: // the time is up, and the names above could only be the wrong answer
			return "", nil
		case operator != "":
			return operator, nil
		}
	}
	return "", nil
}

// operatorAt is who runs the zone that begins at the name; empty: none does. The error: the time was up.
func (p panel) operatorAt(ctx context.Context, name string) (string, time.Duration, error) {
	servers, ttl, err := p.agreed(ctx, name, dns.TypeNS)
	switch {
	case errors.Is(err, errNone):
		return "", ttl, nil
	case errors.Is(err, errUnfound): // the zone above may be known all the same
		return "", unfoundMemory, nil
	case err != nil:
		return "", 0, err
	}
	return operatorOf(servers), ttl, nil
}

// cutsAbove gives the names at which the host's zone can begin, the host first. Registries' zones are nobody's who has the host.
func cutsAbove(host string) []string {
	name := canonical(host)
	var names []string
	for _, off := range dns.Split(name) {
		if isRegistrys(name[off:]) {
			break
		}
		names = append(names, name[off:])
	}
	return names[max(0, len(names)-maxCuts):]
}

// isRegistrys tells whether a zone is a registry's: a top-level domain, or another public suffix.
func isRegistrys(zone string) bool {
	return dns.CountLabel(zone) < 2 || isPublicSuffix(unrooted(zone))
}

// operatorOf is the key of who runs the name servers of these names.
//
// Big operators spread their customers over many names: Route 53 has two thousand, in as many domains (ns-123.awsdns-12.com,
// ns-5.awsdns-40.co.uk). What these have in common is the registered label without what is counted in it. That throws
// together some who have nothing to do with each other (a.net and a1.org): a group that is a bit too large keeps somebody
// from acting upon an absence, one that is too small does not.
func operatorOf(servers []string) string {
	labels := make(map[string]bool)
	for _, name := range servers {
		labels[operatorLabel(name)] = true
	}
	key := strings.Join(slices.Sorted(maps.Keys(labels)), "+")
	return key[:min(len(key), maxOperator)]
}

// operatorLabel is the label of the name's registrable domain without its digits, and without the hyphens between which there was
// nothing else. Of a label that has nothing else it is all of it.
func operatorLabel(name string) string {
	name = unrooted(canonical(name))
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		domain = name
	}
	label, _, _ := strings.Cut(domain, ".")
	var kept []string
	for part := range strings.SplitSeq(label, "-") {
		if bare := strings.Map(uncounted, part); bare != "" || part == "" {
			kept = append(kept, bare)
		}
	}
	if len(kept) == 0 {
		return label
	}
	return strings.Join(kept, "-")
}

// uncounted leaves digits out. What host names do not have can stand in the name of a stranger's name server all the same.
func uncounted(r rune) rune {
	switch {
	case '0' <= r && r <= '9':
		return -1
	case r >= 0x80 || !isHostOctet(byte(r)):
		return '_'
	}
	return r
}
