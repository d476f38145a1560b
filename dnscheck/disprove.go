package dnscheck

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Disprove checks whether the token is gone, before an action against its owner. It queries,
// and waits for, all resolvers and, in ModeAuto and ModeAuthority, all of the zone's name
// servers, which it finds from the top-level domain down without cached delegations.
//
// Present if any server has the token. Absent only if none has it and no answer is a
// contradiction, if the name servers deny it as in a check and were all queried, and if a
// quorum of the resolvers denies it, from two perspectives if any is named. The resolvers decide
// without name servers only in ModeResolvers, and in ModeAuto if no name server at all can be
// reached, which needs more evidence than in a check. Otherwise Unknown.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Disprove(ctx context.Context, host, token string) (Verdict, error) {
	return c.evaluate(ctx, c.question(host, token, forDisproof))
}

func (c *Checker) disprove(ctx context.Context, q question) (Verdict, error) {
	d := disproof{needsServers: c.authority != nil}
	var queries sync.WaitGroup
	var serversErr error
	if d.needsServers {
		queries.Go(func() { d.servers, serversErr = c.authority.query(ctx, q) })
	}
	var err error
	d.resolvers, err = c.poll(ctx, q)
	queries.Wait()
	if err = cmp.Or(err, serversErr); err != nil {
		return Verdict{}, err
	}
	if d.servers.unreachable && c.config.Mode == ModeAuto {
		d.needsServers = false
	}
	return d.verdict(), nil
}

type disproof struct {
	resolvers    Verdict // by tally.disproof
	servers      serversVerdict
	needsServers bool // they must deny the token, too
}

func (d disproof) verdict() Verdict {
	v := d.servers.Verdict
	v.Host, v.Observations = d.resolvers.Host, slices.Concat(v.Observations, d.resolvers.Observations)
	v.State, v.Reason, v.Basis = d.result()
	if v.State != Present {
		v.NegativeTTL = longestNegativeTTL(v.Observations)
	}
	return v
}

func (d disproof) result() (State, Reason, Basis) {
	byResolvers, byServers := d.resolvers.State == Present, d.servers.State == Present
	switch {
	case byResolvers && byServers:
		return Present, ReasonFound, ByBoth
	case byResolvers:
		return Present, ReasonFound, ByResolvers
	case byServers:
		return Present, ReasonFound, ByAuthority
	}
	seen := make(map[Reason]int)
	basis := ByResolvers
	if d.needsServers {
		basis = ByBoth
		if d.servers.State != Absent {
			seen[d.servers.Reason]++
		}
	}
	contradicted := slices.ContainsFunc(d.resolvers.Observations, Observation.isContradiction)
	if d.resolvers.State != Absent || contradicted {
		for _, o := range d.resolvers.Observations {
			if o.State == Unknown {
				seen[o.Reason]++
			}
		}
	}
	if len(seen) == 0 {
		return Absent, d.resolvers.Reason, basis
	}
	reason := firstOf(seen, doubts)
	if d.needsServers && d.servers.State != Absent && reason == d.servers.Reason {
		basis = ByAuthority
	}
	return Unknown, reason, basis
}
