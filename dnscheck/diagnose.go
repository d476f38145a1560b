package dnscheck

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
)

const (
	// diagnosisTime bounds the queries of a diagnosis, since a person waits for it.
	diagnosisTime = 6 * time.Second
	// maxLeftOut is how many names without one of the host's labels are queried. Hosts have two
	// labels before the domain.
	maxLeftOut = 3
	// maxAbove is how many names above the host are queried: its two labels, and a domain four
	// labels below the registered one.
	maxAbove = 6
)

// Diagnose finds mistakes if the verdict v on the host is Absent. If it is Unknown, it says what
// the resolvers see. The domain is the organization's; if it is empty, the host's registered
// domain.
//
// First it compares the values and aliases in v. Then it queries other names, at most twenty with
// maxQueries queries to name servers in all, within six seconds. If the zone's name servers denied
// the token, it queries only name servers, so that no resolver caches a negative answer: also those
// that only the zone itself names, since a zone that moves is often edited there. Otherwise it
// queries the resolvers, and a finding needs a quorum. Config.Observe is not called.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Diagnose(ctx context.Context, host, domain, token string, v Verdict) (report.Diagnosis, error) {
	if err := (question{host: host, token: token}).validate(ctx); err != nil {
		return report.Diagnosis{}, err
	}
	if v.State == Unknown {
		return c.resolversSee(ctx, host, token, v)
	}
	if v.State != Absent {
		return report.Diagnosis{}, nil
	}
	host = dnsname.Unrooted(host)
	domain = cmp.Or(dnsname.Unrooted(domain), dnsname.Registered(host))
	d := &diagnosis{host: host, domain: domain, token: token, verdict: v}

	// The values at the host itself.
	d.compare()

	// At the same time: the zone's own list of name servers, and the token at other names.
	limited, cancel := context.WithTimeout(ctx, diagnosisTime)
	defer cancel()
	var mismatch *serverMismatch
	var queries sync.WaitGroup
	if v.Basis == ByAuthority && c.authority != nil {
		queries.Go(func() { mismatch = c.authority.findMismatch(limited, host, token) })
	}
	others := d.otherNames()
	var left atomic.Int64
	left.Store(maxQueries)
	for i := range others {
		queries.Go(func() {
			others[i].verdict = c.checkOther(limited, question{host: others[i].name, token: token, queries: &left}, v.Basis)
		})
	}
	queries.Wait()
	if ctx.Err() != nil {
		return report.Diagnosis{}, contextError(ctx, host)
	}

	// Collect the findings, the likeliest mistake first.
	d.addOthers(others)
	d.addAliases()
	d.addServers(mismatch)
	slices.SortStableFunc(d.Findings, func(a, b report.Finding) int {
		return cmp.Compare(likenessOf(a.Mistake), likenessOf(b.Mistake))
	})
	for i, f := range d.Findings {
		d.Findings[i].Sentence = f.Advice(host)
	}
	return d.Diagnosis, nil
}

