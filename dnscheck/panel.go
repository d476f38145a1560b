package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

const (
	// lookupTime is the resolvers' time to find the name servers of a top-level domain, or the
	// addresses of its servers: well under checkTime, so that a name without an answer
	// does not use up the time of the others.
	lookupTime = 2 * time.Second
	// notFoundTTL caches that a name server has no addresses. A dead one is often named by
	// thousands of zones.
	notFoundTTL = 30 * time.Second
)

var (
	// errNoQuorum: no quorum of the resolvers gives the same answer.
	errNoQuorum = errors.New("no quorum of the resolvers gives an answer")
	// errNone: a quorum of the resolvers says that there are no records.
	errNone = errors.New("there are none")
	// errDenied is an errNone: the root, by a quorum of the resolvers, denies the top-level domain.
	errDenied = fmt.Errorf("%w: the root denies the top-level domain", errNone)
)

// panel are the resolvers, of which a quorum has to agree.
type panel struct {
	resolvers []resolverClient
	quorum    int
	in        map[string]int // the number of resolvers in each perspective, if any is named; else nil
}

// agreed queries all resolvers for the records of a name, and returns the values that a quorum
// of them has, as soon as there are any: one resolver that lies must not choose a zone's name
// servers. With errNone the duration is the shortest negative TTL.
func (p panel) agreed(ctx context.Context, name string, kind uint16) ([]string, time.Duration, error) {
	// All resolvers are queried at the same time.
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	var queries sync.WaitGroup
	defer queries.Wait()
	defer cancel()
	ballots := make(chan ballot, len(p.resolvers))
	for _, r := range p.resolvers {
		queries.Go(func() { ballots <- r.values(limited, name, kind) })
	}

	// Their answers are counted as they arrive. The first values with enough votes win.
	of := make(map[string]votes)
	var empty, denied votes
	ttl := longestTTL
	emptyTTL := longestTTL
	for range p.resolvers {
		b := <-ballots
		if b.valid && len(b.values) == 0 {
			empty.add(b.by.perspective())
			emptyTTL = min(emptyTTL, b.ttl)
		}
		if b.denied {
			denied.add(b.by.perspective())
		}
		for _, value := range b.values {
			v := of[value]
			v.add(b.by.perspective())
			of[value] = v
			ttl = min(ttl, b.ttl)
		}
		var winners []string
		for value, v := range of {
			if p.enough(v) {
				winners = append(winners, value)
			}
		}
		if len(winners) > 0 {
			slices.Sort(winners)
			return winners, ttl, nil
		}
	}

	// No value has won, and all have answered.
	switch {
	case ctx.Err() != nil:
		return nil, 0, errors.Join(errAbandoned, ctx.Err())
	case p.enough(denied) && len(of) == 0:
		return nil, emptyTTL, errDenied
	case p.enough(empty):
		return nil, emptyTTL, errNone
	}
	return nil, 0, errNoQuorum
}

// enough reports whether resolvers with the same answer decide: a quorum of them. Where
// perspectives are named, each has one vote instead, by more than half of its resolvers: this
// machine's has to be among them, and of the others as many as of that many resolvers (CA/Browser
// Forum, Baseline Requirements, section 3.2.2.9).
func (p panel) enough(v votes) bool {
	if p.in == nil {
		return v.count >= p.quorum
	}
	others := 0
	agreed := 0 // of the others
	for perspective := range p.in {
		switch won := p.wins(v, perspective); {
		case perspective == DefaultPerspective && !won:
			return false
		case perspective != DefaultPerspective:
			others++
			if won {
				agreed++
			}
		}
	}
	return agreed >= leastQuorum(others)
}

// Suffice reports whether resolvers in these perspectives decide if all give the same answer, by
// the quorum of all resolvers.
func Suffice(usable, all []string, quorum int) bool {
	p := panel{quorum: quorum}
	for _, perspective := range all {
		if perspective != DefaultPerspective {
			p.in = make(map[string]int)
		}
	}
	for _, perspective := range all {
		if p.in != nil {
			p.in[perspective]++
		}
	}
	var v votes
	for _, perspective := range usable {
		v.add(perspective)
	}
	return p.enough(v)
}

