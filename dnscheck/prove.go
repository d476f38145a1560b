package dnscheck

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// Prove checks whether the token may be acted upon. A false Present gives an organization the
// logins of a foreign domain, so that every doubt makes the result Unknown, with its Reason. The
// rule:
//
// From the registry down all servers of each zone are asked (at most 16, of at most 31), and more
// than half of all of them have to give the same delegation, the same glue, the same alias, the
// same token. In a zone that may hold the token or an alias, every server is waited for until it
// has answered or failed, and one that denies what the others give prevents the proof. Then the
// resolvers are asked, each of which is waited for, and a quorum of them has to see the token as
// well.
//
// The resolvers are not asked before, since they would cache a negative answer; nor do they
// override a denial. Where perspectives are named, each has one vote, by more than half of its
// resolvers: this machine's has to see the token, and of the others all of one or two, all but
// one of three to five, all but two of six; one that denies it is a veto. One resolver that finds
// the answer bogus is a veto. If any answer is authenticated (AD), or Config.RequireDNSSEC is
// set, only authenticated ones count; so a forged AD can only prevent a proof. A single resolver
// proves nothing.
//
// If aliases lead out of the registered domain, those within it have to be of their name alone:
// where nobody has published anything, a wildcard would let the owner of its target prove the
// domain. [ModeResolvers] has only what concerns the resolvers.
//
// Its Present has a [Proof], which no other verdict has. The error is a *QuestionError, or the
// context's own, wrapped.
func (c *Checker) Prove(ctx context.Context, host, token string) (Verdict, error) {
	q := question{host: host, token: token, waits: true, observe: c.config.Observe}
	if err := q.validate(ctx); err != nil {
		return Verdict{}, err
	}
	v := c.verdict(host)
	if c.authority != nil {
		v.Basis = ByAuthority
		limited, cancel := context.WithTimeoutCause(ctx, proofTime, errTimeUp)
		defer cancel()
		w := c.authority.walk(q)
		var sightings []Observation // of the token, at servers above a zone that others refer to
		var passed []passedAlias
		for v.Reason == "" {
			p, err := w.ask(limited) // all servers of the zone
			if ctx.Err() != nil {
				return Verdict{}, contextError(ctx, host)
			}
			v.noteServers(w, p, err)
			if errors.Is(err, errDenied) {
				v.State = Absent
				v.Reason = ReasonNoName
				break
			}
			if err != nil {
				v.Reason = exchangeFailure(err).reason
				v.Note = err.Error()
				break
			}
			yes, no, refers, aliases := p.kinds()
			down := p.delegation()
			switch {
			case no && (yes || refers || len(aliases) > 0), len(aliases) > 1, len(aliases) > 0 && (yes || refers):
				v.Reason = ReasonServersDisagree
			case down != nil:
				if p.cut != nil { // servers that have the token may hold the zone below, too
					sightings = append(sightings, present(v.Observations)...)
				}
				w.enter(down)
			case len(aliases) > 0 && p.majority(serverAnswer.isAlias):
				passed = append(passed, passedAlias{p.zone, w.path.name, aliases[0]})
				if err := w.follow(aliases[0]); err != nil {
					v.Reason = ReasonAlias
					v.Note = err.Error()
				}
			case p.majority(serverAnswer.hasToken):
				v.State = Present
				v.Reason = ReasonFound
			case len(sightings) > 0: // it is not absent
				v.Reason = ReasonServersDisagree
			case p.majority(serverAnswer.denies):
				v.State = Absent
				v.Reason = reasonOf(Absent, v.Observations)
			case no && !p.zone.isCut():
				v.Reason = failureOf(v.Observations)
				v.Note = v.few()
			case !no && p.majority(serverAnswer.isUseful): // they do not agree
				v.Reason = ReasonServersDisagree
			default: // an attacker with one server may be able to silence the others
				v.Reason = p.shortage()
				v.Note = v.few()
			}
		}
		if v.Reason == ReasonServersDisagree {
			v.Observations = slices.Concat(sightings, v.Observations)
		}
		// The owner of the target could prove each name below a wildcard alias.
		if _, _, out := v.AliasOut(); v.State == Present && out && !c.config.RefuseAliases {
			for _, alias := range passed {
				if alias.isWithin(host) && !w.isOwn(limited, alias) {
					v.State = Unknown
					v.Reason = ReasonWildcardAlias
				}
			}
		}
		if ctx.Err() != nil {
			return Verdict{}, contextError(ctx, host)
		}
		q.report(&v)
		if v.State != Present {
			return v, nil
		}
		v.Basis = ByBoth
	}

	resolvers := c.resolvers
	if c.authority == nil { // who redirects port 53 would be the whole quorum
		resolvers = slices.DeleteFunc(slices.Clone(resolvers), func(r resolverClient) bool { return r.resolver.InTheClear() })
	}
	answers, err := c.ask(ctx, q, resolvers, nil)
	if err != nil {
		return Verdict{}, err
	}
	if c.enough(count(answers).present) {
		// A resolver that fails, and has an answer where checking is disabled, found it bogus (RFC
		// 4035 section 3.2.2). Some give no reason (RFC 8914), BIND 9.18 among them.
		unchecked := q
		unchecked.checkingDisabled = true
		var queries sync.WaitGroup
		for i, r := range resolvers {
			if o := &answers[i]; o.Reason == ReasonServFail {
				queries.Go(func() {
					if r.queryToken(ctx, unchecked).State != Unknown {
						o.Reason = ReasonDNSSEC
						o.Err = "SERVFAIL, and an answer where checking is disabled (CD)"
					}
				})
			}
		}
		queries.Wait()
		if ctx.Err() != nil {
			return Verdict{}, contextError(ctx, host)
		}
	}
	v.Observations = append(v.Observations, answers...)
	t := count(answers)
	counted := t.present
	if t.authenticated > 0 || c.config.RequireDNSSEC {
		counted = t.confirmed
	}
	_, _, out := v.AliasOut()
	v.State = Unknown
	switch {
	case t.bogus > 0:
		v.Reason = ReasonDNSSEC
	case c.enough(t.absent):
		v.State = Absent
		v.Reason = reasonOf(Absent, answers)
	case c.winsAny(t.present) && (c.winsAny(t.absent) || !c.enough(t.present)): // one perspective is a veto
		v.Reason = ReasonOnePerspective
	case !c.enough(t.present):
		v.Reason = reasonOf(Unknown, answers)
	case len(resolvers) < minResolvers:
		v.Reason = ReasonTooFewResolvers
	case t.authenticated > 0 && !c.enough(counted):
		v.Reason = ReasonUnconfirmed
	case !c.enough(counted):
		v.Reason = ReasonUnsigned
	case out && c.config.RefuseAliases: // others may be able to register the target of a dangling alias
		v.Reason = ReasonAliasOut
	case out && c.authority == nil && !c.ownAliases(ctx, host, resolvers, answers):
		v.Reason = ReasonWildcardAlias
	default:
		v.State = Present
		v.Reason = ReasonFound
	}
	if ctx.Err() != nil {
		return Verdict{}, contextError(ctx, host)
	}
	if v.State == Absent || v.Basis == ByBoth {
		v.NegativeTTL = longestNegativeTTL(answers)
	}
	if v.Basis == ByBoth && (v.State == Absent || v.Reason == ReasonDisagree) { // the name servers have it
		v.State = Unknown
		v.Reason = ReasonLag
	}
	if v.State == Present {
		v.proven = record{host, token}
	}
	return v, nil
}