// resolversSee asks the resolvers about the host of an unknown verdict, which has no answer of
// theirs. After a denial they are not asked: they would cache it.
func (c *Checker) resolversSee(ctx context.Context, host, token string, v Verdict) (report.Diagnosis, error) {
	isReasonNotToAsk := func(o Observation) bool { return !o.Authority || o.State == Absent }
	if c.authority == nil || slices.ContainsFunc(v.Observations, isReasonNotToAsk) {
		return report.Diagnosis{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, diagnosisTime)
	defer cancel()
	answers, err := c.ask(limited, question{host: host, token: token}, c.resolvers, nil)
	if ctx.Err() != nil {
		return report.Diagnosis{}, contextError(ctx, host)
	}
	if err != nil { // no answer in time
		return report.Diagnosis{}, nil //nolint:nilerr // it is advice
	}
	number := make(map[State]int)
	for _, o := range answers {
		number[o.State]++
	}
	return report.Diagnosis{ResolversSee: fmt.Sprintf("of %d resolvers %d see the expected value, %d see that it is not there, and %d "+
		"have no answer; that proves nothing", len(answers), number[Present], number[Absent], number[Unknown])}, nil
}

type diagnosis struct {
	report.Diagnosis

	host, domain, token string
	verdict             Verdict
	wildcard            bool // the host's value comes from one
}

// add adds a mistake and the values found at a name. A kind of mistake is added once.
func (d *diagnosis) add(m report.Mistake, at, found string) {
	if !slices.ContainsFunc(d.Findings, func(f report.Finding) bool { return f.Mistake == m }) {
		d.Findings = append(d.Findings, report.Finding{Mistake: m, Host: dnsname.Shown(at), Found: found})
	}
}

func (d *diagnosis) compare() {
	for _, o := range d.verdict.Observations {
		if o.State != Absent {
			continue
		}
		first, second, split := d.joined(o.Values)
		if split {
			d.add(report.MistakeSplit, d.host, shownFound(first)+" "+shownFound(second))
		}
		for _, value := range o.Values {
			if split && strings.Contains(normal(d.token), normal(value)) {
				continue // one of the parts, or empty
			}
			if m := similarity(value, d.token); m != "" {
				d.add(m, d.host, shownFound(value))
			}
		}
	}
}

// joined returns two of the values that are the token when joined.
func (d *diagnosis) joined(values []string) (first, second string, ok bool) {
	token := normal(d.token)
	for i, first := range values {
		for j, second := range values {
			a := normal(first)
			b := normal(second)
			if i != j && a != "" && b != "" && a+b == token {
				return first, second, true
			}
		}
	}
	return "", "", false
}

type otherName struct {
	mistake report.Mistake
	name    string
	verdict *Verdict // nil: not known
}

// otherNames returns the names to query, each once: the usual places of mislaid records, the names
// above the host up to the registered domain, and a sibling. Where no name server can be queried,
// resolvers may cache that they are absent, as they have already cached the host's absence.
func (d *diagnosis) otherNames() []otherName {
	if !dnsname.Within(d.host, d.domain) {
		return nil
	}

	// Below the domain, and below the zone in which a panel may have entered it.
	labels := strings.Split(d.host, ".")
	names := []otherName{{mistake: report.MistakeApex, name: d.domain}}
	zones := []string{d.domain}
	above := cmp.Or(dnsname.Registered(d.domain), d.domain)
	if !dnsname.Same(above, d.domain) {
		zones = append(zones, above) // the provider's zone may begin higher up
	}
	for _, zone := range zones {
		short := labels[:len(labels)-len(strings.Split(zone, "."))]
		names = append(names,
			otherName{mistake: report.MistakeDoubled, name: d.host + "." + zone},
			otherName{mistake: report.MistakeWWW, name: "www." + zone},
			otherName{mistake: report.MistakeWWW, name: strings.Join(short, ".") + ".www." + zone})
	}

	// The host with a label left out, with labels cut off, and without its underscores.
	before := len(labels) - len(strings.Split(d.domain, "."))
	for i := 1; i < min(before, 1+maxLeftOut); i++ { // without the first it would be an ancestor
		shorter := slices.Delete(slices.Clone(labels), i, i+1)
		names = append(names, otherName{mistake: report.MistakeLeftOut, name: strings.Join(shorter, ".")})
	}
	for i := 1; i <= min(len(labels)-len(strings.Split(above, ".")), maxAbove); i++ {
		names = append(names, otherName{mistake: report.MistakeAbove, name: strings.Join(labels[i:], ".")})
	}
	bare := slices.Clone(labels)
	for i, label := range bare {
		bare[i] = strings.Trim(label, "_")
	}
	names = append(names, otherName{mistake: report.MistakeUnderscore, name: strings.Join(bare, ".")})

	// A sibling, which only a wildcard answers.
	if d.verdict.Reason != ReasonNoName || d.aliased() != nil { // else no wildcard covers the host
		sibling := append([]string{randomLabel()}, labels[1:]...)
		names = append(names, otherName{mistake: report.MistakeWildcard, name: strings.Join(sibling, ".")})
	}

	// Each name once, and none that DNS cannot have.
	seen := []string{dnsname.Canonical(d.host)}
	return slices.DeleteFunc(names, func(o otherName) bool {
		known := slices.Contains(seen, dnsname.Canonical(o.name))
		seen = append(seen, dnsname.Canonical(o.name))
		return known || dnsname.CheckHost(o.name) != nil
	})
}

func (d *diagnosis) aliased() *Observation {
	for _, o := range d.verdict.Observations {
		if o.State == Absent && len(o.Aliases) > 0 {
			return &o
		}
	}
	return nil
}

// checkOther checks another name by the basis of the verdict; nil: no result. Of the resolvers it
// takes a quorum, which is more than half, so that there cannot be two.
func (c *Checker) checkOther(ctx context.Context, q question, basis Basis) *Verdict {
	v := c.verdict(q.host)
	if basis == ByAuthority {
		if c.authority == nil {
			return nil
		}
		var err error
		if v, err = c.askServers(ctx, q); err != nil || v.State == Unknown {
			return nil
		}
		return &v
	}
	answers, err := c.ask(ctx, q, c.resolvers, func(t tally) bool {
		return max(t.present.count, t.absent.count) >= c.quorum
	})
	switch t := count(answers); {
	case err != nil:
		return nil
	case t.present.count >= c.quorum:
		v.State = Present
	case t.absent.count >= c.quorum:
		v.State = Absent
	default:
		return nil
	}
	v.Observations = answers
	return &v
}

func (d *diagnosis) addOthers(others []otherName) {
	atWildcard := slices.ContainsFunc(others, func(a otherName) bool {
		return a.mistake == report.MistakeWildcard && a.verdict != nil && a.verdict.State == Present
	})
	for _, a := range others {
		switch {
		case a.verdict == nil && a.mistake == report.MistakeWildcard:
		case a.verdict == nil:
			d.Unanswered = append(d.Unanswered, a.name)
		case a.verdict.State == Absent && a.mistake == report.MistakeWildcard && d.resembles(*a.verdict):
			d.wildcard = true
			d.add(a.mistake, d.host, "")
		case a.verdict.State != Present, a.mistake == report.MistakeUnderscore && atWildcard: // which covers that name, too
		case a.mistake == report.MistakeWildcard:
			d.add(report.MistakeAtWildcard, d.host, "")
		default:
			d.add(a.mistake, a.name, "")
		}
		if a.verdict != nil && a.verdict.State == Absent && a.mistake != report.MistakeWildcard {
			d.compareOther(a)
		}
	}
}

// compareOther adds a finding for a record at another name whose value is like the token.
func (d *diagnosis) compareOther(a otherName) {
	for _, o := range a.verdict.Observations {
		for _, value := range o.Values {
			if o.State != Absent || likeness(value, d.token) != near || slices.ContainsFunc(d.verdict.Observations,
				func(own Observation) bool { return slices.Contains(own.Values, value) }) { // by a wildcard
				continue
			}
			d.add(a.mistake, a.name, shownFound(value))
		}
	}
}

// resembles reports whether a random name has the host's values, in any order, or its alias.
func (d *diagnosis) resembles(sibling Verdict) bool {
	sorted := func(values []string) []string { return slices.Sorted(slices.Values(values)) }
	for _, o := range d.verdict.Observations {
		for _, s := range sibling.Observations {
			if o.State == Absent && s.State == Absent && len(o.Values)+len(o.Aliases) > 0 &&
				slices.Equal(sorted(o.Values), sorted(s.Values)) && slices.EqualFunc(o.Aliases, s.Aliases, dnsname.Same) {
				return true
			}
		}
	}
	return false
}

func (d *diagnosis) addAliases() {
	o := d.aliased()
	if o == nil {
		return
	}
	name := plainName(o.Aliases[0])
	switch {
	case strings.EqualFold(name, d.token) ||
		(len(name) > len(d.token) && strings.EqualFold(name[:len(d.token)+1], d.token+".")):
		d.add(report.MistakeAsAlias, d.host, shownFound(name))
	case !d.wildcard:
		d.add(report.MistakeAlias, d.host, shownFound(o.Aliases[len(o.Aliases)-1]))
	}
}

// addServers adds a finding about name servers to which the zone is not delegated.
func (d *diagnosis) addServers(m *serverMismatch) {
	switch {
	case m == nil:
	case len(m.holding) > 0:
		d.add(report.MistakeOtherServers, m.zone, shownFound(someNames(m.holding)))
	case len(d.Findings) == 0:
		d.add(report.MistakeServersDiffer, m.zone, shownFound(someNames(m.own)))
	}
}

// serverMismatch is the difference between a zone's own NS records and its delegation. Names
// are safe to show.
type serverMismatch struct {
	zone      string
	delegated []string // by the parent
	own       []string // by the zone's NS records
	holding   []string // those that only the zone names, and that have the token
}

// findMismatch queries the host's zone for its own NS records, and those of its servers that
// the parent does not name for the token. It returns nil without a mismatch, if a set has more
// servers than are queried, or if the delegated servers do not deny the token.
func (a *authority) findMismatch(ctx context.Context, host, token string) *serverMismatch {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errTimeUp)
	defer cancel()

	// Go down to the zone whose servers deny the record.
	r := a.walk(question{host: host, token: token})
	p, err := r.ask(ctx)
	for err == nil {
		down := p.delegation()
		if down == nil || p.disagree() {
			break
		}
		r.enter(down)
		p, err = r.ask(ctx)
	}
	if err != nil || !p.any(serverAnswer.denies) || p.disagree() || p.zone.isCut() || dns.CountLabel(p.zone.name) == 1 {
		return nil
	}

	// Compare the servers to which the zone above refers with those that the zone names itself.
	own := r.ownServers(ctx, p)
	if len(own) == 0 {
		return nil
	}
	m := &serverMismatch{zone: dnsname.Unrooted(p.zone.name), delegated: namesOf(p.zone.servers), own: namesOf(own)}
	if slices.Equal(m.delegated, m.own) {
		return nil
	}

	// Query those that only the zone names: a customer may have published there.
	unnamed := slices.DeleteFunc(own, func(s nameServer) bool { return hasServer(p.zone.servers, s.name) })
	zone := delegation{name: p.zone.name, servers: unnamed, named: len(unnamed)}
	for _, a := range r.poll(ctx, zone, r.path.name, dns.TypeTXT).answers {
		if name := a.observation.Resolver; a.hasToken() && !slices.Contains(m.holding, name) {
			m.holding = append(m.holding, name)
		}
	}
	slices.Sort(m.holding)
	return m
}

