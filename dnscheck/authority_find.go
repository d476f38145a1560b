package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// registryServers is how many of a registry's name servers are queried: they are up to 13 that all hold the same. Two of
	// three have to agree, so that one that is hijacked decides nothing, and one that is silent stops nothing.
	registryServers = 3
	// lookupTime is how long the resolvers have to find the name servers of a top-level domain, or the addresses of a name
	// server: well under authorityTime, for a name that nobody answers for must not take the time of the others.
	lookupTime = 2 * time.Second
	// unfoundMemory is how long nobody asks again for the addresses of a name server that has none. A dead one is often
	// named by thousands of zones.
	unfoundMemory = 30 * time.Second
)

// top finds the name servers of the top-level domain that a name ends in. That they exist is sure, unlike anything between
// the name and its zone, for which no resolver is ever asked: an NXDOMAIN that it then keeps would deny the record for as
// long after it was published (RFC 2308, RFC 8020). That there are none is remembered by the root's word.
func (q *inquiry) top(ctx context.Context, name string) (delegation, error) {
	labels := dns.SplitDomainName(canonical(name))
	tld := dns.Fqdn(labels[len(labels)-1])
	d, err := q.cuts.find(ctx, tld, func() (delegation, time.Duration, error) {
		names, ttl, err := q.agreed(ctx, tld, dns.TypeNS)
		if err != nil && !errors.Is(err, errNone) {
			return delegation{}, 0, err
		}
		return *delegationOf(tld, names, nil, q.seed), ttl, nil
	})
	if err == nil && len(d.servers) == 0 {
		err = errNone
	}
	if err != nil {
		return delegation{}, fmt.Errorf("find the name servers of %s: %w", shownHost(unrooted(tld)), err)
	}
	return d, nil
}

// addresses gives the addresses at which a name server can be asked, or why there are none.
func (q *inquiry) addresses(ctx context.Context, zone string, server nameServer) ([]netip.Addr, error) {
	found := server.glue
	if len(found) == 0 {
		if err := q.mayLookUp(zone, server.name); err != nil {
			return nil, err
		}
		var err error
		if found, err = q.lookUp(ctx, server.name); err != nil {
			return nil, err
		}
	}
	return q.allowed(found)
}

// mayLookUp refuses a name on the way from the host, or from an alias of it, up to its top-level domain, since its NXDOMAIN
// would deny what we look for; and a name in the zone itself whose address did not come with the referral, since a
// resolver could only find it there.
func (q *inquiry) mayLookUp(zone, name string) error {
	for _, seen := range q.path.seen {
		if dns.IsSubDomain(name, seen) {
			return errors.New("its name is the host's own, or above it: its address is not queried")
		}
	}
	if dns.CountLabel(zone) > 1 && dns.IsSubDomain(zone, name) {
		return errors.New("its name lies in the zone, and no address (glue) came with the delegation")
	}
	return nil
}

func (q *inquiry) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	found, err := q.hosts.find(ctx, name, func() ([]netip.Addr, time.Duration, error) {
		if q.lookups.Add(-1) < 0 {
			return nil, 0, errors.Join(errAbandoned, errSpent)
		}
		return q.bothFamilies(ctx, name)
	})
	if err == nil && len(found) == 0 {
		err = errors.New("it has no address")
	}
	return found, err
}

// bothFamilies looks up the IPv4 and IPv6 addresses of a name; those of one are enough.
func (q *inquiry) bothFamilies(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	kinds := [2]uint16{dns.TypeA, dns.TypeAAAA}
	var values [2][]string
	var ttls [2]time.Duration
	var errs [2]error
	var looking sync.WaitGroup
	for i, kind := range kinds {
		looking.Go(func() { values[i], ttls[i], errs[i] = q.agreed(ctx, name, kind) })
	}
	looking.Wait()
	var addrs []netip.Addr
	ttl := longestMemory
	for i := range kinds {
		if len(values[i]) > 0 {
			ttl = min(ttl, ttls[i])
		}
		for _, value := range values[i] {
			addrs = append(addrs, netip.MustParseAddr(value)) // written by valueOf
		}
	}
	switch err := errors.Join(errs[:]...); {
	case len(addrs) > 0:
		return few(addrs), ttl, nil
	case errors.Is(err, errAbandoned):
		return nil, 0, err
	}
	return nil, unfoundMemory, nil
}

