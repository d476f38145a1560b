package dnscheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// maxAliases bounds how many CNAMEs are followed, as resolvers do (8 to 16); a verification host needs one or two.
const maxAliases = 8

// mostOctets is how long a name can be on the wire (RFC 1035 section 3.1).
const mostOctets = 255

// trail is the way from the host that was asked for along its CNAMEs, through one answer or several.
type trail struct {
	at      string   // the name to ask for now, or where the last answer led to; as it came, with the last dot
	aliases []string // the targets that were followed, as they came
	seen    []string // canonical names that it has been at
}

func newTrail(host string) *trail {
	at := dns.Fqdn(host)
	return &trail{at: at, seen: []string{canonical(at)}}
}

// finding is what one reply says. If askOn is set it says only where the trail goes on: nothing was said yet about the
// name there.
type finding struct {
	state       State
	reason      Reason
	values      []string
	negativeTTL time.Duration
	askOn       bool
	err         error
}

func unknown(reason Reason, err error) finding {
	return finding{state: Unknown, reason: reason, err: err}
}

// read tells what a reply to a question for t.at says about the token, and moves t.at along the aliases in it.
func (t *trail) read(r reply, token string) finding {
	if r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError {
		return failure("resolver", r)
	}
	if tampered, is := withheld(r); is {
		return tampered
	}
	before := len(t.aliases)
	if err := t.follow(r.answer); err != nil {
		return misled(err)
	}
	followed := len(t.aliases) > before
	found := readAt(r, t.at, token, followed)
	switch {
	case found.reason != ReasonNoRecord:
	case followed:
		return finding{askOn: true}
	case refersElsewhere(r):
		return unknown(ReasonRefused, errors.New("the answer refers to other name servers; is this a recursive resolver?"))
	}
	return found
}

// readAt tells what a reply says about the TXT records at a name. followed: aliases led there from another one.
func readAt(r reply, name, token string, followed bool) finding {
	texts := textsAt(r.answer, name)
	switch {
	case len(texts) > 0 && r.rcode == dns.RcodeNameError:
		return unknown(ReasonMalformed, errors.New("the answer says that the name does not exist, and has records of it"))
	case len(texts) > 0:
		return compare(texts, token)
	case len(r.answer) > 0 && !followed:
		return unknown(ReasonMalformed, errors.New("the answer has records, and none that answers the question"))
	case r.rcode == dns.RcodeNameError: // of the last name, if there are aliases (RFC 6604 section 3)
		return finding{state: Absent, reason: ReasonNoName, negativeTTL: negativeTTL(r.authority, name)}
	}
	return finding{state: Absent, reason: ReasonNoRecord, negativeTTL: negativeTTL(r.authority, name)}
}

// vouched is the finding where a no has to name the zone that says it, as each zone's no does (RFC 2308 sections 3 and 6): a
// network that says no to everything before a login has none. The root's, of a top-level domain, is not the zone's either.
func (f finding) vouched(r reply, name string) finding {
	if f.reason != ReasonNoName && f.reason != ReasonNoRecord {
		return f
	}
	if slices.ContainsFunc(r.authority, func(rr dns.RR) bool { return isStartOver(rr, name) && dns.CountLabel(rr.Header().Name) > 0 }) {
		return f
	}
	return unknown(ReasonRefused, errors.New("the answer is empty and has no SOA record, so it may not come from the zone (RFC 2308)"))
}

// unlessHeld is the finding where the token must not be anywhere in the answer: an old answer with it, one without authority,
// or one that has it at another name, shows nothing, and is not nothing either.
func (f finding) unlessHeld(r reply, token string) finding {
	held := func(record dns.RR) bool {
		text, ok := record.(*dns.TXT)
		return ok && textOf(text) == token
	}
	if f.state == Present || f.reason == ReasonDNSSEC || f.reason == ReasonAlias || f.askOn || !slices.ContainsFunc(r.answer, held) {
		return f
	}
	text := "the token is in the answer's bytes, but not in its records"
	if f.err != nil {
		text += ": " + f.err.Error()
	}
	return unknown(ReasonMalformed, errors.New(text))
}

// isStartOver tells whether a record is the SOA of a zone that the name lies in.
func isStartOver(record dns.RR, name string) bool {
	h := record.Header()
	return isSOA(record) && h.Class == dns.ClassINET && dns.IsSubDomain(canonical(h.Name), canonical(name))
}

