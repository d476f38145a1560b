package dnscheck

import (
	"context"
	"sync"
)

// Prove checks whether the token may be acted upon. It waits for each resolver, because the
// last one may be a veto.
//
// By the resolvers: Present if a quorum sees the token; Absent if a quorum denies it;
// ReasonDisagree if some see it and others deny it. Nothing is proven
//   - by a single resolver (ReasonTooFewResolvers)
//   - if any resolver finds the answer bogus (ReasonDNSSEC)
//   - by answers that are not authenticated if any answer is (ReasonUnconfirmed), or with
//     Config.RequireDNSSEC (ReasonUnsigned); so a forged AD can only prevent a proof
//   - from one perspective if any is named (ReasonOnePerspective)
//
// In the other modes the zone's name servers come first. The resolvers are queried only if
// these have the token, or if, in ModeAuto, no name server at all can be reached
// (ReasonUnprotected if too few resolvers are over HTTPS): they must not cache a
// negative answer, nor override a denial. Until a quorum of them sees the token, too, the
// result is ReasonLag.
//
// Config.RefuseAliases refuses a proof in which an alias leads out of the registered domain
// (ReasonAliasOut).
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Prove(ctx context.Context, host, token string) (Verdict, error) {
	q := c.question(host, token, forProof)
	v, err := c.evaluate(ctx, q)
	if err == nil && v.State == Present {
		v, err = c.detectBogus(ctx, v, q)
	}
	// Others may be able to register the target of a dangling alias, and publish the token there.
	if _, _, out := v.AliasOut(); err == nil && v.State == Present && c.config.RefuseAliases && out {
		v = v.refused(ReasonAliasOut)
	}
	return v, err
}

// detectBogus turns a proof into Unknown with ReasonDNSSEC if a resolver that returned
// SERVFAIL answers with CD set, checking disabled (RFC 4035 section 3.2.2): it found the
// answer bogus. Some resolvers, BIND 9.18 among them, give no reason (RFC 8914).
func (c *Checker) detectBogus(ctx context.Context, proof Verdict, q question) (Verdict, error) {
	q.checkingDisabled = true
	bogus := make([]bool, len(proof.Observations))
	var queries sync.WaitGroup
	for i, o := range proof.Observations {
		if o.Authority || o.Reason != ReasonServFail {
			continue
		}
		for _, r := range c.resolvers {
			if r.resolver.Name == o.Resolver {
				queries.Go(func() { bogus[i] = r.queryToken(ctx, q).State != Unknown })
			}
		}
	}
	queries.Wait()
	if ctx.Err() != nil {
		return Verdict{}, contextError(ctx, q.host)
	}
	for i := range bogus {
		if bogus[i] {
			proof = proof.refused(ReasonDNSSEC)
			proof.Observations[i].Reason, proof.Observations[i].Err = ReasonDNSSEC, "SERVFAIL, and an answer where checking is disabled (CD)"
		}
	}
	return proof, nil
}

func (v Verdict) refused(why Reason) Verdict {
	v.State, v.Reason = Unknown, why
	return v
}