// allowed takes the addresses that may be asked, at most maxAddrs of each family.
func (q *inquiry) allowed(found []netip.Addr) ([]netip.Addr, error) {
	var four, six []netip.Addr
	for _, addr := range found {
		switch {
		case !q.anyAddress && !IsPublic(addr):
		case addr.Is4() && len(four) < maxAddrs:
			four = append(four, addr)
		case addr.Is6() && len(six) < maxAddrs:
			six = append(six, addr)
		}
	}
	if len(four)+len(six) == 0 {
		return nil, fmt.Errorf("its address %s is not public unicast: not queried", found[0])
	}
	var mixed []netip.Addr // so that whoever asks one after another sees both families soon
	for i := range max(len(four), len(six)) {
		mixed = append(mixed, four[min(i, len(four)):min(i+1, len(four))]...)
		mixed = append(mixed, six[min(i, len(six)):min(i+1, len(six))]...)
	}
	return mixed, nil
}

// few returns a copy of the addresses that allowed can take: the first maxAddrs of each family,
// of those that are public and of the others. A stranger's name server may have a thousand,
// which the caches would keep.
func few(found []netip.Addr) (kept []netip.Addr) {
	type sort struct{ public, six bool }
	number := make(map[sort]int)
	for _, addr := range found {
		of := sort{IsPublic(addr), addr.Is6()}
		if number[of]++; number[of] <= maxAddrs {
			kept = append(kept, addr)
		}
	}
	return kept
}

var (
	// errUnfound: the resolvers could be asked, and do not agree on anything.
	errUnfound = errors.New("no quorum of the resolvers gives an answer")
	// errNone: a quorum of the resolvers says that there is nothing.
	errNone = errors.New("there are none")
)

// panel are the resolvers, of which a quorum has to agree.
type panel struct {
	resolvers []recursive
	quorum    int
	span      bool // over two perspectives
}

// votes are the resolvers that give the same answer.
type votes struct {
	count int
	in    perspectives
}

func (v *votes) add(r Resolver) {
	v.count++
	v.in.add(r.perspective())
}

func (p panel) enough(v votes) bool { return v.count >= p.quorum && (!p.span || v.in.several) }

// agreed asks all resolvers for the records of a name, and gives the values that a quorum of them has told: one resolver that
// lies must not choose whose word we take for the zone's. Nobody is waited for once there are such values. With errNone comes for
// how long, at the least, there is nothing by those who say so.
func (p panel) agreed(ctx context.Context, name string, kind uint16) ([]string, time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	told := make(chan ballot, len(p.resolvers))
	for _, v := range p.resolvers {
		asking.Go(func() { told <- v.valuesOf(limited, name, kind) })
	}
	of := make(map[string]*votes)
	var empty votes
	ttl, emptyTTL := longestMemory, longestMemory
	for range p.resolvers {
		b := <-told
		if b.counts && len(b.values) == 0 {
			empty.add(b.by)
			emptyTTL = min(emptyTTL, b.ttl)
		}
		for _, value := range b.values {
			if of[value] == nil {
				of[value] = new(votes)
			}
			of[value].add(b.by)
			ttl = min(ttl, b.ttl)
		}
		var winners []string
		for value, v := range of {
			if p.enough(*v) {
				winners = append(winners, value)
			}
		}
		if len(winners) > 0 {
			slices.Sort(winners)
			return winners, ttl, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, 0, errors.Join(errAbandoned, ctx.Err())
	case p.enough(empty):
		return nil, emptyTTL, errNone
	}
	return nil, 0, errUnfound
}

// ballot is what one resolver says of a name, each value once.
type ballot struct {
	by     Resolver
	values []string
	ttl    time.Duration // of the values; of their absence where there are none
	counts bool          // the resolver has answered, be it that there is nothing
}

func (v recursive) valuesOf(ctx context.Context, name string, kind uint16) ballot {
	r, _, err := v.ask(ctx, v.resolver.Transport, query{name: name, kind: kind})
	if err != nil || r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError {
		return ballot{}
	}
	if v.canary != nil && v.canary.lying(ctx, v) != "" {
		return ballot{} // it makes answers up: it has no vote here either
	}
	b := ballot{by: v.resolver, counts: true, ttl: longestMemory}
	for _, record := range r.answer {
		if !isAt(record, name) || record.Header().Rrtype != kind {
			continue
		}
		if value := valueOf(record); value != "" && !slices.Contains(b.values, value) {
			b.values = append(b.values, value)
			b.ttl = min(b.ttl, seconds(record.Header().Ttl))
		}
	}
	if len(b.values) == 0 {
		b.ttl = negativeTTL(r.authority, name)
	}
	return b
}

func valueOf(record dns.RR) string {
	if ns, ok := record.(*dns.NS); ok {
		return strings.TrimPrefix(canonical(ns.Ns), ".") // the root serves nobody
	}
	if addr, ok := addressIn(record); ok {
		return addr.String()
	}
	return ""
}
