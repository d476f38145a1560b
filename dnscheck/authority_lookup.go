package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// topLevel finds the name servers of the name's top-level domain. No resolver is queried for
// any name between the host and its top-level domain: an NXDOMAIN that it caches would deny
// the record after it is published (RFC 2308, RFC 8020). That a top-level domain does not
// exist is cached, too.
func (r *resolution) topLevel(ctx context.Context, name string) (delegation, error) {
	labels := dns.SplitDomainName(canonical(name))
	tld := dns.Fqdn(labels[len(labels)-1])
	d, err := r.delegations.load(ctx, tld, func() (delegation, time.Duration, error) {
		names, ttl, err := r.agreed(ctx, tld, dns.TypeNS)
		if err != nil && !errors.Is(err, errNone) {
			return delegation{}, 0, err
		}
		return *newDelegation(tld, names, nil), ttl, nil
	})
	if err == nil && len(d.servers) == 0 {
		err = errNone
	}
	if err != nil {
		return delegation{}, fmt.Errorf("find the name servers of %s: %w", shownHost(unrooted(tld)), err)
	}
	return d, nil
}

// addressesOf returns the addresses of a name server that may be queried.
func (r *resolution) addressesOf(ctx context.Context, zone string, server nameServer) ([]netip.Addr, error) {
	found := server.glue
	if len(found) == 0 {
		if err := r.checkLookup(zone, server.name); err != nil {
			return nil, err
		}
		var err error
		if found, err = r.lookUp(ctx, server.name); err != nil {
			return nil, err
		}
	}
	return r.allowed(firstAddrs(found))
}

// checkLookup refuses two kinds of names: those from the host, or from a target of its aliases,
// up to the top-level domain, since their NXDOMAIN would deny the record; and those in the zone
// itself without glue, since a resolver could not find them elsewhere.
func (r *resolution) checkLookup(zone, name string) error {
	for _, visited := range r.path.visited {
		if dns.IsSubDomain(name, visited) {
			return errors.New("its name is the host's own, or above it: its address is not queried")
		}
	}
	if dns.CountLabel(zone) > 1 && dns.IsSubDomain(zone, name) {
		return errors.New("its name lies in the zone, and no address (glue) came with the delegation")
	}
	return nil
}

func (r *resolution) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	found, err := r.addresses.load(ctx, name, func() ([]netip.Addr, time.Duration, error) {
		if r.lookups.Add(-1) < 0 {
			return nil, 0, errors.Join(errAbandoned, errSpent)
		}
		return r.lookUpBoth(ctx, name)
	})
	if err == nil && len(found) == 0 {
		err = errors.New("it has no address")
	}
	return found, err
}

// lookUpBoth resolves the IPv4 and IPv6 addresses of a name. Those of one family suffice.
func (r *resolution) lookUpBoth(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	kinds := [2]uint16{dns.TypeA, dns.TypeAAAA}
	var values [2][]string
	var ttls [2]time.Duration
	var errs [2]error
	var lookups sync.WaitGroup
	for i, kind := range kinds {
		lookups.Go(func() { values[i], ttls[i], errs[i] = r.agreed(ctx, name, kind) })
	}
	lookups.Wait()
	var addrs []netip.Addr
	ttl := longestTTL
	for i := range kinds {
		if len(values[i]) > 0 {
			ttl = min(ttl, ttls[i])
		}
		for _, value := range values[i] {
			addrs = append(addrs, netip.MustParseAddr(value)) // formatted by valueOf
		}
	}
	switch err := errors.Join(errs[:]...); {
	case len(addrs) > 0:
		return firstAddrs(addrs), ttl, nil
	case errors.Is(err, errAbandoned):
		return nil, 0, err
	}
	return nil, notFoundTTL, nil
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

// firstAddrs returns a copy of the first maxAddrs addresses of each family, of the public ones
// and of the others. A foreign name server may have a thousand, which would all be queried,
// and held by the caches.
func firstAddrs(found []netip.Addr) (first []netip.Addr) {
	type sort struct{ public, six bool }
	number := make(map[sort]int)
	for _, addr := range found {
		of := sort{IsPublic(addr), addr.Is6()}
		if number[of]++; number[of] <= maxAddrs {
			first = append(first, addr)
		}
	}
	return first
}