// follow moves along the aliases of one answer section, in whatever order they stand there.
func (t *trail) follow(answer []dns.RR) error {
	for {
		target, found, err := aliasAt(answer, ".", t.at)
		if err != nil || !found {
			return err
		}
		if err := t.step(target); err != nil {
			return err
		}
	}
}

// step goes to one more target.
func (t *trail) step(target string) error {
	if slices.Contains(t.seen, canonical(target)) {
		return fmt.Errorf("the aliases (CNAME) run in a circle: back to %s", shownHost(unrooted(target)))
	}
	if len(t.aliases) == maxAliases {
		return fmt.Errorf("more than %d aliases (CNAME) in a row", maxAliases)
	}
	t.seen = append(t.seen, canonical(target))
	t.aliases = append(t.aliases, unrooted(target))
	t.at = target
	return nil
}

// aliasAt finds where a name leads, by its CNAME or by a DNAME above it, as a server of zone has them; resolvers' is the root.
// Of two ways, or TXT records next to one, nobody can say which holds (RFC 2181 section 10.1).
func aliasAt(answer []dns.RR, zone, name string) (target string, found bool, err error) {
	for _, record := range answer {
		var next string
		switch record := record.(type) {
		case *dns.CNAME:
			if isAt(record, name) {
				next = record.Target
			}
		case *dns.DNAME:
			if next, err = renamed(record, zone, name); err != nil {
				return "", false, err
			}
		}
		if next == "" {
			continue
		}
		if found && canonical(next) != canonical(target) {
			return "", false, fmt.Errorf("%s has more than one alias (CNAME)", shownHost(unrooted(name)))
		}
		target, found = next, true
	}
	if found && len(textsAt(answer, name)) > 0 {
		return "", false, fmt.Errorf("%s has an alias (CNAME) and TXT records", shownHost(unrooted(name)))
	}
	return target, found, nil
}

// errNoSuchName is what a server that renames says by YXDOMAIN.
var errNoSuchName = errors.New("the DNAME there makes an invalid name (YXDOMAIN)")

// renamed is the name that a DNAME above a name puts in its place; empty: none does. Servers have to write the CNAME that
// follows next to it (RFC 6672 section 3.1), but need not. A DNAME outside the zone is not its servers' to tell.
func renamed(d *dns.DNAME, zone, name string) (string, error) {
	owner, labels := canonical(d.Hdr.Name), dns.Split(name)
	below := len(labels) - dns.CountLabel(owner)
	if d.Hdr.Class != dns.ClassINET || below < 1 || !dns.IsSubDomain(owner, canonical(name)) || !dns.IsSubDomain(zone, owner) {
		return "", nil
	}
	kept := name
	if below < len(labels) {
		kept = name[:labels[below]]
	}
	target := kept + strings.TrimPrefix(d.Target, ".") // the root has no label
	if _, err := dns.PackDomainName(target, make([]byte, mostOctets), 0, nil, false); err != nil {
		return "", errNoSuchName
	}
	return target, nil
}

// misled is what an alias comes to that cannot be followed.
func misled(err error) finding {
	if errors.Is(err, errNoSuchName) {
		return unknown(ReasonRCode, err)
	}
	return unknown(ReasonAlias, err)
}

// textsAt gives the TXT records of a name.
func textsAt(answer []dns.RR, name string) []*dns.TXT {
	var texts []*dns.TXT
	for _, record := range answer {
		if text, ok := record.(*dns.TXT); ok && isAt(record, name) {
			texts = append(texts, text)
		}
	}
	return texts
}

func isAt(record dns.RR, name string) bool {
	h := record.Header()
	return h.Class == dns.ClassINET && canonical(h.Name) == canonical(name)
}

// compare looks for the token among the TXT records of the name. If it is not there, the resolver goes on saying so as
// long as it keeps these records: the lowest TTL where they differ (RFC 2181 section 5.2).
func compare(texts []*dns.TXT, token string) finding {
	values := make([]string, len(texts))
	ttl := seconds(texts[0].Hdr.Ttl)
	for i, text := range texts {
		values[i] = textOf(text)
		ttl = min(ttl, seconds(text.Hdr.Ttl))
	}
	if slices.Contains(values, token) {
		return finding{state: Present, reason: ReasonFound, values: values}
	}
	return finding{state: Absent, reason: ReasonOtherValue, values: values, negativeTTL: ttl}
}

