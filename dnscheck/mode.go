package dnscheck

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// Mode says who is asked.
type Mode int

// The modes.
const (
	ModeResolvers Mode = iota // the resolvers alone
	// ModeAuto asks the zone's name servers, and for a proof the resolvers too. The resolvers decide alone where no name
	// server can be reached from here, and for a look also where the zone's have nothing to say.
	ModeAuto
	ModeAuthority // the same, and Unknown where they have nothing to say
)

var modes = []string{ModeResolvers: "resolvers", ModeAuto: "auto", ModeAuthority: "authority"}

// String is "resolvers", "auto" or "authority".
func (m Mode) String() string {
	if m < ModeResolvers || m > ModeAuthority {
		return modes[ModeResolvers]
	}
	return modes[m]
}

// ParseMode reads what String writes.
func ParseMode(s string) (Mode, error) {
	m := slices.Index(modes, s)
	if m < 0 {
		return 0, fmt.Errorf("dns mode %s: want auto, authority or resolvers", shown(s, 20))
	}
	return Mode(m), nil
}

// newAuthority sets up the view of the name servers; nil where the mode does not want it.
func newAuthority(c Config, p panel, d dialer) (*authority, error) {
	if c.Mode < ModeResolvers || c.Mode > ModeAuthority {
		return nil, fmt.Errorf("dns mode %d: there is none", c.Mode)
	}
	if c.Mode == ModeResolvers {
		return nil, nil
	}
	return &authority{
		panel: p, exchange: newExchange(d, min(c.Timeout, authorityAttempt)),
		port: cmp.Or(c.NameServerPort, defaultPort), anyAddress: c.AnyNameServer,
		cuts: newMemory[delegation](), hosts: newMemory[[]netip.Addr](), reach: reach{told: c.Reach},
	}, nil
}

// judgeByAuthority asks the name servers first, and the resolvers if there is still something to ask. In a proof a zone's
// servers that deny the token, or that somebody may have silenced, are not overridden by what the resolvers see.
func (c *Checker) judgeByAuthority(ctx context.Context, host, token string, decide rule, purpose purpose) (Verdict, error) {
	proof := purpose == forProof
	w, err := c.authority.consult(ctx, host, token, purpose, c.config.Observe)
	if err != nil {
		return Verdict{}, err
	}
	v := w.Verdict
	switch {
	case proof && w.shut && c.config.Mode == ModeAuto:
		return c.protected().instead(ctx, v, token, decide)
	case !proof && !w.heard && c.config.Mode == ModeAuto:
		return c.instead(ctx, v, token, decide)
	case proof && w.State == Present:
		return c.both(ctx, v, token, decide)
	case w.thin && c.config.ThinProofs:
		return c.thinly(ctx, v, token, decide)
	}
	return v, nil
}

// protected is the same Checker with its resolvers over TLS or HTTPS alone. Whoever closes or redirects port 53 can forge
// the answers of all others.
func (c *Checker) protected() *Checker {
	fewer := *c
	fewer.resolvers = slices.DeleteFunc(slices.Clone(c.resolvers), func(v recursive) bool {
		return v.resolver.Transport != transportTLS && v.resolver.Transport != transportHTTPS
	})
	return &fewer
}

// instead asks the resolvers in place of name servers that have said nothing; of a proof only if those that are protected
// are enough, and in two perspectives where any is named.
func (c *Checker) instead(ctx context.Context, unheard Verdict, token string, decide rule) (Verdict, error) {
	var in perspectives
	for _, v := range c.resolvers {
		in.add(v.resolver.perspective())
	}
	if len(c.resolvers) < c.quorum || c.span && !in.several {
		unheard.State, unheard.Reason, unheard.Basis = Unknown, ReasonUnprotected, ByResolvers
		return unheard, nil
	}
	v, err := c.poll(ctx, unheard.Host, token, decide)
	if err != nil {
		return Verdict{}, err
	}
	v.Operator, v.Note, v.Observations = unheard.Operator, unheard.Note, append(unheard.Observations, v.Observations...)
	return v, nil
}

// both has the resolvers confirm what the name servers have said. As long as too few do, it is the resolvers that are behind:
// nothing is absent that the zone has.
func (c *Checker) both(ctx context.Context, said Verdict, token string, decide rule) (Verdict, error) {
	v, err := c.poll(ctx, said.Host, token, decide)
	if err != nil {
		return Verdict{}, err
	}
	v.NegativeTTL = longestTTL(v.Observations)
	if v.State == Absent || v.Reason == ReasonDisagree {
		v.State, v.Reason = Unknown, ReasonLag
	}
	v.Basis, v.Operator, v.Observations = ByBoth, said.Operator, append(said.Observations, v.Observations...)
	v.Zone, v.Servers, v.Answered = said.Zone, said.Servers, said.Answered
	return v, nil
}

// thinly has the resolvers confirm what too few name servers have said; these must have said yes, or the resolvers would
// begin to remember a no. Nothing is proven by it.
func (c *Checker) thinly(ctx context.Context, said Verdict, token string, decide rule) (Verdict, error) {
	v, err := c.both(ctx, said, token, decide)
	if err != nil {
		return Verdict{}, err
	}
	v.Thin = v.State == Present && !slices.ContainsFunc(v.Observations, func(o Observation) bool { return !o.Authority && o.State != Present })
	if v.Thin {
		if v, err = c.refused(ctx, v, token); err != nil || v.State != Present {
			v.Thin = false
			return v, err
		}
	}
	note := said.Note
	if !v.Thin {
		note += "; the resolvers: " + v.Plain()
	}
	v.State, v.Reason, v.Note = Unknown, ReasonTooFew, note
	return v, nil
}
