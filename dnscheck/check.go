package dnscheck

import (
	"context"
	"slices"
	"sync"
)

// Check checks whether a proof is worth trying. It returns as soon as the result is clear.
//
// By the resolvers: Present if at least one sees the token; Absent if a quorum denies it. By
// the zone's name servers ([ModeAuto], [ModeAuthority]): Present if all that answer have the
// token; Absent if all that answer deny it, and they are a majority. In ModeAuto the
// resolvers decide if no name server answers.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Check(ctx context.Context, host, token string) (Verdict, error) {
	return c.evaluate(ctx, c.question(host, token, forCheck))
}

// decisions return the state that a tally of resolvers amounts to for a purpose, and whether it
// is final, so that pending ones could not change it.
var decisions = [...]func(tally) (state State, final bool){
	forCheck: tally.check, forAdvice: tally.majority, forProof: tally.proof, forDisproof: tally.disproof,
}

func (c *Checker) question(host, token string, purpose purpose) question {
	return question{host: host, token: token, purpose: purpose, observe: c.config.Observe}
}

func (c *Checker) evaluate(ctx context.Context, q question) (v Verdict, err error) {
	if err := q.validate(ctx); err != nil {
		return Verdict{}, err
	}
	switch {
	case q.purpose == forDisproof:
		v, err = c.disprove(ctx, q)
	case c.authority == nil:
		v, err = c.poll(ctx, q)
	default:
		v, err = c.evaluateInOrder(ctx, q)
	}
	v.Quorum, v.Resolvers = c.quorum, len(c.resolvers)
	return v, err
}

// evaluateInOrder queries the name servers, and then the resolvers if they can change the
// result. A proof does not let the resolvers override name servers that deny the token, or
// that an attacker may have silenced.
func (c *Checker) evaluateInOrder(ctx context.Context, q question) (Verdict, error) {
	servers, err := c.authority.query(ctx, q)
	if err != nil {
		return Verdict{}, err
	}
	proof := q.purpose == forProof
	switch {
	case proof && servers.unreachable && c.config.Mode == ModeAuto:
		return c.encryptedOnly().replace(ctx, servers.Verdict, q)
	case !proof && !servers.answered && c.config.Mode == ModeAuto:
		return c.replace(ctx, servers.Verdict, q)
	case proof && servers.State == Present:
		return c.confirm(ctx, servers.Verdict, q)
	}
	return servers.Verdict, nil
}

// encryptedOnly returns the Checker with its resolvers over HTTPS: an attacker that
// closes or redirects port 53 can forge the answers of the others.
func (c *Checker) encryptedOnly() *Checker {
	fewer := *c
	fewer.resolvers = slices.DeleteFunc(slices.Clone(c.resolvers), func(r resolverClient) bool { return !r.resolver.encrypted() })
	return &fewer
}

// replace lets the resolvers decide in place of name servers that did not answer. There must
// be a quorum of them, in two perspectives if any is named.
func (c *Checker) replace(ctx context.Context, servers Verdict, q question) (Verdict, error) {
	var in votes
	for _, r := range c.resolvers {
		in.add(r.resolver.perspective())
	}
	if len(c.resolvers) < c.quorum || c.span && !in.several {
		servers.State, servers.Reason, servers.Basis = Unknown, ReasonUnprotected, ByResolvers
		return servers, nil
	}
	v, err := c.poll(ctx, q)
	if err != nil {
		return Verdict{}, err
	}
	v.Operator, v.Note, v.Observations = servers.Operator, servers.Note, append(servers.Observations, v.Observations...)
	return v, nil
}

// confirm lets the resolvers confirm the token that the name servers have. While too few do,
// the resolvers lag: the token is not absent.
func (c *Checker) confirm(ctx context.Context, servers Verdict, q question) (Verdict, error) {
	v, err := c.poll(ctx, q)
	if err != nil {
		return Verdict{}, err
	}
	v.NegativeTTL = longestNegativeTTL(v.Observations)
	if v.State == Absent || v.Reason == ReasonDisagree {
		v.State, v.Reason = Unknown, ReasonLag
	}
	v.Basis, v.Operator, v.Observations = ByBoth, servers.Operator, append(servers.Observations, v.Observations...)
	v.Zone, v.Servers, v.Answered = servers.Zone, servers.Servers, servers.Answered
	return v, nil
}

// poll queries the resolvers until the decision is final.
func (c *Checker) poll(ctx context.Context, q question) (Verdict, error) {
	type result struct {
		resolver int
		Observation
	}
	limited, cancel := context.WithCancel(ctx)
	var queries sync.WaitGroup
	defer queries.Wait() // after cancel
	defer cancel()
	results := make(chan result, len(c.resolvers)) // never blocks
	for i, r := range c.resolvers {
		queries.Go(func() { results <- result{i, r.queryToken(limited, q)} })
	}
	observations := make([]Observation, len(c.resolvers))
	count := tally{quorum: c.quorum, span: c.span, required: c.config.RequireDNSSEC, pending: len(c.resolvers)}
	for {
		r := <-results
		if ctx.Err() != nil {
			return Verdict{}, contextError(ctx, q.host)
		}
		observations[r.resolver] = r.Observation
		count.add(r.Observation)
		if q.observe != nil {
			q.observe(r.Observation)
		}
		if state, final := decisions[q.purpose](count); final {
			return count.verdict(state, q.host, observations), nil
		}
	}
}
