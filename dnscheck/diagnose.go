package dnscheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

const (
	// diagnosisTime bounds all that a diagnosis asks: a person waits for it.
	diagnosisTime = 6 * time.Second
	// maxLeftOut is how many names without one of the host's labels are asked for: hosts have two labels before the domain.
	maxLeftOut = 3
)

// Mistake is what a customer can have done wrong with a record. Its text is stable, for machines.
type Mistake string

// The mistakes.
const (
	MistakeApex       Mistake = "at_domain"       // the token stands at the domain itself
	MistakeDoubled    Mistake = "domain_appended" // the token stands at the host with the domain after it once more
	MistakeLeftOut    Mistake = "label_left_out"  // the token stands at the host without one of its labels
	MistakeAtWildcard Mistake = "at_wildcard"     // the token stands at a wildcard that does not cover the host
	MistakeQuoted     Mistake = "quoted"          // quotation marks came along
	MistakePadded     Mistake = "padded"          // blanks, or characters that cannot be seen, came along
	MistakeCut        Mistake = "cut"             // only a part of the token is there
	MistakeSplit      Mistake = "split"           // its parts stand in two records
	MistakeLetters    Mistake = "letter_case"     // letters in other case
	MistakeAlong      Mistake = "more_along"      // there is more in the value than the token
	MistakeAsAlias    Mistake = "token_as_cname"  // the token stands in a CNAME record
	MistakeWildcard   Mistake = "wildcard"        // what was found comes from a wildcard, the host has no record
	MistakeAlias      Mistake = "cname"           // a CNAME leads elsewhere, where the token is not

	MistakeOtherServers  Mistake = "other_name_servers"  // the token stands at name servers that the zone is not delegated to
	MistakeServersDiffer Mistake = "name_servers_differ" // the zone names other name servers than its delegation, and no other mistake was found
)

// Finding is one thing that is wrong with the record.
type Finding struct {
	Mistake  Mistake
	Sentence string // for the customer: what is there and what to do; strangers' text in it is capped and quoted
}

// Diagnosis is advice on a record that is not there. It proves nothing, and is no part of a verdict.
type Diagnosis struct {
	Findings   []Finding // what the verdict's own observations show comes first
	Unanswered []string  // names of which nothing could be learned in time
}

// Diagnose tells what was done wrong where the verdict v on the host is Absent; of any other there is nothing to tell.
// The domain is the organization's; where it is empty, what a registry has let register is taken for it.
//
// Values and aliases that v has seen are compared without any question. Then at most seven other names are asked for, within
// six seconds, where v comes from: at the zone's name servers only if those have denied the token, so that no resolver begins
// to remember a no; else at the resolvers, of which a finding takes a quorum. Where the name servers have denied it, those are
// asked too that only the zone itself names: a zone that moves is often edited there. Config.Observe is told nothing.
//
// The error is a *QuestionError, or the context's own, wrapped.
func (c *Checker) Diagnose(ctx context.Context, host, domain, token string, v Verdict) (Diagnosis, error) {
	if err := checkAsked(ctx, host, token); err != nil {
		return Diagnosis{}, err
	}
	if v.State != Absent {
		return Diagnosis{}, nil
	}
	host, domain = unrooted(host), unrooted(domain)
	if domain == "" {
		domain = registered(host)
	}
	d := &diagnosis{host: host, domain: domain, token: token, verdict: v}
	d.compare()
	limited, cancel := context.WithTimeout(ctx, diagnosisTime)
	defer cancel()
	var mismatch *mismatch
	var asking sync.WaitGroup
	if v.Basis == ByAuthority && c.authority != nil {
		asking.Go(func() { mismatch = c.authority.mismatched(limited, host, token) })
	}
	others := d.others()
	for i := range others {
		asking.Go(func() { others[i].verdict = c.glance(limited, others[i].name, token, v.Basis) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return Diagnosis{}, ended(ctx, host)
	}
	d.hear(others)
	d.sayAliases()
	d.sayServers(mismatch)
	return d.Diagnosis, nil
}

// registered is the name right beneath the public suffix; empty where there is none.
func registered(name string) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(name))
	if err != nil {
		return ""
	}
	return domain
}

// diagnosis is one that is being made.
type diagnosis struct {
	Diagnosis

	host, domain, token string
	verdict             Verdict
	wildcard            bool // what the host has comes from one
}

func (d *diagnosis) add(m Mistake, format string, a ...any) {
	if !slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Mistake == m }) {
		d.Findings = append(d.Findings, Finding{m, fmt.Sprintf(format, a...)})
	}
}

