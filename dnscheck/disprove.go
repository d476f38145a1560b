package dnscheck

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Disprove asks whether the token is gone: the question before something is done to who has lost it. All resolvers and, in
// ModeAuto and ModeAuthority, all of the zone's name servers are asked and waited for; the latter are looked for from the
// top-level domain down, whatever is remembered of them.
//
// Present if anybody at all sees the token. Absent only if nobody does, nobody's answer is a contradiction, the name servers
// say no as for a look, and so does a quorum of the resolvers, of two perspectives if any is named; one without a vote does
// not count. The resolvers decide alone only in ModeResolvers, and in ModeAuto where no name server at all can be reached
// from here, which takes more to be believed than for a look. Otherwise Unknown.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Disprove(ctx context.Context, host, token string) (Verdict, error) {
	if err := checkAsked(ctx, host, token); err != nil {
		return Verdict{}, err
	}
	d := disproof{byServers: c.authority != nil}
	var asking sync.WaitGroup
	var serversErr error
	if d.byServers {
		asking.Go(func() { d.servers, serversErr = c.authority.consult(ctx, host, token, forDisproof, c.config.Observe) })
	}
	var err error
	d.resolvers, err = c.strictly().poll(ctx, host, token, tally.heardOut)
	asking.Wait()
	if err = cmp.Or(err, serversErr); err != nil {
		return Verdict{}, err
	}
	if d.servers.shut && c.config.Mode == ModeAuto {
		d.byServers = false
	}
	v := d.verdict()
	v.Quorum, v.Resolvers = c.quorum, len(c.resolvers)
	return v, nil
}

// strictly is the same Checker, whose resolvers have to say by which zone's word there is nothing.
func (c *Checker) strictly() *Checker {
	strict := *c
	strict.resolvers = slices.Clone(c.resolvers)
	for i := range strict.resolvers {
		strict.resolvers[i].strict = true
	}
	return &strict
}

// heardOut is the rule of Disprove for the resolvers: all are waited for.
func (t tally) heardOut() (State, bool) {
	switch {
	case t.present > 0:
		return Present, t.pending == 0
	case t.absent >= t.quorum && (!t.span || t.absentIn.several):
		return Absent, t.pending == 0
	}
	return Unknown, t.pending == 0
}

// disproof is what was heard of a token that seems to be gone.
type disproof struct {
	resolvers Verdict // by heardOut
	servers   word
	byServers bool // a no needs theirs
}

// verdict joins the resolvers' word with the name servers'.
func (d disproof) verdict() Verdict {
	v := d.servers.Verdict
	v.Host, v.Observations = d.resolvers.Host, slices.Concat(v.Observations, d.resolvers.Observations)
	v.State, v.Reason, v.Basis = d.finding()
	if v.State != Present {
		v.NegativeTTL = longestTTL(v.Observations)
	}
	return v
}

func (d disproof) finding() (State, Reason, Basis) {
	seen, byServers := d.resolvers.State == Present, d.servers.State == Present
	switch {
	case seen && byServers:
		return Present, ReasonFound, ByBoth
	case seen:
		return Present, ReasonFound, ByResolvers
	case byServers:
		return Present, ReasonFound, ByAuthority
	}
	doubts := make(map[Reason]int)
	basis := ByResolvers
	if d.byServers {
		basis = ByBoth
		if d.servers.State != Absent {
			doubts[d.servers.Reason]++
		}
	}
	contradicted := slices.ContainsFunc(d.resolvers.Observations, Observation.isContradiction)
	if d.resolvers.State != Absent || contradicted {
		for _, o := range d.resolvers.Observations {
			if o.State == Unknown {
				doubts[o.Reason]++
			}
		}
	}
	if len(doubts) == 0 {
		return Absent, d.resolvers.Reason, basis
	}
	reason := firstOf(doubts, doubtful...)
	if d.byServers && d.servers.State != Absent && reason == d.servers.Reason {
		basis = ByAuthority
	}
	return Unknown, reason, basis
}

// isContradiction tells an answer that was read and speaks against itself, or against what was signed, from one that is missing: who
// gives it has seen something there that nobody can be sure of.
func (o Observation) isContradiction() bool {
	switch o.Reason {
	case ReasonAlias, ReasonDNSSEC:
		return true
	case ReasonMalformed:
		return o.RCode != ""
	}
	return false
}
