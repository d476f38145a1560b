package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// ask queries the servers of the zone for the name. If those of a zone below a cached one all
// fail, it starts over at the top: the zone may have moved to other servers. It is an error if no
// server has a useful answer.
func (w *walk) ask(ctx context.Context) (*zonePoll, error) {
	p, err := w.askZone(ctx)
	if err != nil && w.cached && !errors.Is(err, errTooDeep) && ctx.Err() == nil {
		w.restart()
		w.atTop = true
		p, err = w.askZone(ctx)
	}
	return p, err
}

func (w *walk) askZone(ctx context.Context) (*zonePoll, error) {
	if w.polls++; w.polls > maxReferrals {
		return nil, errTooDeep
	}

	// Begin at the lowest zone above the name whose servers are cached, or at the top.
	name := w.path.name
	if w.zone.name == "" {
		zone, ok := w.nearest(name)
		if w.cached = ok && !w.thorough && !w.atTop && dns.CountLabel(zone.name) > 1; w.cached {
			w.zone = zone
		} else if top, err := w.topLevel(ctx, name); err == nil {
			w.zone = top
		} else {
			return nil, err
		}
	}

	// The NS records may name the root alone: the zone is not in use.
	if w.zone.named == 0 {
		return nil, &exchangeError{ReasonNoServers, fmt.Errorf("the zone above names no name servers of %s",
			dnsname.Shown(dnsname.Unrooted(w.zone.name)))}
	}
	if w.isLookup() && len(w.zone.glueOf(name)) > 0 && dns.CountLabel(w.zone.name) > 1 {
		return &zonePoll{zone: w.zone}, nil // a majority of the servers above gave the address
	}
	if w.zone.operator != "" && len(w.path.targets) == 0 {
		w.operator = w.zone.operator
	}

	p := w.pollZone(ctx)
	p.timedOut = ctx.Err() != nil
	w.forgetDead(ctx, p)
	if !p.any(serverAnswer.isUseful) {
		err := fmt.Errorf("no name server of %s answered with authority: %s",
			dnsname.Shown(dnsname.Unrooted(w.zone.name)), p.firstError())
		return p, &exchangeError{failureOf(w.observe(p)), err}
	}
	return p, nil
}

// pollZone polls the servers of the zone for the name. A registry is not told the host: it is asked
// for the registered domain, and for the host only if it does not refer to others for that.
func (w *walk) pollZone(ctx context.Context) *zonePoll {
	kind := dns.TypeTXT
	if w.isLookup() {
		kind = dns.TypeA
	}
	names := []string{w.path.name}
	domain := belowRegistry(w.path.name)
	if isRegistry(w.zone.name) && domain != "" && !dnsname.Same(domain, w.path.name) {
		names = []string{domain, w.path.name}
	}
	var p *zonePoll
	for _, name := range names {
		p = w.poll(ctx, w.zone, name, kind)
		if cut := p.doubtfulCut(); cut != "" {
			p.cut = w.poll(ctx, w.zone, cut, dns.TypeNS)
		}
		if p.delegation() != nil || !p.any(serverAnswer.isUseful) {
			break
		}
	}
	return p
}

// enter makes the zone below the one to query next, and caches it: a majority refers to it.
func (w *walk) enter(down *delegation) {
	w.delegations.put(down.name, *down, down.ttl)
	w.zone = *down
}

func (w *walk) follow(alias string) error {
	w.restart()
	return w.path.follow(alias)
}

func (w *walk) restart() {
	w.zone = delegation{}
	w.cached = false
	w.atTop = false
	w.polls = 0
}

// observe returns the observations of the servers, with the aliases on the way to them.
func (w *walk) observe(p *zonePoll) (observations []Observation) {
	if p == nil {
		return nil
	}
	for _, a := range p.answers {
		a.observation.Aliases = slices.Concat(w.path.targets, a.observation.Aliases)
		observations = append(observations, a.observation)
	}
	return observations
}

// nearest returns the lowest cached zone that contains the name.
func (w *walk) nearest(name string) (delegation, bool) {
	name = dnsname.Canonical(name)
	for _, off := range dns.Split(name) {
		if d, ok := w.delegations.get(name[off:]); ok && len(d.servers) > 0 {
			return d, true
		}
	}
	return delegation{}, false
}

// forgetDead removes a zone whose servers all failed from the cache.
func (w *walk) forgetDead(ctx context.Context, p *zonePoll) {
	switch {
	case p.any(serverAnswer.isUseful):
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeUp): // the caller gave up
	case p.spent(): // a server may have failed by our own limits
	default:
		w.delegations.forget(p.zone.name)
	}
}

// topLevel finds the name servers of the name's top-level domain, and their addresses. A quorum
// of the resolvers gives both, in place of the root. No resolver is queried for any other name
// server, nor for a name between the host and its top-level domain: an NXDOMAIN that it caches
// would deny the record after it is published (RFC 2308, RFC 8020). That a top-level domain does
// not exist is cached, too.
func (w *walk) topLevel(ctx context.Context, name string) (delegation, error) {
	labels := dns.SplitDomainName(dnsname.Canonical(name))
	tld := dns.Fqdn(labels[len(labels)-1])
	d, err := w.delegations.load(ctx, tld, func() (delegation, time.Duration, error) {
		names, ttl, err := w.agreed(ctx, tld, dns.TypeNS)
		if err != nil && !errors.Is(err, errNone) {
			return delegation{}, 0, err
		}
		d := newDelegation(".", tld, names, nil)
		d.none = err
		if w.lookups.Add(-int64(len(d.servers))) < 0 {
			return delegation{}, 0, errors.Join(errAbandoned, errSpent)
		}
		ttls := make([]time.Duration, len(d.servers))
		var lookups sync.WaitGroup
		for i := range d.servers {
			lookups.Go(func() { d.servers[i].glue, ttls[i] = w.byResolvers(ctx, d.servers[i].name) })
		}
		lookups.Wait()
		if ctx.Err() != nil {
			return delegation{}, 0, errors.Join(errAbandoned, ctx.Err())
		}
		return *d, slices.Min(append(ttls, ttl)), nil
	})
	if err = cmp.Or(err, d.none); err == nil {
		return d, nil
	}

	// Say who has to fix it: the domain's owner, or who runs the resolvers.
	err = fmt.Errorf("find the name servers of %s: %w", dnsname.Shown(dnsname.Unrooted(tld)), err)
	switch {
	case errors.Is(err, errDenied):
		err = &exchangeError{ReasonNoServers, err}
	case errors.Is(err, errNone), errors.Is(err, errNoQuorum): // each that exists has some
		err = &exchangeError{ReasonTopLevel, err}
	}
	return delegation{}, err
}

