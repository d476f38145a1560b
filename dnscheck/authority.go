package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// serversVerdict is the verdict of the name servers, without quorum and resolvers.
type serversVerdict struct {
	Verdict

	answered    bool // at least one server had an authoritative answer or a valid referral
	unreachable bool // no name server at all can be reached, as far as the purpose trusts that
}

// query queries the name servers of the host's zone. The error is the context's. A proof
// finds out by itself whether port 53 is closed: another check may have found it so because
// an attacker silenced servers.
func (a *authority) query(ctx context.Context, q question) (serversVerdict, error) {
	if q.purpose != forProof && (q.purpose != forDisproof || a.reach.isClosedForSure(time.Now())) {
		if why := a.reach.closed(time.Now(), authorityTime); why != "" {
			v := Verdict{Host: q.host, Basis: ByAuthority, Reason: ReasonUnreachable, Note: why}
			return serversVerdict{Verdict: v, unreachable: true}, nil
		}
	}
	limit := authorityTime
	if q.purpose == forDisproof {
		limit = disproofTime
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	r := a.newResolution(q)
	v := r.resolve(limited)
	if ctx.Err() != nil {
		return serversVerdict{}, contextError(ctx, q.host)
	}
	v.Host, v.Basis, v.Operator = q.host, ByAuthority, r.operator
	if r.disproof || v.Reason == ReasonServersDisagree {
		v.Observations = slices.Concat(r.sightings, v.Observations)
	}
	if r.disproof {
		if len(r.sightings) > 0 {
			v.State, v.Reason, v.answered = Present, ReasonFound, true
		}
		slices.SortStableFunc(v.Observations, presentFirst) // so that none is left out
		v.unreachable = !v.answered && a.reach.isClosedForSure(time.Now())
	}
	if q.observe != nil {
		for _, o := range v.Observations {
			q.observe(o)
		}
	}
	v.Observations = v.Observations[:min(len(v.Observations), maxServerObservations)]
	return v, nil
}

func presentFirst(a, b Observation) int { return cmp.Compare(b.State, a.State) }

// resolve queries the host's zone and, for an alias, the zone of its target.
func (r *resolution) resolve(ctx context.Context) serversVerdict {
	majority := true
	for {
		p, err := r.descend(ctx, r.path.name)
		if err != nil {
			note := cmp.Or(r.reach.problem(), err.Error())
			v := Verdict{Reason: exchangeFailure(err).reason, Note: note, Observations: r.observe(p)}
			return serversVerdict{Verdict: v, unreachable: r.unreachable}
		}
		majority = majority && p.majority(p.zone.named, serverAnswer.definite) &&
			(!r.disproof || !p.incomplete() && !p.zone.isCut())
		if p.alias == "" || p.conflict() || r.proof && !p.majority(p.zone.named, serverAnswer.isAlias) {
			return r.verdict(p, majority)
		}
		if err := r.path.follow(p.alias); err != nil {
			v := Verdict{Reason: ReasonAlias, Note: err.Error(), Observations: r.observe(p)}
			return serversVerdict{Verdict: v, answered: true}
		}
	}
}

// verdict returns the verdict of a zone's servers. One denial next to the token, an alias or a
// referral is a disagreement. A denial counts if a majority of the servers answered, here and
// on the way. A proof needs the token from a majority, since an attacker with one server may
// be able to silence the others. For a check one is enough: a proof follows.
func (r *resolution) verdict(p *zonePoll, majority bool) serversVerdict {
	v := serversVerdict{answered: p.any(serverAnswer.isUseful)}
	v.Observations = r.observe(p)
	v.Zone, v.Servers, v.Answered = shownHost(unrooted(p.zone.name)), p.zone.named, p.answered()
	few := fmt.Sprintf("%d of the %d name servers of %s have answered", v.Answered, v.Servers, v.Zone)
	switch {
	case p.conflict() && (!r.disproof || !p.any(serverAnswer.hasToken)):
		v.Reason = ReasonServersDisagree
	case p.any(serverAnswer.hasToken) && (!r.proof || p.majority(p.zone.named, serverAnswer.hasToken)):
		v.State, v.Reason = Present, ReasonFound
	case r.contradiction != "":
		v.Reason = r.contradiction
	case p.any(serverAnswer.denies) && majority:
		v.State, v.Reason = Absent, reasonOf(Absent, v.Observations)
	case p.any(serverAnswer.denies) && p.zone.isCut():
		v.Reason, v.Note = ReasonTooFew, few
	case p.any(serverAnswer.denies):
		v.Reason, v.Note = failureOf(v.Observations), few
	case p.majority(p.zone.named, serverAnswer.isUseful): // but no majority agrees
		v.Reason = ReasonServersDisagree
	default:
		v.Reason, v.Note = ReasonTooFew, few
	}
	return v
}

// failureOf is the reason why servers did not answer.
func failureOf(observations []Observation) Reason {
	failed := slices.DeleteFunc(slices.Clone(observations), func(o Observation) bool { return o.State != Unknown || o.Reason == ReasonReferral })
	if len(failed) == 0 {
		return ReasonTimeout
	}
	return reasonOf(Unknown, failed)
}

// observe returns the observations of the servers, with the aliases on the way to them.
func (r *resolution) observe(p *zonePoll) (observations []Observation) {
	if p == nil {
		return nil
	}
	for _, a := range p.answers {
		a.observation.Aliases = slices.Concat(r.path.targets, a.observation.Aliases)
		observations = append(observations, a.observation)
	}
	return observations
}

// descend goes from the nearest cached zone down to the name's zone, and polls its servers.
func (r *resolution) descend(ctx context.Context, name string) (*zonePoll, error) {
	if zone, ok := r.nearest(name); ok && !r.disproof {
		p, err := r.descendFrom(ctx, zone, name)
		if err == nil || dns.CountLabel(zone.name) == 1 || errors.Is(err, errTooDeep) || ctx.Err() != nil {
			return p, err
		}
		// The zone may have moved to other servers: start over at the top.
	}
	zone, err := r.topLevel(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.descendFrom(ctx, zone, name)
}

// nearest returns the lowest cached zone that contains the name.
func (r *resolution) nearest(name string) (delegation, bool) {
	name = canonical(name)
	for _, off := range dns.Split(name) {
		if d, ok := r.delegations.get(name[off:]); ok && len(d.servers) > 0 {
			return d, true
		}
	}
	return delegation{}, false
}

func (r *resolution) descendFrom(ctx context.Context, zone delegation, name string) (*zonePoll, error) {
	for range maxReferrals {
		if r.isLookup() && len(zone.glueOf(name)) > 0 && dns.CountLabel(zone.name) > 1 {
			return &zonePoll{zone: zone}, nil // a majority of the servers above gave the address
		}
		if zone.operator != "" && len(r.path.targets) == 0 {
			r.operator = zone.operator
		}
		p := r.poll(ctx, zone, name)
		p.timedOut = ctx.Err() != nil
		r.recordReach(ctx, p)
		down, confirmed := p.delegation()
		follow := down != nil && !p.conflict()
		switch {
		case r.disproof:
			r.collect(p, follow)
		case follow && !confirmed: // some servers have the token: it is not absent
			r.contradiction, r.sightings = ReasonServersDisagree, append(r.sightings, r.present(p)...)
		}
		switch {
		case follow:
			if confirmed {
				r.delegations.put(down.name, *down, down.ttl)
			}
			zone = *down
		case !p.any(serverAnswer.isUseful):
			err := fmt.Errorf("no name server of %s answered with authority: %s", shownHost(unrooted(zone.name)), p.firstError())
			return p, &exchangeError{failureOf(r.observe(p)), err}
		default:
			return p, nil
		}
	}
	return nil, errTooDeep
}

// collect stores what counts in a disproof even if a referral of other servers is followed.
func (r *resolution) collect(p *zonePoll, follow bool) {
	r.contradiction = cmp.Or(r.contradiction, p.contradiction())
	if follow {
		r.sightings = append(r.sightings, r.present(p)...)
	}
}

// present returns the observations of the token.
func (r *resolution) present(p *zonePoll) []Observation {
	return slices.DeleteFunc(r.observe(p), func(o Observation) bool { return o.State != Present })
}

// recordReach records whether name servers can be reached, and removes a zone whose servers
// all failed from the cache.
func (r *resolution) recordReach(ctx context.Context, p *zonePoll) {
	if p.any(serverAnswer.isUseful) {
		r.reach.answered(time.Now())
		return
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeUp) || p.spent() {
		return // the caller gave up
	}
	r.delegations.forget(p.zone.name)
	queried := func(a serverAnswer) bool { return a.observation.Address != "" }
	if dns.CountLabel(p.zone.name) == 1 && p.any(queried) {
		why := "cannot be reached: is port 53 outwards open?"
		if p.any(serverAnswer.isLame) {
			why = "cannot be reached: another server answers in their place: port 53 is redirected on the way."
		}
		r.unreachable = r.reach.silent(time.Now(), "the name servers of "+shownHost(unrooted(p.zone.name))+" "+why+" "+p.firstError())
	}
}
