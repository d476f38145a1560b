package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"orgops/dnscheck/dnsname"
)

// Check checks whether a proof is worth trying. It returns as soon as the result is clear.
//
// In ModeAuthority the zone's name servers decide: Present if all that answer have the token;
// Absent if all that answer deny it, and they are a majority. In ModeResolvers the resolvers do:
// Present if at least one sees the token; Absent if a quorum denies it.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Check(ctx context.Context, host, token string) (Verdict, error) {
	q := question{host: host, token: token, observe: c.config.Observe}
	if err := q.validate(ctx); err != nil {
		return Verdict{}, err
	}
	if c.authority != nil {
		return c.askServers(ctx, q)
	}
	answers, err := c.ask(ctx, q, c.resolvers, func(t tally) bool {
		return t.present.count > 0 || t.absent.count >= c.quorum
	})
	if err != nil {
		return Verdict{}, err
	}
	v := c.verdict(host)
	v.Observations = answers
	switch t := count(answers); {
	case t.present.count > 0:
		v.State = Present
		v.Reason = ReasonFound
	case t.absent.count >= c.quorum:
		v.State = Absent
		v.Reason = reasonOf(Absent, answers)
		v.NegativeTTL = longestNegativeTTL(answers)
	case t.bogus > 0:
		v.Reason = ReasonDNSSEC
	default:
		v.Reason = reasonOf(Unknown, answers)
	}
	return v, nil
}

// verdict returns a verdict by the resolvers that is not known yet.
func (c *Checker) verdict(host string) Verdict {
	return Verdict{Host: host, Basis: ByResolvers, Quorum: c.quorum, Resolvers: len(c.resolvers)}
}

// askServers returns the verdict of a check by the zone's name servers. One with the token is
// enough: a proof follows. A denial counts if a majority answered, here and in the zones of aliases
// on the way.
func (c *Checker) askServers(ctx context.Context, q question) (Verdict, error) {
	v := c.verdict(q.host)
	v.Basis = ByAuthority
	limited, cancel := context.WithTimeoutCause(ctx, checkTime, errTimeUp)
	defer cancel()
	w := c.authority.walk(q)
	var sightings []Observation // of the token, at servers above a zone that others refer to
	majority := true

	// Each round queries the servers of one zone, from the top-level domain down, until they give a
	// reason.
	for v.Reason == "" {
		p, err := w.ask(limited)
		if ctx.Err() != nil {
			return Verdict{}, contextError(ctx, q.host)
		}
		v.noteServers(w, p, err)
		if errors.Is(err, errDenied) {
			v.rootDenies(majority)
			break
		}
		if err != nil {
			v.Reason = exchangeFailure(err).reason
			v.Note = err.Error()
			break
		}

		// They refer to a zone below.
		if down := p.delegation(); down != nil && !p.disagree() {
			if p.cut != nil { // servers that have the token may hold the zone below, too
				sightings = append(sightings, present(v.Observations)...)
			}
			w.enter(down)
			continue
		}

		// They answer for the host. A check needs no majority for a yes: the proof does.
		majority = majority && p.majority(serverAnswer.definite)
		switch yes, no, _, aliases := p.kinds(); {
		case p.disagree():
			v.Reason = ReasonServersDisagree
		case len(aliases) > 0:
			if err := w.follow(aliases[0]); err != nil {
				v.Reason = ReasonAlias
				v.Note = err.Error()
			}
		case yes:
			v.State = Present
			v.Reason = ReasonFound
		case len(sightings) > 0: // it is not absent
			v.Reason = ReasonServersDisagree
		case no && majority:
			v.State = Absent
			v.Reason = reasonOf(Absent, v.Observations)
		case no && !p.zone.isCut():
			v.Reason = failureOf(v.Observations)
			v.Note = v.few()
		case !no && p.majority(serverAnswer.isUseful): // they do not agree
			v.Reason = ReasonServersDisagree
		default:
			v.Reason = p.shortage()
			v.Note = v.few()
		}
	}
	if v.Reason == ReasonServersDisagree {
		v.Observations = slices.Concat(sightings, v.Observations)
	}
	q.report(&v)
	return v, nil
}

