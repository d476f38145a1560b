package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// topLevel finds the name servers of the name's top-level domain, and their addresses. A quorum
// of the resolvers gives both, in place of the root. No resolver is queried for any other name
// server, nor for a name between the host and its top-level domain: an NXDOMAIN that it caches
// would deny the record after it is published (RFC 2308, RFC 8020). That a top-level domain does
// not exist is cached, too.
func (r *resolution) topLevel(ctx context.Context, name string) (delegation, error) {
	labels := dns.SplitDomainName(canonical(name))
	tld := dns.Fqdn(labels[len(labels)-1])
	d, err := r.delegations.load(ctx, tld, func() (delegation, time.Duration, error) {
		names, ttl, err := r.agreed(ctx, tld, dns.TypeNS)
		if err != nil && !errors.Is(err, errNone) {
			return delegation{}, 0, err
		}
		d := newDelegation(tld, names, nil)
		if r.lookups.Add(-int64(len(d.servers))) < 0 {
			return delegation{}, 0, errors.Join(errAbandoned, errSpent)
		}
		ttls := make([]time.Duration, len(d.servers))
		var lookups sync.WaitGroup
		for i := range d.servers {
			lookups.Go(func() { d.servers[i].glue, ttls[i] = r.byResolvers(ctx, d.servers[i].name) })
		}
		lookups.Wait()
		if ctx.Err() != nil {
			return delegation{}, 0, errors.Join(errAbandoned, ctx.Err())
		}
		return *d, slices.Min(append(ttls, ttl)), nil
	})
	if err == nil && len(d.servers) == 0 {
		err = errNone
	}
	if err != nil {
		return delegation{}, fmt.Errorf("find the name servers of %s: %w", shownHost(unrooted(tld)), err)
	}
	return d, nil
}

// byResolvers returns the IPv4 and IPv6 addresses that a quorum of the resolvers has for a name,
// none for the host's own or one above it. Those of one family suffice.
func (r *resolution) byResolvers(ctx context.Context, name string) (addrs []netip.Addr, ttl time.Duration) {
	if slices.ContainsFunc(r.path.visited, func(visited string) bool { return dns.IsSubDomain(name, visited) }) {
		return nil, 0
	}
	kinds := [2]uint16{dns.TypeA, dns.TypeAAAA}
	var values [2][]string
	var ttls [2]time.Duration
	var lookups sync.WaitGroup
	for i, kind := range kinds {
		lookups.Go(func() { values[i], ttls[i], _ = r.agreed(ctx, name, kind) })
	}
	lookups.Wait()
	ttl = longestTTL
	for i := range kinds {
		if len(values[i]) > 0 {
			ttl = min(ttl, ttls[i])
		}
		for _, value := range values[i] {
			addrs = append(addrs, netip.MustParseAddr(value)) // formatted by valueOf
		}
	}
	if len(addrs) == 0 {
		ttl = notFoundTTL
	}
	return firstAddrs(addrs), ttl
}

// addressesOf returns the addresses of a name server that may be queried.
func (r *resolution) addressesOf(ctx context.Context, zone string, server nameServer) ([]netip.Addr, error) {
	found := server.glue
	if len(found) == 0 {
		var err error
		if found, err = r.lookUp(ctx, zone, server.name); err != nil {
			return nil, err
		}
	}
	return r.allowed(firstAddrs(found))
}

// lookUp finds the addresses of a name server of a zone as the zone itself was found: from the
// top-level domain down, by a majority of the servers at each step. A resolver may have them from
// one hostile server, whose siblings are silenced. Names that lie in a zone whose servers are
// sought can only be found with the addresses of those servers.
func (r *resolution) lookUp(ctx context.Context, zone, name string) ([]netip.Addr, error) {
	below := &resolution{
		authority: r.authority, path: r.path, limited: r.limited, lookups: r.lookups,
		sought: append(slices.Clip(r.sought), zone),
	}
	switch {
	case dns.CountLabel(zone) == 1:
		return nil, errors.New("the resolvers have no address of it")
	case slices.ContainsFunc(below.sought, func(zone string) bool { return dns.IsSubDomain(zone, name) }):
		return nil, errors.New("its name lies in the zone, and no address (glue) came with the delegation")
	case len(below.sought) > maxDepth:
		return nil, fmt.Errorf("more than %d zones whose name servers lie in another one", maxDepth)
	}
	found, err := r.addresses[len(r.sought)].load(ctx, name, func() (addresses, time.Duration, error) {
		return below.find(ctx, name)
	})
	if err == nil {
		err = found.err
	}
	return found.addrs, err
}

// find finds the addresses of a name server: those that a majority of its zone's servers gave, or
// the glue of the zone if it is one of them. An alias has none (RFC 2181 section 10.3).
func (r *resolution) find(ctx context.Context, name string) (addresses, time.Duration, error) {
	if r.lookups.Add(-1) < 0 {
		return addresses{}, 0, errors.Join(errAbandoned, errSpent)
	}
	p, err := r.descend(ctx, name)
	none := func(a serverAnswer) bool { return a.definite() && len(a.addrs) == 0 }
	switch {
	case ctx.Err() != nil:
		return addresses{}, 0, errors.Join(errAbandoned, ctx.Err())
	case errors.Is(err, errAbandoned):
		return addresses{}, 0, err
	case err != nil && p != nil && p.spent():
		return addresses{}, 0, errors.Join(errAbandoned, errSpent)
	case err != nil:
		err = fmt.Errorf("its address cannot be found: %w", err)
	case len(p.answers) == 0:
		return addresses{addrs: p.zone.glueOf(name)}, 0, nil // the zone is cached
	default:
		if addrs, ttl := p.addresses(); len(addrs) > 0 {
			return addresses{addrs: addrs}, ttl, nil
		}
		switch {
		case p.spent():
			return addresses{}, 0, errors.Join(errAbandoned, errSpent)
		case p.majority(p.zone.named, none):
			err = errors.New("it has no address")
		default:
			zone := shownHost(unrooted(p.zone.name))
			err = &exchangeError{ReasonTooFew, fmt.Errorf("no majority of the name servers of %s gives its address", zone)}
		}
	}
	return addresses{err: err}, notFoundTTL, nil
}

// allowed returns the addresses that may be queried. The families alternate, so that both are
// among the first.
func (r *resolution) allowed(found []netip.Addr) ([]netip.Addr, error) {
	var four, six []netip.Addr
	for _, addr := range found {
		switch {
		case !r.anyAddress && !IsPublic(addr):
		case addr.Is4():
			four = append(four, addr)
		default:
			six = append(six, addr)
		}
	}
	if len(four)+len(six) == 0 {
		return nil, fmt.Errorf("its address %s is not public unicast: not queried", found[0])
	}
	var mixed []netip.Addr
	for i := range max(len(four), len(six)) {
		mixed = append(mixed, four[min(i, len(four)):min(i+1, len(four))]...)
		mixed = append(mixed, six[min(i, len(six)):min(i+1, len(six))]...)
	}
	return mixed, nil
}
