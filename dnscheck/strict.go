package dnscheck

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// vetoed returns the proof, or Unknown with ReasonDNSSEC if a resolver that said SERVFAIL returns an answer with CD, checking
// disabled (RFC 4035 section 3.2.2): it has found the answer bogus. Some, BIND 9.18 among them, give no reason (RFC 8914).
func (c *Checker) vetoed(ctx context.Context, proven Verdict, token string) (Verdict, error) {
	withheld := make([]bool, len(proven.Observations))
	var asking sync.WaitGroup
	for i, o := range proven.Observations {
		if o.Authority || o.Reason != ReasonServFail {
			continue
		}
		for _, v := range c.resolvers {
			if v.resolver.Name == o.Resolver {
				v.unchecked = true
				asking.Go(func() {
					withheld[i] = v.see(ctx, proven.Host, token).State != Unknown
				})
			}
		}
	}
	asking.Wait()
	if ctx.Err() != nil {
		return Verdict{}, ended(ctx, proven.Host)
	}
	for i, is := range withheld {
		if is {
			proven = proven.doubted(ReasonDNSSEC)
			proven.Observations[i].Reason, proven.Observations[i].Err = ReasonDNSSEC, "SERVFAIL, and an answer where checking is disabled (CD)"
		}
	}
	return proven, nil
}

// refused is a proof as Config.RefuseAliases and Config.RefuseWildcards leave it: whoever registers the target of a dangling
// alias publishes the token there. One that is refused is Unknown, never Absent: the token is there.
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

// AliasOut returns the first alias (CNAME or DNAME), a name and its target, by which any resolver or name server saw the token
// outside of the domain that a registry has let register for the host. False: none did.
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

// sibling asks the resolvers that have proven the host for its sibling, by the rule of a proof. Nobody knows the name before,
// so that no answer can be forged in advance; its no denies nothing of the host in a resolver's cache (RFC 8020).
//
// A wildcard covers the sibling if it covers the host: the source of both is right beneath their closest encloser (RFC 4592
// section 3.3.1), which is no longer than their common parent, for neither of them exists. A name server can tell the two
// apart; but its operator can publish the token at the host as well. The wildcards of an alias's target are its owner's.
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