// compare tells what the values at the host have to do with the token.
func (d *diagnosis) compare() {
	at := shownHost(d.host)
	for _, o := range d.verdict.Observations {
		if o.State != Absent {
			continue // where it is seen there is nothing to compare
		}
		split := d.isJoined(o.Values)
		if split {
			d.add(MistakeSplit, "The value is cut in two at %s, a part in each of two TXT records: put it into one record, as one value.", at)
		}
		for _, value := range o.Values {
			if split && strings.Contains(d.token, value) {
				continue // one of the parts
			}
			m := likeness(value, d.token)
			if sentence, is := likenesses[m]; is {
				d.add(m, sentence, at, shown(value, shownValue))
			}
		}
	}
}

// likenesses are the sentences of what was done to a value at a host.
var likenesses = map[Mistake]string{
	MistakeQuoted:  "The value at %s has quotation marks in it (%s): enter it without.",
	MistakePadded:  "The value at %s has blanks or invisible characters around it (%s): enter it without.",
	MistakeLetters: "The value at %s has letters in other case than the expected one (%s): enter it exactly as it was given.",
	MistakeCut:     "The value at %s is only a part of the expected one (%s): enter all of it.",
	MistakeAlong:   "The value at %s has the expected one and more in it (%s): enter the expected value alone.",
}

// isJoined reports whether two of the values one after the other are the token.
func (d *diagnosis) isJoined(values []string) bool {
	for i, first := range values {
		for j, second := range values {
			if i != j && first != "" && second != "" && first+second == d.token {
				return true
			}
		}
	}
	return false
}

const (
	// unseen are characters that come along when text is copied: blanks, no-break space, zero-width ones, byte order mark, NUL.
	unseen = " \t\r\n\v\f\x00\u00a0\u00ad\u2007\u200b\u200c\u200d\u2060\u202f\u3000\ufeff"
	quotes = "\"'`\\\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
	// leastPart is how long a part of a token has to be to be taken for one.
	leastPart = 6
)

// likeness tells what was done to the token to make it that value; empty: it is another value.
func likeness(value, token string) Mistake {
	bare := strings.Trim(value, unseen)
	unquoted := strings.Trim(bare, unseen+quotes)
	switch {
	case bare == token:
		return MistakePadded
	case unquoted == token:
		return MistakeQuoted
	case strings.EqualFold(unquoted, token):
		return MistakeLetters
	case isCut(value, unquoted, token):
		return MistakeCut
	case len(token) >= leastPart && strings.Contains(value, token):
		return MistakeAlong
	}
	return ""
}

// isCut tells whether a value is the token's beginning or end, or both with dots between. Of a value that was capped as
// evidence nobody can say.
func isCut(value, unquoted, token string) bool {
	if len(value) >= maxValueOctet || len(unquoted) >= len(token)+len("…") {
		return false
	}
	for _, dots := range []string{"…", "..."} {
		head, tail, found := strings.Cut(unquoted, dots)
		if found && len(head)+len(tail) >= leastPart/2 && len(head)+len(tail) < len(token) && strings.HasPrefix(token, head) && strings.HasSuffix(token, tail) {
			return true
		}
	}
	return len(unquoted) >= leastPart && (strings.HasPrefix(token, unquoted) || strings.HasSuffix(token, unquoted))
}

// other is another name to ask for.
type other struct {
	mistake Mistake
	name    string
	short   string   // of a doubled one: what to enter instead
	verdict *Verdict // nil: nothing is known
}

// others are the names to ask for: no ancestor of the host but the domain, and nothing outside the domain.
func (d *diagnosis) others() []other {
	if !Within(d.host, d.domain) {
		return nil
	}
	labels := strings.Split(d.host, ".")
	names := []other{{mistake: MistakeApex, name: d.domain}}
	zones := []string{d.domain}
	if above := registered(d.domain); above != "" && !sameName(above, d.domain) {
		zones = append(zones, above) // the provider's zone may begin higher up
	}
	for _, zone := range zones {
		short := labels[:len(labels)-len(strings.Split(zone, "."))]
		names = append(names, other{mistake: MistakeDoubled, name: d.host + "." + zone, short: strings.Join(short, ".")})
	}
	before := len(labels) - len(strings.Split(d.domain, "."))
	for i := 1; i < min(before, 1+maxLeftOut); i++ { // the first left out would be an ancestor
		names = append(names, other{mistake: MistakeLeftOut, name: strings.Join(slices.Delete(slices.Clone(labels), i, i+1), ".")})
	}
	if d.verdict.Reason != ReasonNoName || d.aliased() != nil { // else a wildcard there would have covered the host
		sibling := append([]string{canaryName()}, labels[1:]...)
		names = append(names, other{mistake: MistakeWildcard, name: strings.Join(sibling, ".")})
	}
	return slices.DeleteFunc(names, func(o other) bool { return CheckHost(o.name) != nil || sameName(o.name, d.host) })
}