// ownServers returns the name servers in the zone's own NS records, with their addresses in the
// zone; none if there are more than are queried.
func (w *walk) ownServers(ctx context.Context, p *zonePoll) []nameServer {
	const most = 3 // servers to query: all have the same records nearly everywhere
	var own []nameServer
	queried := 0
	for _, a := range p.answers {
		at, err := netip.ParseAddrPort(a.observation.Address)
		if err != nil || !a.definite() {
			continue
		}
		if queried++; queried > most {
			break
		}
		to := Resolver{Addr: at, Transport: transportUDP}
		m, _, err := w.limited.query(ctx, to, transportUDP, query{name: p.zone.name, kind: dns.TypeNS, nonRecursive: true})
		if err != nil || !m.authoritative || m.rcode != dns.RcodeSuccess {
			continue
		}
		records := slices.DeleteFunc(nsRecords(m.answer), func(ns *dns.NS) bool {
			return dnsname.Canonical(ns.Hdr.Name) != p.zone.name
		})
		names := slices.DeleteFunc(serverNames(records), func(name string) bool { return hasServer(own, name) })
		if len(own)+len(names) > maxServers {
			return nil
		}
		own = append(own, withGlue(p.zone.name, p.zone.name, names, m.additional)...)
	}
	return own
}

func hasServer(servers []nameServer, name string) bool {
	return slices.ContainsFunc(servers, func(s nameServer) bool { return s.name == name })
}

// namesOf returns the servers' names, sorted and safe to show.
func namesOf(servers []nameServer) []string {
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, dnsname.Shown(dnsname.Unrooted(s.name)))
	}
	slices.Sort(names)
	return names
}
