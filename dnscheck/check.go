package dnscheck

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// DefaultTimeout is how long one attempt over one transport may take. Public resolvers answer from their cache in
// milliseconds and give up on a dead zone within two or three seconds.
const DefaultTimeout = 3 * time.Second

// Config says whom a Checker asks.
type Config struct {
	Resolvers []Resolver        // at least one, no address twice; perspectives, if any is named: at least two
	Quorum    int               // how many must agree, as QuorumOf takes it; 0: as many as it gives
	Timeout   time.Duration     // of one attempt over one transport; 0: DefaultTimeout
	RootCAs   *x509.CertPool    // for certificates of resolvers over TLS and HTTPS; nil: those that the system trusts
	Observe   func(Observation) // told of each observation that counted, also by several looks at once; nil: nobody

	// CanaryZone is a zone in which no name exists but its own, and which says NXDOMAIN to any other. Each resolver is
	// asked now and then for a random name there: one that has an answer loses its vote till it has none; the quorum
	// stays as it is. One that cannot say keeps its vote. Empty: none is asked.
	CanaryZone string
	// Vote is told when a resolver loses its vote so, and when it has it back; nil: nobody.
	Vote func(resolver string, trusted bool, why string)

	RequireDNSSEC   bool // a proof needs authenticated answers (AD), also where no resolver gives any
	RefuseAliases   bool // no proof through an alias that leads out of the registered domain: see Verdict.AliasOut
	RefuseWildcards bool // no proof by a wildcard; the resolvers are asked for one name more then
	ThinProofs      bool // where too few name servers answer, and those have the token, ask the resolvers: see Verdict.Thin

	Mode           Mode                           // who is asked; 0: the resolvers alone
	Reach          func(reached bool, why string) // told when it changes whether name servers can be reached from here; nil: nobody
	NameServerPort uint16                         // of the zones' name servers; 0: 53
	AnyNameServer  bool                           // also at addresses that are not public unicast: for tests, and a DNS of one's own
}

// Checker looks for verification tokens in the DNS. It remembers zones' name servers, and nothing of what they said; it
// may be used by any number of goroutines.
type Checker struct {
	panel     // the resolvers
	config    Config
	exchange  *exchange
	authority *authority // nil in ModeResolvers
	operators *memory[string]
}

