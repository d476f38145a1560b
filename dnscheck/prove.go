package dnscheck

import (
	"context"
	"slices"
	"strings"
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
// (ReasonUnprotected if too few resolvers are over TLS or HTTPS): they must not cache a
// negative answer, nor override a denial. Until a quorum of them sees the token, too, the
// result is ReasonLag.
//
// Config.RefuseAliases and Config.RefuseWildcards refuse a proof in which an alias or a
// wildcard leads to the token (ReasonAliasOut, ReasonWildcard, ReasonWildcardUnsure).
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Prove(ctx context.Context, host, token string) (Verdict, error) {
	q := c.question(host, token, forProof)
	v, err := c.evaluate(ctx, q)
	if err == nil && v.State == Present {
		v, err = c.detectBogus(ctx, v, q)
	}
	if err == nil && v.State == Present {
		v, err = c.refuse(ctx, v, q)
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

// refuse applies Config.RefuseAliases and Config.RefuseWildcards: others may be able to
// register the target of a dangling alias, and publish the token there. A refused proof is
// Unknown, never Absent.
func (c *Checker) refuse(ctx context.Context, proof Verdict, q question) (Verdict, error) {
	if _, _, out := proof.AliasOut(); out && c.config.RefuseAliases {
		return proof.refused(ReasonAliasOut), nil
	}
	if !c.config.RefuseWildcards {
		return proof, nil
	}
	sibling, err := c.querySibling(ctx, proof, q)
	switch {
	case err != nil:
		return Verdict{}, err
	case proof.isLike(sibling):
		return proof.refused(ReasonWildcard), nil
	case sibling.State != Absent:
		proof.Note = strings.TrimPrefix(proof.Note+"; wildcard check: "+sibling.Sentence(), "; ")
		return proof.refused(ReasonWildcardUnsure), nil
	}
	return proof, nil
}

func (v Verdict) refused(why Reason) Verdict {
	v.State, v.Reason = Unknown, why
	return v
}

// querySibling queries the resolvers of the proof for a random name next to the host, with the
// decision of a proof. As the name is not known in advance, no answer can be forged before;
// and a negative answer denies nothing of the host in a resolver's cache (RFC 8020).
//
// A wildcard covers the sibling if it covers the host: the source of both is directly below
// their closest encloser (RFC 4592 section 3.3.1), which is at most their common parent, since
// neither of them exists. A name server can distinguish the two, but its operator can publish
// the token at the host as well. The wildcards of an alias's target are its owner's.
func (c *Checker) querySibling(ctx context.Context, proof Verdict, q question) (Verdict, error) {
	q.host, q.observe = siblingOf(proof.Host), nil
	if CheckHost(q.host) != nil { // too long
		return Verdict{Host: q.host}, nil
	}
	voters := c
	if c.authority != nil && proof.Basis == ByResolvers {
		voters = c.encryptedOnly()
	}
	return voters.poll(ctx, q)
}

// siblingOf returns a random name with the host's parent. It begins with an underscore if the
// host does, since some zones treat such names differently.
func siblingOf(host string) string {
	const length = 20 // of the label: too long to exist, or to be guessed
	label, parent, _ := strings.Cut(host, ".")
	random := canaryName()[:length]
	if strings.HasPrefix(label, "_") {
		random = "_" + random[1:]
	}
	return random + "." + parent
}

// isLike reports whether the host and the sibling may have the same record. An alias of both
// may lead to different answers.
func (v Verdict) isLike(sibling Verdict) bool {
	aliased := slices.ContainsFunc(v.Observations, Observation.isAliased)
	return slices.ContainsFunc(sibling.Observations, func(o Observation) bool { return o.State == Present || aliased && o.isAliased() })
}

func (o Observation) isAliased() bool { return len(o.Aliases) > 0 || o.Reason == ReasonAlias }
