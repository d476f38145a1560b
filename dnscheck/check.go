package dnscheck

import (
	"context"
	"fmt"
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
	return c.evaluate(ctx, question{host, token, forCheck}, tally.check)
}

// question is a host, the token that should be there, and the purpose of the answer.
type question struct {
	host, token string
	purpose     purpose
}

type purpose int

const (
	forCheck purpose = iota
	forProof
	forDisproof
)

// validate returns a *QuestionError, or the context's error.
func (q question) validate(ctx context.Context) error {
	if err := CheckHost(q.host); err != nil {
		return err
	}
	if q.token == "" {
		return &QuestionError{Host: q.host, Problem: "the token is empty: any answer would match"}
	}
	if ctx.Err() != nil {
		return contextError(ctx, q.host)
	}
	return nil
}

func contextError(ctx context.Context, host string) error {
	return fmt.Errorf("check the TXT record at %s: %w", shownHost(host), ctx.Err())
}

// decision returns the state that a tally of resolvers amounts to, and whether pending ones
// could change it.
type decision func(tally) (state State, final bool)

func (c *Checker) evaluate(ctx context.Context, q question, decide decision) (v Verdict, err error) {
	if err := q.validate(ctx); err != nil {
		return Verdict{}, err
	}
	if c.authority == nil {
		v, err = c.poll(ctx, q, decide)
	} else {
		v, err = c.evaluateInOrder(ctx, q, decide)
	}
	v.Quorum, v.Resolvers = c.quorum, len(c.resolvers)
	return v, err
}

// evaluateInOrder queries the name servers, and then the resolvers if they can change the
// result. A proof does not let the resolvers override name servers that deny the token, or
// that an attacker may have silenced.
func (c *Checker) evaluateInOrder(ctx context.Context, q question, decide decision) (Verdict, error) {
	servers, err := c.authority.query(ctx, q, c.config.Observe)
	if err != nil {
		return Verdict{}, err
	}
	proof := q.purpose == forProof
	switch {
	case proof && servers.unreachable && c.config.Mode == ModeAuto:
		return c.encryptedOnly().replace(ctx, servers.Verdict, q, decide)
	case !proof && !servers.answered && c.config.Mode == ModeAuto:
		return c.replace(ctx, servers.Verdict, q, decide)
	case proof && servers.State == Present:
		return c.confirm(ctx, servers.Verdict, q, decide)
	case servers.thin && c.config.ThinProofs:
		return c.confirmThin(ctx, servers.Verdict, q, decide)
	}
	return servers.Verdict, nil
}

// encryptedOnly returns the Checker with its resolvers over TLS and HTTPS: an attacker that
// closes or redirects port 53 can forge the answers of the others.
func (c *Checker) encryptedOnly() *Checker {
	fewer := *c
	fewer.resolvers = slices.DeleteFunc(slices.Clone(c.resolvers), func(r resolverClient) bool { return !r.resolver.encrypted() })
	return &fewer
}

// replace lets the resolvers decide in place of name servers that did not answer. There must
// be a quorum of them, in two perspectives if any is named.
func (c *Checker) replace(ctx context.Context, servers Verdict, q question, decide decision) (Verdict, error) {
	var in perspectives
	for _, r := range c.resolvers {
		in.add(r.resolver.perspective())
	}
	if len(c.resolvers) < c.quorum || c.span && !in.several {
		servers.State, servers.Reason, servers.Basis = Unknown, ReasonUnprotected, ByResolvers
		return servers, nil
	}
	v, err := c.poll(ctx, q, decide)
	if err != nil {
		return Verdict{}, err
	}
	v.Operator, v.Note, v.Observations = servers.Operator, servers.Note, append(servers.Observations, v.Observations...)
	return v, nil
}

// confirm lets the resolvers confirm the token that the name servers have. While too few do,
// the resolvers lag: the token is not absent.
func (c *Checker) confirm(ctx context.Context, servers Verdict, q question, decide decision) (Verdict, error) {
	v, err := c.poll(ctx, q, decide)
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

// confirmThin lets the resolvers confirm the token that too few name servers have. Nothing is
// proven by that. The servers that answered must have the token, or the resolvers would cache
// a negative answer.
func (c *Checker) confirmThin(ctx context.Context, servers Verdict, q question, decide decision) (Verdict, error) {
	v, err := c.confirm(ctx, servers, q, decide)
	if err != nil {
		return Verdict{}, err
	}
	denies := func(o Observation) bool { return !o.Authority && o.State != Present }
	note := servers.Note
	if v.State != Present || slices.ContainsFunc(v.Observations, denies) {
		note += "; the resolvers: " + v.Plain()
	} else {
		if v, err = c.refuse(ctx, v, q); err != nil || v.State != Present {
			return v, err
		}
		v.Thin = true
	}
	v.State, v.Reason, v.Note = Unknown, ReasonTooFew, note
	return v, nil
}

// poll queries the resolvers until the decision is final.
func (c *Checker) poll(ctx context.Context, q question, decide decision) (Verdict, error) {
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
		queries.Go(func() { results <- result{i, r.observe(limited, q.host, q.token)} })
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
		if c.config.Observe != nil {
			c.config.Observe(r.Observation)
		}
		if state, final := decide(count); final {
			return count.verdict(state, q.host, observations), nil
		}
	}
}

// quiet returns the Checker without Config.Observe.
func (c *Checker) quiet() *Checker {
	quiet := *c
	quiet.config.Observe = nil
	return &quiet
}