// byResolvers returns the IPv4 and IPv6 addresses that a quorum of the resolvers has for a name,
// none for the host's own or one above it. Those of one family suffice.
func (w *walk) byResolvers(ctx context.Context, name string) (addrs []netip.Addr, ttl time.Duration) {
	if slices.ContainsFunc(w.path.visited, func(visited string) bool { return dns.IsSubDomain(name, visited) }) {
		return nil, 0
	}
	kinds := [2]uint16{dns.TypeA, dns.TypeAAAA}
	var values [2][]string
	var ttls [2]time.Duration
	var lookups sync.WaitGroup
	for i, kind := range kinds {
		lookups.Go(func() { values[i], ttls[i], _ = w.agreed(ctx, name, kind) })
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

// errNoAddress: a name server's zone says that the name has no address.
var errNoAddress = errors.New("it has no address")

// addressesOf returns the addresses of a name server that may be queried. Those that the registry
// gave of a name in another zone are the second choice: they may be stale, but servers that
// cannot be reached, or zones that name their servers in each other, would leave a name without
// any. They do not replace the answer of the name's zone that it has none: the address may be a
// stranger's now.
func (w *walk) addressesOf(ctx context.Context, zone string, server nameServer) ([]netip.Addr, error) {
	found := server.glue
	if len(found) == 0 {
		var err error
		found, err = w.lookUp(ctx, zone, server.name)
		if err != nil && (len(server.spare) == 0 || errors.Is(err, errNoAddress)) {
			return nil, err
		}
		if err != nil {
			found = server.spare
		}
	}
	return w.allowed(firstAddrs(found))
}

// lookUp finds the addresses of a name server of a zone as the zone itself was found: from the
// top-level domain down, by a majority of the servers at each step. A resolver may have them from
// one hostile server, whose siblings are silenced. Names that lie in a zone whose servers are
// sought can only be found with the addresses of those servers.
func (w *walk) lookUp(ctx context.Context, zone, name string) ([]netip.Addr, error) {
	path := &aliasPath{name: name, visited: w.path.visited}
	below := &walk{
		authority: w.authority, path: path, limited: w.limited, lookups: w.lookups,
		sought: append(slices.Clip(w.sought), zone),
	}
	switch {
	case dns.CountLabel(zone) == 1:
		return nil, errors.New("the resolvers have no address of it")
	case slices.ContainsFunc(below.sought, func(zone string) bool { return dns.IsSubDomain(zone, name) }):
		return nil, errors.New("its name lies in the zone, and no address (glue) came with the delegation")
	case len(below.sought) > maxDepth:
		return nil, fmt.Errorf("more than %d zones whose name servers lie in another one", maxDepth)
	}
	found, err := w.addresses[len(w.sought)].load(ctx, name, func() (addresses, time.Duration, error) {
		return below.find(ctx, name)
	})
	if err == nil {
		err = found.err
	}
	return found.addrs, err
}

// find finds the addresses of a name server: those that a majority of its zone's servers gave, or
// the glue of the zone if it is one of them. An alias has none.
func (w *walk) find(ctx context.Context, name string) (addresses, time.Duration, error) {
	if w.lookups.Add(-1) < 0 {
		return addresses{}, 0, errors.Join(errAbandoned, errSpent)
	}

	// Go down to the zone that has the name.
	p, err := w.ask(ctx)
	for err == nil {
		down := p.delegation()
		if down == nil {
			break
		}
		w.enter(down)
		p, err = w.ask(ctx)
	}

	// An error of the name is stored as its addresses are. A search that was given up says nothing
	// of the name: its error is returned instead.
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
		_, _, _, aliases := p.kinds()
		switch {
		case p.spent():
			return addresses{}, 0, errors.Join(errAbandoned, errSpent)
		case len(aliases) > 0:
			err = &exchangeError{ReasonServerAlias, fmt.Errorf(
				"its name is an alias (CNAME) of %s, which RFC 2181 section 10.3 forbids", dnsname.Shown(dnsname.Unrooted(aliases[0])))}
		case p.majority(none):
			err = errNoAddress
		default:
			zone := dnsname.Shown(dnsname.Unrooted(p.zone.name))
			err = &exchangeError{ReasonTooFew, fmt.Errorf("no majority of the name servers of %s gives its address", zone)}
		}
	}
	return addresses{err: err}, notFoundTTL, nil
}

// allowed returns the addresses that may be queried. The families alternate, so that both are
// among the first.
func (w *walk) allowed(found []netip.Addr) ([]netip.Addr, error) {
	var four, six []netip.Addr
	for _, addr := range found {
		switch {
		case !w.anyAddress && !IsPublic(addr):
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
