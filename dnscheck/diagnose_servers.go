package dnscheck

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// serverMismatch is the difference between a zone's own NS records and its delegation. Names
// are safe to show.
type serverMismatch struct {
	zone      string
	delegated []string // by the parent
	own       []string // by the zone's NS records
	holding   []string // those that only the zone names, and that have the token
}

// findMismatch queries the host's zone for its own NS records, and those of its servers that
// the parent does not name for the token. It returns nil without a mismatch, if a set has more
// servers than are queried, or if the delegated servers do not deny the token.
func (a *authority) findMismatch(ctx context.Context, host, token string) *serverMismatch {
	if a.reach.closed(time.Now(), authorityTime) != "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, authorityTime, errTimeUp)
	defer cancel()
	r := a.newResolution(question{host: host, token: token, purpose: forAdvice})
	p, err := r.descend(ctx, r.path.name)
	if err != nil || !p.any(serverAnswer.denies) || p.conflict() || p.zone.isCut() || dns.CountLabel(p.zone.name) == 1 {
		return nil
	}
	own := r.ownServers(ctx, p)
	if len(own) == 0 {
		return nil
	}
	m := &serverMismatch{zone: shownHost(unrooted(p.zone.name)), delegated: namesOf(p.zone.servers), own: namesOf(own)}
	if slices.Equal(m.delegated, m.own) {
		return nil
	}
	unnamed := slices.DeleteFunc(own, func(s nameServer) bool { return hasServer(p.zone.servers, s.name) })
	zone := delegation{name: p.zone.name, servers: unnamed, named: len(unnamed)}
	for _, a := range r.poll(ctx, zone, r.path.name).answers {
		if name := a.observation.Resolver; a.hasToken() && !slices.Contains(m.holding, name) {
			m.holding = append(m.holding, name)
		}
	}
	slices.Sort(m.holding)
	return m
}

// ownServers returns the name servers in the zone's own NS records, with their addresses in the
// zone; none if there are more than are queried.
func (r *resolution) ownServers(ctx context.Context, p *zonePoll) []nameServer {
	const most = 3 // servers to query: all have the same records nearly everywhere
	var own []nameServer
	queried := 0
	for _, a := range p.answers {
		at, err := netip.ParseAddrPort(a.observation.Address)
		if err != nil || !a.definite() {
			continue
		}
		if queried++; queried > most {
			break
		}
		to := Resolver{Addr: at, Transport: transportUDP}
		m, _, err := r.limited.query(ctx, to, transportUDP, query{name: p.zone.name, kind: dns.TypeNS, nonRecursive: true})
		if err != nil || !m.authoritative || m.rcode != dns.RcodeSuccess {
			continue
		}
		records := slices.DeleteFunc(nsRecords(m.answer), func(ns *dns.NS) bool { return canonical(ns.Hdr.Name) != p.zone.name })
		names := slices.DeleteFunc(serverNames(records), func(name string) bool { return hasServer(own, name) })
		if len(own)+len(names) > maxServers {
			return nil
		}
		own = append(own, withGlue(p.zone.name, names, m.additional)...)
	}
	return own
}

func hasServer(servers []nameServer, name string) bool {
	return slices.ContainsFunc(servers, func(s nameServer) bool { return s.name == name })
}

// namesOf returns the servers' names, sorted and safe to show.
func namesOf(servers []nameServer) []string {
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, shownHost(unrooted(s.name)))
	}
	slices.Sort(names)
	return names
}