// New makes a Checker, or tells what is wrong with the Config.
func New(c Config) (*Checker, error) {
	if c.Timeout < 0 {
		return nil, fmt.Errorf("dns timeout %s: must not be negative; leave it out to mean %s", c.Timeout, DefaultTimeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return assemble(c, newExchange(&net.Dialer{}, c.Timeout))
}

func assemble(c Config, x *exchange) (*Checker, error) {
	if err := cmp.Or(checkResolvers(c.Resolvers), checkCanaryZone(c.CanaryZone)); err != nil {
		return nil, err
	}
	quorum, err := QuorumOf(c.Quorum, len(c.Resolvers))
	if err != nil {
		return nil, err
	}
	if err := checkOperators(c.Resolvers, quorum); err != nil {
		return nil, err
	}
	if err := checkPerspectives(c.Resolvers); err != nil {
		return nil, err
	}
	checker := &Checker{
		panel: panel{quorum: quorum, span: namesPerspectives(c.Resolvers)}, config: c, exchange: x, operators: newMemory[string](),
	}
	operators := Operators(c.Resolvers)
	for i, r := range c.Resolvers {
		r.Name, r.Transport = cmp.Or(r.Name, r.String()), cmp.Or(r.Transport, transportUDP)
		x.keep(r, c.RootCAs)
		v := recursive{resolver: r, operator: operators[i], exchange: x, canary: newCanary(c), signs: new(signs)}
		checker.resolvers = append(checker.resolvers, v)
	}
	checker.authority, err = newAuthority(c, checker.panel, x.dialer)
	return checker, err
}

// Close closes the connections that are kept, and returns when nothing of the Checker is running any more. Looks have to
// have ended; one that comes later finds resolvers over TCP, TLS and HTTPS unreachable.
func (c *Checker) Close() { c.exchange.close() }

func checkResolvers(resolvers []Resolver) error {
	if len(resolvers) == 0 {
		return errors.New("no resolvers: name at least one")
	}
	for i, r := range resolvers {
		if err := r.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(resolvers[:i], r.isSame) {
			return fmt.Errorf("resolver %s is named twice: it would count twice for the quorum; name each once", r)
		}
	}
	return nil
}

// Look asks whether the token is worth a proof. None is waited for once the answer is clear.
//
// At the resolvers: Present if at least one sees it; Absent if a quorum says that it is not there. At the zone's name
// servers ([ModeAuto], [ModeAuthority]): Present if all that answer have it; Absent if all that answer do not, and they
// are most. In ModeAuto the resolvers are asked where no name server had anything to say.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Look(ctx context.Context, host, token string) (Verdict, error) {
	return c.judge(ctx, host, token, tally.looked, forLook)
}

// Prove asks whether the token may be acted upon, of all resolvers, each as long as it has: a veto may come last.
//
// At the resolvers: Present if a quorum sees it; Absent if a quorum says that it is not there; ReasonDisagree where
// some do and others do not. One resolver alone proves nothing (ReasonTooFewResolvers). Nothing is proven if any finds
// the answer bogus (ReasonDNSSEC), nor by answers that are not authenticated where any is (ReasonUnconfirmed), or with
// Config.RequireDNSSEC (ReasonUnsigned), nor from one perspective where any is named (ReasonOnePerspective). Whoever
// forges AD keeps answers from counting, and makes none count that would not without it.
//
// In the other modes the zone's name servers come first. The resolvers are asked only where these say yes, or where, in
// ModeAuto, none at all can be reached from here (ReasonUnprotected if too few of them are over TLS or HTTPS): they
// must not begin to remember a no, nor override a denial. Until a quorum of them says yes too it is ReasonLag.
//
// Config.RefuseAliases and Config.RefuseWildcards refuse a proof where an alias or a wildcard leads to the token
// (ReasonAliasOut, ReasonWildcard, and ReasonWildcardUnsure where nobody could say).
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Prove(ctx context.Context, host, token string) (Verdict, error) {
	v, err := c.judge(ctx, host, token, tally.proved, forProof)
	if err == nil && v.State == Present {
		v, err = c.vetoed(ctx, v, token)
	}
	if err == nil && v.State == Present {
		v, err = c.refused(ctx, v, token)
	}
	return v, err
}

// rule says what a tally comes to, and whether what is still out could change it.
type rule func(tally) (state State, decided bool)

func (c *Checker) judge(ctx context.Context, host, token string, decide rule, purpose purpose) (v Verdict, err error) {
	if err := checkAsked(ctx, host, token); err != nil {
		return Verdict{}, err
	}
	if c.authority == nil {
		v, err = c.poll(ctx, host, token, decide)
	} else {
		v, err = c.judgeByAuthority(ctx, host, token, decide, purpose)
	}
	v.Quorum, v.Resolvers = c.quorum, len(c.resolvers)
	return v, err
}

func checkAsked(ctx context.Context, host, token string) error {
	if err := CheckHost(host); err != nil {
		return err
	}
	if token == "" {
		return &QuestionError{Host: host, Problem: "the token is empty: any answer would match"}
	}
	if ctx.Err() != nil {
		return ended(ctx, host)
	}
	return nil
}

// poll asks the resolvers.
func (c *Checker) poll(ctx context.Context, host, token string, decide rule) (Verdict, error) {
	type sighting struct {
		by int
		Observation
	}
	asking, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()                          // second, and at once: nobody outlives the call
	defer cancel()                                // first: those that are not needed any more leave
	seen := make(chan sighting, len(c.resolvers)) // room for all: none is held up by nobody listening
	for i, v := range c.resolvers {
		looking.Go(func() { seen <- sighting{i, v.observe(asking, host, token)} })
	}
	observations := make([]Observation, len(c.resolvers))
	count := tally{quorum: c.quorum, span: c.span, required: c.config.RequireDNSSEC, pending: len(c.resolvers)}
	for {
		s := <-seen
		if ctx.Err() != nil {
			return Verdict{}, ended(ctx, host)
		}
		observations[s.by] = s.Observation
		count.add(s.Observation)
		if c.config.Observe != nil {
			c.config.Observe(s.Observation)
		}
		if state, decided := decide(count); decided {
			v := verdictOf(state, host, observations)
			if state == Unknown {
				v.Reason = cmp.Or(count.shortfall(), v.Reason)
			}
			return v, nil
		}
	}
}

// quiet is the same Checker, which tells nobody what it observes.
func (c *Checker) quiet() *Checker {
	quiet := *c
	quiet.config.Observe = nil
	return &quiet
}

func ended(ctx context.Context, host string) error {
	return fmt.Errorf("check the TXT record at %s: %w", shownHost(host), ctx.Err())
}

// tally counts what has been seen so far.
type tally struct {
	quorum                            int
	span                              bool // a quorum has to span two perspectives
	required                          bool // only authenticated answers count for a proof
	present, absent, unknown, pending int
	bogus                             int
	authenticated, confirmed          int // yes or no with AD; of these yes

	presentIn, confirmedIn, absentIn perspectives
}

func (t *tally) add(o Observation) {
	t.pending--
	if o.Reason == ReasonDNSSEC {
		t.bogus++
	}
	if o.Authenticated && o.State != Unknown {
		t.authenticated++
	}
	switch o.State {
	case Present:
		t.present++
		t.presentIn.add(o.Perspective)
		if o.Authenticated {
			t.confirmed++
			t.confirmedIn.add(o.Perspective)
		}
	case Absent:
		t.absent++
		t.absentIn.add(o.Perspective)
	default:
		t.unknown++
	}
}

// looked is the rule of Look.
func (t tally) looked() (State, bool) {
	switch {
	case t.present > 0:
		return Present, true
	case t.absent >= t.quorum:
		return Absent, true
	}
	return Unknown, t.pending == 0
}

// counted is the rule of a quorum, for advice. More than half is a quorum, so that not both sides can have one.
func (t tally) counted() (State, bool) {
	switch {
	case t.present >= t.quorum:
		return Present, true
	case t.absent >= t.quorum:
		return Absent, true
	}
	return Unknown, max(t.present, t.absent)+t.pending < t.quorum
}

// proved is the rule of Prove: each resolver is waited for.
func (t tally) proved() (State, bool) {
	state, _ := t.counted()
	if t.shortfall() != "" {
		state = Unknown
	}
	return state, t.pending == 0
}

// shortfall is the reason why nothing is proven, whatever a quorum says, or by a quorum that sees the token; empty: there is none.
func (t tally) shortfall() Reason {
	switch {
	case t.bogus > 0:
		return ReasonDNSSEC
	case t.present < t.quorum:
		return ""
	case t.present+t.absent+t.unknown+t.pending < leastVoters:
		return ReasonTooFewResolvers
	case t.authenticated > 0 && t.confirmed < t.quorum:
		return ReasonUnconfirmed
	case t.required && t.confirmed < t.quorum:
		return ReasonUnsigned
	}
	counted := t.presentIn
	if t.required || t.authenticated > 0 {
		counted = t.confirmedIn
	}
	if t.span && !counted.several {
		return ReasonOnePerspective
	}
	return ""
}

// verdictOf gathers the observations that are in (the others have no reason yet).
func verdictOf(state State, host string, observations []Observation) Verdict {
	in := slices.DeleteFunc(observations, func(o Observation) bool { return o.Reason == "" })
	v := Verdict{State: state, Host: host, Observations: in, Reason: reasonOf(state, in), Basis: ByResolvers}
	if state == Absent {
		v.NegativeTTL = longestTTL(in)
	}
	return v
}

func longestTTL(observations []Observation) (ttl time.Duration) {
	for _, o := range observations {
		ttl = max(ttl, o.NegativeTTL)
	}
	return ttl
}

// reasonOf finds the reason of the whole: the one that tells the customer most, not the one that came first.
func reasonOf(state State, observations []Observation) Reason {
	seen := make(map[Reason]int)
	for _, o := range observations {
		seen[o.Reason]++
	}
	switch state {
	case Present:
		return ReasonFound
	case Absent:
		return firstOf(seen, ReasonOtherValue, ReasonNoRecord, ReasonNoName)
	}
	if seen[ReasonFound] > 0 && seen[ReasonOtherValue]+seen[ReasonNoRecord]+seen[ReasonNoName] > 0 {
		return ReasonDisagree
	}
	return firstOf(seen, doubtful...)
}

// doubtful are the reasons of Unknown: what lies with the domain comes before what may lie with us.
var doubtful = []Reason{
	ReasonServersDisagree, ReasonDNSSEC, ReasonDelegation, ReasonTooFew, ReasonLame, ReasonServFail, ReasonAlias, ReasonRefused, ReasonRCode, ReasonMalformed,
	ReasonTimeout, ReasonUnreachable, ReasonUntrusted,
}

func firstOf(seen map[Reason]int, order ...Reason) Reason {
	for _, reason := range order {
		if seen[reason] > 0 {
			return reason
		}
	}
	return ReasonMalformed // not reached: each observation has one of these reasons
}