// failure names the reason of a response code that is no answer.
func failure(who string, r reply) finding {
	err := fmt.Errorf("the %s answered %s", who, r.rcodeName())
	switch r.rcode {
	case dns.RcodeServerFailure:
		if slices.ContainsFunc(r.errors, isBogus) {
			return unknown(ReasonDNSSEC, err)
		}
		return unknown(ReasonServFail, err)
	case dns.RcodeRefused:
		return unknown(ReasonRefused, err)
	}
	return unknown(ReasonRCode, err)
}

// Extended errors (RFC 8914 section 4) that say more of an answer than its response code.
var (
	byPolicy = []uint16{
		dns.ExtendedErrorCodeForgedAnswer, dns.ExtendedErrorCodeBlocked, dns.ExtendedErrorCodeCensored,
		dns.ExtendedErrorCodeFiltered, dns.ExtendedErrorCodeProhibited,
	}
	stale = []uint16{dns.ExtendedErrorCodeStaleAnswer, dns.ExtendedErrorCodeStaleNXDOMAINAnswer} // RFC 8767
	bogus = []uint16{
		dns.ExtendedErrorCodeDNSBogus, dns.ExtendedErrorCodeSignatureExpired, dns.ExtendedErrorCodeSignatureNotYetValid,
		dns.ExtendedErrorCodeDNSKEYMissing, dns.ExtendedErrorCodeRRSIGsMissing, dns.ExtendedErrorCodeNoZoneKeyBitSet,
		dns.ExtendedErrorCodeNSECMissing, dns.ExtendedErrorCodeSignatureExpiredBeforeValid,
	}
	// uncheckable signatures are no more than a missing AD next to an answer. The last is of RFC 9276 section 3.2.
	uncheckable = []uint16{
		dns.ExtendedErrorCodeUnsupportedDNSKEYAlgorithm, dns.ExtendedErrorCodeUnsupportedDSDigestType,
		dns.ExtendedErrorCodeDNSSECIndeterminate, dns.ExtendedErrorCodeUnsupportedNSEC3IterValue,
	}
)

// withheld tells of answers that are not the zone's word, yes or no: changed or withheld by policy, old ones that the resolver
// serves because it does not reach the zone, or bogus ones, as a resolver gives that only warns.
func withheld(r reply) (finding, bool) {
	for _, code := range r.errors {
		switch {
		case slices.Contains(byPolicy, code.InfoCode):
			return unknown(ReasonRefused, errors.New("the resolver's policy answers in place of the zone")), true
		case slices.Contains(stale, code.InfoCode):
			return unknown(ReasonServFail, errors.New("the resolver has an old answer only: it does not reach the zone")), true
		case slices.Contains(bogus, code.InfoCode):
			return unknown(ReasonDNSSEC, errors.New("the resolver has found that the answer's signatures do not hold, and gives it all the same")), true
		}
	}
	return finding{}, false
}

// isBogus reports whether an extended error blames DNSSEC.
func isBogus(ede *dns.EDNS0_EDE) bool {
	return slices.Contains(bogus, ede.InfoCode) || slices.Contains(uncheckable, ede.InfoCode)
}

// refersElsewhere tells a referral from an empty answer (RFC 2308 section 2.2): a server that neither has the zone nor
// looks further sends name servers, often the root's, and no SOA. It does not know, so it has not said no.
func refersElsewhere(r reply) bool {
	isNS := func(rr dns.RR) bool { _, ok := rr.(*dns.NS); return ok }
	return !r.authoritative && !r.recursion &&
		slices.ContainsFunc(r.authority, isNS) && !slices.ContainsFunc(r.authority, isSOA)
}

// negativeTTL is how long a resolver may remember that there is nothing: the lower of the SOA's own TTL and its MINIMUM
// (RFC 2308 section 5). 0 without the SOA of a zone that the name lies in.
func negativeTTL(authority []dns.RR, name string) time.Duration {
	for _, record := range authority {
		if soa, ok := record.(*dns.SOA); ok && isStartOver(soa, name) {
			return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl))
		}
	}
	return 0
}

// seconds reads a TTL; one with its highest bit set counts as zero (RFC 2181 section 8).
func seconds(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