// noteServers sets what the servers of a zone have answered. Without a poll none was queried. If
// the root denies an alias's top-level domain, the alias is the last answer.
func (v *Verdict) noteServers(w *walk, p *zonePoll, err error) {
	if errors.Is(err, errDenied) {
		for i, o := range v.Observations {
			if o.Reason == ReasonAlias && o.Err == "" {
				v.Observations[i].State = Absent
				v.Observations[i].Reason = ReasonNoName
			}
		}
		return
	}
	v.Operator = w.operator
	v.Observations = w.observe(p)
	v.Zone = ""
	v.Servers = 0
	v.Answered = 0
	if len(w.path.targets) == 0 && w.zone.operator != "" {
		v.HostZone = Zone{dnsname.Unrooted(w.zone.name), nil}
		for _, server := range w.zone.servers {
			v.HostZone.Servers = append(v.HostZone.Servers, dnsname.Unrooted(server.name))
		}
		slices.Sort(v.HostZone.Servers)
	}
	if p != nil && p.any(serverAnswer.isUseful) {
		v.Zone = dnsname.Shown(dnsname.Unrooted(p.zone.name))
		v.Servers = p.zone.named
		v.Answered = p.answered()
	}
}

// rootDenies sets the result after the root has denied a top-level domain, to which most servers
// led, or not.
func (v *Verdict) rootDenies(most bool) {
	v.State = Absent
	v.Reason = ReasonNoName
	if !most {
		v.State = Unknown
		v.Reason = ReasonTooFew
		v.Note = v.few()
	}
}

func (v *Verdict) few() string {
	return fmt.Sprintf("%d of the %d name servers of %s have answered", v.Answered, v.Servers, v.Zone)
}

// report reports the observations of name servers, and leaves out those that are too many.
func (q question) report(v *Verdict) {
	if q.observe != nil {
		for _, o := range v.Observations {
			q.observe(o)
		}
	}
	v.Observations = v.Observations[:min(len(v.Observations), maxServerObservations)]
}

// ask queries these resolvers, all at once, until each has answered, or the answers are enough. It
// returns the observations in the resolvers' order, without those that are pending.
func (c *Checker) ask(ctx context.Context, q question, resolvers []resolverClient,
	enough func(tally) bool) ([]Observation, error) {
	type result struct {
		resolver int
		Observation
	}
	limited, cancel := context.WithCancel(ctx)
	var queries sync.WaitGroup
	defer queries.Wait() // after cancel
	defer cancel()
	results := make(chan result, len(resolvers)) // never blocks
	for i, r := range resolvers {
		queries.Go(func() { results <- result{i, r.queryToken(limited, q)} })
	}
	observations := make([]Observation, len(resolvers))
	for range resolvers {
		r := <-results
		if ctx.Err() != nil {
			return nil, contextError(ctx, q.host)
		}
		observations[r.resolver] = r.Observation
		if q.observe != nil {
			q.observe(r.Observation)
		}
		if enough != nil && enough(count(observations)) {
			break
		}
	}
	return slices.DeleteFunc(observations, func(o Observation) bool { return o.Reason == "" }), nil
}

type tally struct {
	present, absent votes
	authenticated   int   // present or absent, with AD
	confirmed       votes // those of them with the token
	bogus           int
}

func count(observations []Observation) (t tally) {
	for _, o := range observations {
		if o.Reason == ReasonDNSSEC {
			t.bogus++
		}
		if o.Authenticated && o.State != Unknown {
			t.authenticated++
		}
		switch o.State {
		case Present:
			t.present.add(o.Perspective)
			if o.Authenticated {
				t.confirmed.add(o.Perspective)
			}
		case Absent:
			t.absent.add(o.Perspective)
		}
	}
	return t
}

func longestNegativeTTL(observations []Observation) (ttl time.Duration) {
	for _, o := range observations {
		ttl = max(ttl, o.NegativeTTL)
	}
	return ttl
}

func present(observations []Observation) []Observation {
	return slices.DeleteFunc(slices.Clone(observations), func(o Observation) bool { return o.State != Present })
}

func presentFirst(a, b Observation) int { return cmp.Compare(b.State, a.State) }