// wins reports whether the votes are more than half of a perspective's.
func (p panel) wins(v votes, perspective string) bool { return 2*v.in[perspective] > p.in[perspective] }

// winsAny reports whether the votes are more than half of any perspective's.
func (p panel) winsAny(v votes) bool {
	for perspective := range p.in {
		if p.wins(v, perspective) {
			return true
		}
	}
	return false
}

// ballot is one resolver's answer for a name, each value once.
type ballot struct {
	by     Resolver
	values []string
	ttl    time.Duration // of the values, or the negative TTL
	valid  bool          // the resolver has answered
	denied bool          // by NXDOMAIN, with the SOA record of the root
}

func (c resolverClient) values(ctx context.Context, name string, kind uint16) ballot {
	m, _, err := c.query(ctx, c.resolver.Transport, query{name: name, kind: kind})
	if err != nil || !m.isAnswer() {
		return ballot{}
	}
	b := ballot{by: c.resolver, valid: true, ttl: longestTTL}
	for _, record := range m.answer {
		if !isAt(record, name) || record.Header().Rrtype != kind {
			continue
		}
		if value := valueOf(record); value != "" && !slices.Contains(b.values, value) {
			b.values = append(b.values, value)
			b.ttl = min(b.ttl, seconds(record.Header().Ttl))
		}
	}
	if len(b.values) == 0 {
		b.ttl = negativeTTL(m.authority, name)
		soa := soaOf(m.authority, name)
		_, changed := notZones(m)
		b.denied = m.rcode == dns.RcodeNameError && len(m.answer) == 0 && !changed && soa != nil && soa.Hdr.Name == "."
	}
	return b
}

func valueOf(record dns.RR) string {
	if ns, ok := record.(*dns.NS); ok {
		return strings.TrimPrefix(dnsname.Canonical(ns.Ns), ".") // the root is no name server
	}
	if addr, ok := addressIn(record); ok {
		return addr.String()
	}
	return ""
}

type resolverClient struct {
	resolver Resolver
	operator string
	exchange *exchange
	status   *resolverStatus
}

// queryToken queries the host, and then the targets of aliases that the answers omit. At the end
// of the context the observation is empty.
func (c resolverClient) queryToken(ctx context.Context, q question) Observation {
	start := time.Now()
	path := newAliasPath(q.host)
	authenticated := true
	o := Observation{Resolver: c.resolver.Name, Operator: c.operator, Perspective: c.resolver.perspective(),
		Transport: c.resolver.Transport}
	for {
		var r reply
		var err error
		// If UDP failed for one name, the next one is queried over TCP.
		r, o.Transport, err = c.query(ctx, o.Transport, query{name: path.name, kind: dns.TypeTXT,
			checkingDisabled: q.checkingDisabled})
		if ctx.Err() != nil {
			return Observation{}
		}
		f := exchangeFailure(err)
		o.RCode = ""
		o.EDE = ""
		o.Authenticated = false
		if err == nil {
			o.RCode = r.rcodeName()
			o.EDE = r.errorText()
			authenticated = authenticated && r.authenticated
			o.Authenticated = authenticated
			f = path.read(r, q.token)
			if q.thorough {
				f = f.requireZone(r, path).requireNoToken(r, q.token)
			}
		}
		if !f.queryTarget {
			o.Aliases = path.targets
			o.Took = time.Since(start)
			return o.with(f)
		}
	}
}

// query sends one query, and records that the resolver answers.
func (c resolverClient) query(ctx context.Context, transport string, q query) (reply, string, error) {
	r, transport, err := c.exchange.query(ctx, c.resolver, transport, q)
	if err == nil && r.isAnswer() { // other response codes may be all that it ever returns
		c.status.answered(time.Now())
	}
	return r, transport, err
}

