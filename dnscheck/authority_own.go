package dnscheck

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// maxTold is how many of a zone's servers are asked for the zone's own NS records: they have the same nearly everywhere.
const maxTold = 3

// mismatch is what a zone and its parent say of the zone's name servers where that is not the same. Names are safe to show.
type mismatch struct {
	zone      string
	delegated []string // by the parent
	own       []string // by the zone's NS records
	holding   []string // those that only the zone names, and that have the token
}

// mismatched asks the host's zone for its own NS records, and asks those of its servers for the token that the parent does
// not name. nil: there is nothing to tell, be it that a set is larger than what is taken of it, or that the delegated
// servers do not deny the token (any more).
func (a *authority) mismatched(ctx context.Context, host, token string) *mismatch {
	if a.reach.shut(time.Now()) != "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, authorityTime, errTimeUp)
	defer cancel()
	q := a.inquire(host, token, forLook)
	p, err := q.descend(ctx, q.path.at)
	if err != nil || !p.any(statement.isNo) || p.conflict() || p.zone.more() || dns.CountLabel(p.zone.zone) == 1 {
		return nil
	}
	own := q.ownServers(ctx, p)
	if len(own) == 0 {
		return nil
	}
	m := &mismatch{zone: shownHost(unrooted(p.zone.zone)), delegated: namesOf(p.zone.servers), own: namesOf(own)}
	if slices.Equal(m.delegated, m.own) {
		return nil
	}
	unnamed := slices.DeleteFunc(own, func(s nameServer) bool { return slices.ContainsFunc(p.zone.servers, s.isSame) })
	at := delegation{zone: p.zone.zone, servers: unnamed, named: len(unnamed)}
	for _, h := range q.hear(ctx, at, q.path.at).heard {
		if h.said.isYes() && !slices.Contains(m.holding, h.observation.Resolver) {
			m.holding = append(m.holding, h.observation.Resolver)
		}
	}
	slices.Sort(m.holding)
	return m
}

// ownServers are the name servers that the zone itself names, by some of its servers, with the addresses that these tell of names
// in the zone; none where that are more than are asked of any zone.
func (q *inquiry) ownServers(ctx context.Context, p *poll) []nameServer {
	var own []nameServer
	asked := 0
	for _, h := range p.heard {
		at, err := netip.ParseAddrPort(h.observation.Address)
		if err != nil || !h.said.definite() {
			continue
		}
		if asked++; asked > maxTold {
			break
		}
		r, _, err := q.straight.askFor(ctx, Resolver{Addr: at, Transport: transportUDP}, transportUDP, query{name: p.zone.zone, kind: dns.TypeNS, straight: true})
		if err != nil || !r.authoritative || r.rcode != dns.RcodeSuccess {
			continue
		}
		records := slices.DeleteFunc(nsRecords(r.answer), func(ns *dns.NS) bool { return canonical(ns.Hdr.Name) != p.zone.zone })
		names := slices.DeleteFunc(serverNames(records), func(name string) bool { return slices.ContainsFunc(own, nameServer{name: name}.isSame) })
		if len(own)+len(names) > maxServers {
			return nil
		}
		own = append(own, withGlue(p.zone.zone, names, r.additional)...)
	}
	return own
}

func (s nameServer) isSame(as nameServer) bool { return s.name == as.name }

// namesOf are the servers' names, in order, to be shown.
func namesOf(servers []nameServer) []string {
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, shownHost(unrooted(s.name)))
	}
	slices.Sort(names)
	return names
}