func sameName(a, b string) bool { return canonical(a) == canonical(b) }

// aliased is an observation that was led elsewhere; nil: there is none.
func (d *diagnosis) aliased() *Observation {
	for _, o := range d.verdict.Observations {
		if o.State == Absent && len(o.Aliases) > 0 {
			return &o
		}
	}
	return nil
}

// glance asks for one name, by a quorum; nil: nothing could be learned.
func (c *Checker) glance(ctx context.Context, name, token string, basis Basis) *Verdict {
	if basis == ByAuthority {
		if c.authority == nil {
			return nil
		}
		w, err := c.authority.consult(ctx, name, token, forLook, nil)
		if err != nil || w.State == Unknown {
			return nil
		}
		return &w.Verdict
	}
	v, err := c.quiet().poll(ctx, name, token, tally.counted)
	if err != nil || v.State == Unknown {
		return nil
	}
	return &v
}

// sayServers tells of name servers that the zone is not delegated to.
func (d *diagnosis) sayServers(m *mismatch) {
	switch {
	case m == nil:
	case len(m.holding) > 0:
		d.add(MistakeOtherServers, "%s is delegated to the name servers %s; the record was found at %s, which the delegation does not name: add the record at %s, or change the delegation at the registrar to %s.",
			m.zone, someNames(m.delegated), someNames(m.holding), someNames(m.delegated), someNames(m.own))
	case len(d.Findings) == 0:
		d.add(MistakeServersDiffer, "%s is delegated to the name servers %s, while the zone itself names %s: make sure to add the record at %s, or change the delegation at the registrar.",
			m.zone, someNames(m.delegated), someNames(m.own), someNames(m.delegated))
	}
}

// hear tells what the other names have.
func (d *diagnosis) hear(others []other) {
	at := shownHost(d.host)
	for _, a := range others {
		switch {
		case a.verdict == nil && a.mistake == MistakeWildcard: // its name says nothing to anybody
		case a.verdict == nil:
			d.Unanswered = append(d.Unanswered, a.name)
		case a.verdict.State == Absent && a.mistake == MistakeWildcard && d.resembles(*a.verdict):
			d.wildcard = true
			d.add(a.mistake, "The value at %s comes from a wildcard record (*), which answers for every name that has no record of its own: add the TXT record at exactly %s.", at, at)
		case a.verdict.State != Present:
		case a.mistake == MistakeWildcard:
			d.add(MistakeAtWildcard, "The record is at a wildcard (*), which does not answer for %s; it must be at exactly %s.", at, at)
		case a.mistake == MistakeDoubled:
			d.add(a.mistake, "The record is at %s; it must be at %s. The DNS provider appends the domain itself: enter %s as the record's name there, or the full name with a final dot.", shownHost(a.name), at, shownHost(a.short))
		default:
			d.add(a.mistake, "The record is at %s; it must be at %s.", shownHost(a.name), at)
		}
	}
}

// resembles tells whether a name that nobody has made has the same as the host: the same values, in whatever order, or the same
// alias.
func (d *diagnosis) resembles(sibling Verdict) bool {
	sorted := func(values []string) []string { return slices.Sorted(slices.Values(values)) }
	for _, o := range d.verdict.Observations {
		for _, s := range sibling.Observations {
			if o.State == Absent && s.State == Absent && len(o.Values)+len(o.Aliases) > 0 &&
				slices.Equal(sorted(o.Values), sorted(s.Values)) && slices.EqualFunc(o.Aliases, s.Aliases, sameName) {
				return true
			}
		}
	}
	return false
}

// sayAliases tells of a CNAME at the host.
func (d *diagnosis) sayAliases() {
	o := d.aliased()
	if o == nil {
		return
	}
	at, target := shownHost(d.host), o.Aliases[0]
	name := plainName(target)
	switch {
	case strings.EqualFold(name, d.token) || len(name) > len(d.token) && strings.EqualFold(name[:len(d.token)+1], d.token+"."):
		d.add(MistakeAsAlias, "The expected value is in a CNAME record at %s: delete that, and add a TXT record with the value.", at)
	case !d.wildcard:
		d.add(MistakeAlias, "There is a CNAME record at %s, which leads to %s, and next to a CNAME no other record counts: delete it and add the TXT record, or add the TXT record at %s.",
			at, shownHost(target), shownHost(o.Aliases[len(o.Aliases)-1]))
	}
}
