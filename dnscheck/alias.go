package dnscheck

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// passedAlias is an alias on the way to the token. If the way leaves the registered domain, each
// alias whose name lies inside must be its own: the owner of a name to which a wildcard leads
// could otherwise prove every organization's host below the wildcard, where nobody has published
// anything.
type passedAlias struct {
	zone         delegation // whose servers gave it; of a resolver's none
	name, target string
}

// isWithin reports whether a wildcard in the host's registered domain could have given the alias.
func (a passedAlias) isWithin(host string) bool {
	own := dnsname.Registered(dnsname.Unrooted(host))
	return own != "" && dnsname.Within(dnsname.Unrooted(a.name), own) && !dnsname.Same(a.name, own) &&
		!dnsname.Same(a.name, a.zone.name)
}

// sibling returns the name with a random first label, and that label.
func (a passedAlias) sibling() (name, random string) {
	random = randomLabel()
	_, parent, _ := strings.Cut(dns.Fqdn(a.name), ".")
	return random + "." + parent, random
}

// isSharedBy reports whether the alias of the sibling is the same, or the same with the random
// label in it, as DNAME makes it.
func (a passedAlias) isSharedBy(target, random string) bool {
	first, _, _ := strings.Cut(dnsname.Canonical(a.name), ".")
	made := strings.ReplaceAll(dnsname.Canonical(target), random, first)
	return dnsname.Same(target, a.target) || dnsname.Same(made, a.target)
}

// isOwn reports whether more than half of the zone's servers answer for the sibling without the
// alias.
func (w *walk) isOwn(ctx context.Context, alias passedAlias) bool {
	name, random := alias.sibling()
	return w.poll(ctx, alias.zone, name, dns.TypeTXT).majority(func(a serverAnswer) bool {
		return a.definite() && !alias.isSharedBy(a.alias, random)
	})
}

// ownAliases reports whether more than half of the resolvers answer without the alias for the
// sibling of each alias by which any of them found the token.
func (c *Checker) ownAliases(ctx context.Context, host string, resolvers []resolverClient, answers []Observation) bool {
	tested := make(map[passedName]bool)
	for _, o := range present(answers) {
		name := host
		for _, target := range o.Aliases {
			alias := passedAlias{name: name, target: target}
			name = target
			key := passedName{dnsname.Canonical(alias.name), dnsname.Canonical(alias.target)}
			if !alias.isWithin(host) || tested[key] {
				continue
			}
			tested[key] = true
			if !isOwnAt(ctx, resolvers, alias) {
				return false
			}
		}
	}
	return true
}

type passedName struct{ name, target string }

func isOwnAt(ctx context.Context, resolvers []resolverClient, alias passedAlias) bool {
	name, random := alias.sibling()
	var without atomic.Int64
	var queries sync.WaitGroup
	for _, r := range resolvers {
		queries.Go(func() {
			m, _, err := r.query(ctx, r.resolver.Transport, query{name: name, kind: dns.TypeTXT})
			if err != nil || !m.isAnswer() {
				return
			}
			if _, changed := notZones(m); changed {
				return
			}
			if target, err := aliasAt(m.answer, ".", name); err == nil && !alias.isSharedBy(target, random) {
				without.Add(1)
			}
		})
	}
	queries.Wait()
	return 2*without.Load() > int64(len(resolvers))
}