// Disprove checks whether the token is gone, before an action against its owner. A false Absent
// locks a rightful owner out, so that one sighting of the token is Present, and every doubt is
// Unknown.
//
// It queries, and waits for, all resolvers and, in ModeAuthority, all of the zone's name servers,
// which it finds from the registry down by the rule of a proof, without cached delegations. Absent
// needs a majority of the name servers of each zone and a quorum of the resolvers, by perspectives
// if any is named. A negative answer of a resolver must have the zone's SOA record.
// No answer may contradict itself or its signature, and no server may be left out because of our
// own limits. The resolvers decide without name servers only in ModeResolvers.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Disprove(ctx context.Context, host, token string) (Verdict, error) {
	q := question{host: host, token: token, waits: true, thorough: true, observe: c.config.Observe}
	if err := q.validate(ctx); err != nil {
		return Verdict{}, err
	}
	v := c.verdict(host)

	// The resolvers are queried meanwhile: whatever the servers say, their answers count.
	var answers []Observation // of the resolvers
	var failed error
	var queries sync.WaitGroup
	queries.Go(func() { answers, failed = c.ask(ctx, q, c.resolvers, nil) })
	defer queries.Wait()

	// The name servers, zone by zone from the top-level domain down. A single one that has the token
	// disproves the absence, wherever it is.
	if c.authority != nil {
		limited, cancel := context.WithTimeoutCause(ctx, proofTime, errTimeUp)
		defer cancel()
		w := c.authority.walk(q)
		var sightings []Observation // of the token, at servers above a zone that others refer to
		var contradiction Reason
		answered := false
		complete := true
		for v.Reason == "" {
			p, err := w.ask(limited) // all servers of the zone
			if ctx.Err() != nil {
				return Verdict{}, contextError(ctx, host)
			}
			v.noteServers(w, p, err)

			// Nothing further down can be queried.
			if errors.Is(err, errDenied) && answered { // an alias leads there: it is not the host's own
				if v.Reason = contradiction; contradiction == "" {
					v.rootDenies(complete)
				}
				break
			}
			if err != nil {
				v.Reason = exchangeFailure(err).reason
				v.Note = err.Error()
				break
			}

			// They refer to a zone below.
			yes, no, _, aliases := p.kinds()
			disagree := p.disagree()
			contradiction = cmp.Or(contradiction, p.contradiction())
			if down := p.delegation(); down != nil && !disagree {
				sightings = append(sightings, present(v.Observations)...)
				w.enter(down)
				continue
			}

			// They answer for the host.
			answered = true
			complete = complete && p.majority(serverAnswer.definite) && !p.incomplete() && !p.zone.isCut()
			switch {
			case yes:
				v.State = Present
				v.Reason = ReasonFound
			case disagree:
				v.Reason = ReasonServersDisagree
			case len(aliases) > 0:
				if err := w.follow(aliases[0]); err != nil {
					v.Reason = ReasonAlias
					v.Note = err.Error()
				}
			case contradiction != "":
				v.Reason = contradiction
			case no && complete:
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
		v.Observations = slices.Concat(sightings, v.Observations)
		if len(sightings) > 0 {
			v.State = Present
		}
		slices.SortStableFunc(v.Observations, presentFirst) // so that none is left out
		q.report(&v)
	}

	queries.Wait()
	if failed != nil {
		return Verdict{}, failed
	}
	v.Observations = append(v.Observations, answers...)
	t := count(answers)
	servers := v.State
	why := v.Reason
	v.Basis = ByResolvers

	// The token is there.
	if t.present.count > 0 || servers == Present {
		switch {
		case t.present.count > 0 && servers == Present:
			v.Basis = ByBoth
		case servers == Present:
			v.Basis = ByAuthority
		}
		v.State = Present
		v.Reason = ReasonFound
		return v, nil
	}

	// It is absent unless something leaves a doubt: the servers did not deny it, a resolver does not
	// know, or too few resolvers deny it.
	v.NegativeTTL = longestNegativeTTL(v.Observations)
	if c.authority != nil {
		v.Basis = ByBoth
	}
	doubts := make(map[Reason]int)
	if c.authority != nil && servers != Absent {
		doubts[why]++
	}
	denied := c.enough(t.absent)
	for _, o := range answers {
		if o.State == Unknown && (!denied || slices.ContainsFunc(answers, Observation.isContradiction)) {
			doubts[o.Reason]++
		}
	}
	if !denied && len(doubts) == 0 {
		doubts[ReasonOnePerspective]++
	}
	if len(doubts) == 0 {
		v.State = Absent
		v.Reason = reasonOf(Absent, answers)
		return v, nil
	}
	v.State = Unknown
	v.Reason = firstOf(doubts, doubtful)
	if c.authority != nil && servers != Absent && v.Reason == why {
		v.Basis = ByAuthority
	}
	return v, nil
}