// exchangeFailure is the finding without a reply.
func exchangeFailure(err error) finding {
	reason := ReasonUnreachable
	if failed, ok := errors.AsType[*exchangeError](err); ok {
		reason = failed.reason
	}
	return unknown(reason, err)
}

func (o Observation) with(f finding) Observation {
	o.State = f.state
	o.Reason = f.reason
	o.NegativeTTL = f.negativeTTL
	o.Values, o.MoreValues = capValues(f.values)
	if f.err != nil {
		o.Err = f.err.Error()
	}
	return o
}

// resolverStatus is when a resolver last answered, and when a probe last failed.
type resolverStatus struct {
	mu                   sync.Mutex
	answeredAt, failedAt time.Time
	problem              string // of the probe, if the resolver has not answered since
}

func (s *resolverStatus) answered(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answeredAt = now
	s.problem = ""
}

// probeInterval is for how long a resolver that has answered, or was probed, is not probed.
const probeInterval = 30 * time.Second

var rootServers = query{name: ".", kind: dns.TypeNS}

// ResolverState is the current state of one resolver of a Checker.
type ResolverState struct {
	Name        string
	Operator    string    // as returned by Operators
	Perspective string    // "default" if the resolver names none
	InTheClear  bool      // as of the Resolver
	AnsweredAt  time.Time // of its last answer; zero: none yet
	Silent      string    // the error of the last probe, if it has not answered since
}

// Resolvers returns the states of the resolvers, in the order of Config.Resolvers, without
// any query.
func (c *Checker) Resolvers() []ResolverState {
	all := make([]ResolverState, 0, len(c.resolvers))
	for _, r := range c.resolvers {
		s := ResolverState{
			Name: r.resolver.Name, Operator: r.operator, Perspective: r.resolver.perspective(),
			InTheClear: r.resolver.InTheClear(),
		}
		r.status.mu.Lock()
		s.AnsweredAt = r.status.answeredAt
		s.Silent = r.status.problem
		r.status.mu.Unlock()
		all = append(all, s)
	}
	return all
}

// Probe queries each resolver that has not answered for half a minute for the root's name
// servers, all at once, and returns the states of the resolvers. If ctx ends first, states
// without an answer stay as they were.
func (c *Checker) Probe(ctx context.Context) []ResolverState {
	var probes sync.WaitGroup
	for _, r := range c.resolvers {
		if r.status.isDue(time.Now()) {
			probes.Go(func() { r.probe(ctx) })
		}
	}
	probes.Wait()
	return c.Resolvers()
}

func (c resolverClient) probe(ctx context.Context) {
	r, _, err := c.query(ctx, c.resolver.Transport, rootServers)
	switch {
	case err == nil && !r.isAnswer():
		err = fmt.Errorf("it answers %s when asked for the root's name servers", r.rcodeName())
	case err == nil || errors.Is(err, context.Canceled):
		return
	case ctx.Err() != nil:
		err = errors.New("no answer in time")
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	c.status.failedAt = time.Now()
	c.status.problem = err.Error()
}

func (s *resolverStatus) isDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.answeredAt) >= probeInterval && now.Sub(s.failedAt) >= probeInterval
}

// question is a host, and the token that should be there.
type question struct {
	host, token      string
	waits            bool              // of a proof or a disproof: for each server of a zone that may hold the token
	thorough         bool              // of a disproof: a negative answer needs an SOA record, and no server is left out
	checkingDisabled bool              // resolvers return bogus answers, too
	observe          func(Observation) // nil: not called
	queries          *atomic.Int64     // that are left, of several questions; nil: maxQueries
}

// validate returns a *QuestionError, or the context's error.
func (q question) validate(ctx context.Context) error {
	if err := dnsname.CheckHost(q.host); err != nil {
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
	return fmt.Errorf("check the TXT record at %s: %w", dnsname.Shown(host), ctx.Err())
}
