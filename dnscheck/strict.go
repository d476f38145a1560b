package dnscheck

import (
	"context"
	"slices"
	"strings"
)

// A dangling alias is a takeover: whoever registers its target publishes the token there. So Config.RefuseAliases and
// Config.RefuseWildcards refuse proofs through what may be one. A verdict that is refused is Unknown, never Absent: the token is there.

// refused is a proof as these settings leave it.
func (c *Checker) refused(ctx context.Context, proven Verdict, token string) (Verdict, error) {
	if _, _, out := proven.AliasOut(); out && c.config.RefuseAliases {
		return proven.doubted(ReasonAliasOut), nil
	}
	if !c.config.RefuseWildcards {
		return proven, nil
	}
	sibling, err := c.sibling(ctx, proven, token)
	switch {
	case err != nil:
		return Verdict{}, err
	case proven.isLike(sibling):
		return proven.doubted(ReasonWildcard), nil
	case sibling.State != Absent:
		proven.Note = strings.TrimPrefix(proven.Note+"; wildcard check: "+sibling.Sentence(), "; ")
		return proven.doubted(ReasonWildcardUnsure), nil
	}
	return proven, nil
}

func (v Verdict) doubted(why Reason) Verdict {
	v.State, v.Reason = Unknown, why
	return v
}

// AliasOut returns the first alias (CNAME or DNAME) by which the token was seen outside of the domain that a registry has let
// register for the host: a name, and the target that it leads to. One resolver, or name server, that went there is enough. False:
// none did.
func (v Verdict) AliasOut() (name, target string, out bool) {
	own := registered(unrooted(v.Host))
	for _, o := range v.Observations {
		if o.State != Present {
			continue
		}
		name = v.Host
		for _, target = range o.Aliases {
			// An escaped dot does not separate labels, and would look as if it did.
			if own == "" || strings.Contains(target, `\`) || registered(target) != own {
				return name, target, true
			}
			name = target
		}
	}
	return "", "", false
}

// siblingLabel is the length of a sibling's first label in bytes: too long to be guessed, or to exist.
const siblingLabel = 20

// siblingOf is a random name with the host's parent. It begins with an underscore if the host does, as there are zones that treat
// such names differently.
func siblingOf(host string) string {
	label, parent, _ := strings.Cut(host, ".")
	random := canaryName()[:siblingLabel]
	if strings.HasPrefix(label, "_") {
		random = "_" + random[1:]
	}
	return random + "." + parent
}

// sibling asks the resolvers that have proven the host for its sibling, by the rule of a proof: Absent takes a quorum, and that none
// finds the signatures bogus; perspectives do not matter, for a wildcard that is not seen proves nothing. Nobody knows the name before it is asked for, so that no answer can be forged in advance.
//
// A wildcard covers the sibling if it covers the host: the source of both is the wildcard right beneath the closest encloser (RFC 4592
// section 3.3.1), the longest existing name above them. That is no longer than their common parent, for neither of them exists. So
// the first label is enough. A name server that answers by the name that is asked for can tell them apart; but its operator can
// publish the token at the host as well. A wildcard that the target of an alias stands by is not looked for: it is the target's
// owner's.
//
// The sibling's no denies nothing of the host in a resolver's cache: it is of a name next to it (RFC 8020).
func (c *Checker) sibling(ctx context.Context, proven Verdict, token string) (Verdict, error) {
	name := siblingOf(proven.Host)
	if CheckHost(name) != nil { // too long
		return Verdict{Host: name}, nil
	}
	voters := c
	if c.authority != nil && proven.Basis == ByResolvers {
		voters = c.protected()
	}
	return voters.quiet().poll(ctx, name, token, tally.proved)
}

// isLike reports whether the host and the sibling have the same record. An alias of both may lead to another answer each time.
func (v Verdict) isLike(sibling Verdict) bool {
	aliased := slices.ContainsFunc(v.Observations, Observation.isAliased)
	return slices.ContainsFunc(sibling.Observations, func(o Observation) bool { return o.State == Present || aliased && o.isAliased() })
}

func (o Observation) isAliased() bool { return len(o.Aliases) > 0 || o.Reason == ReasonAlias }
