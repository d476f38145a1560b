package dnscheck

import (
	"context"
	"fmt"
	"net/netip"
)

// Mode says who is asked.
type Mode int

// The modes.
const (
	ModeResolvers Mode = iota // the resolvers alone
	ModeAuto                  // the zone's name servers, and the resolvers where those have nothing to say or cannot be reached; a proof needs both
	ModeAuthority             // the same, and Unknown where they have nothing to say
)

// String is "resolvers", "auto" or "authority".
func (m Mode) String() string {
	switch m {
	case ModeAuto:
		return "auto"
	case ModeAuthority:
		return "authority"
	default:
		return "resolvers"
	}
}

// ParseMode reads what String writes.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{ModeAuto, ModeAuthority, ModeResolvers} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("dns mode %s: want auto, authority or resolvers", shown(s, 20))
}

// take sets up the view of the name servers if the mode wants it.
func (c *Checker) take(from Config, d dialer) error {
	if from.Mode < ModeResolvers || from.Mode > ModeAuthority {
		return fmt.Errorf("dns mode %d: there is none", from.Mode)
	}
	if c.mode = from.Mode; c.mode == ModeResolvers {
		return nil
	}
	a := &authority{
		panel: c.panel, exchange: newExchange(d, min(from.Timeout, authorityAttempt)), port: from.NameServerPort, anyAddress: from.AnyNameServer,
		cuts: newMemory[delegation](), hosts: newMemory[[]netip.Addr](), reach: reach{told: from.Reach},
	}
	if a.port == 0 {
		a.port = defaultPort
	}
	c.authority = a
	return nil
}

// judgeByAuthority asks the name servers first, and the resolvers if there is still something to ask.
func (c *Checker) judgeByAuthority(ctx context.Context, host, token string, decide rule, proof bool) (Verdict, error) {
	w, err := c.authority.consult(ctx, host, token, c.told)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{State: w.state, Reason: w.reason, Host: host, Basis: ByAuthority, Operator: w.operator, Note: w.note, Observations: w.observations}
	switch {
	case !w.heard && c.mode == ModeAuto:
		return c.instead(ctx, v, token, decide)
	case proof && w.state == Present:
		return c.both(ctx, v, token, decide)
	}
	return v, nil
}

// instead asks the resolvers in place of name servers that have said nothing.
func (c *Checker) instead(ctx context.Context, unheard Verdict, token string, decide rule) (Verdict, error) {
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
	for _, o := range v.Observations {
		v.NegativeTTL = max(v.NegativeTTL, o.NegativeTTL)
	}
	if v.State == Absent || v.Reason == ReasonDisagree {
		v.State, v.Reason = Unknown, ReasonLag
	}
	v.Basis, v.Operator, v.Observations = ByBoth, said.Operator, append(said.Observations, v.Observations...)
	return v, nil
}
