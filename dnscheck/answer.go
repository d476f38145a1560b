package dnscheck

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// maxAliases bounds the CNAMEs that are followed, as resolvers do (8 to 16). A verification
// host needs one or two.
const maxAliases = 8

// maxWireName is the length of an encoded name in bytes (RFC 1035 section 3.1).
const maxWireName = 255

// aliasPath leads from a host along its aliases, through one answer or several.
type aliasPath struct {
	name    string   // to query now, as it was received, with the final dot
	targets []string // the targets that were followed, as they were received
	visited []string // canonical names, the host first
}

func newAliasPath(host string) *aliasPath {
	name := dns.Fqdn(host)
	return &aliasPath{name: name, visited: []string{dnsname.Canonical(name)}}
}

// finding is the result of one reply. queryTarget: an alias's target has to be queried.
type finding struct {
	state       State
	reason      Reason
	values      []string
	negativeTTL time.Duration
	queryTarget bool
	err         error
}

func unknown(reason Reason, err error) finding {
	return finding{state: Unknown, reason: reason, err: err}
}

// read returns the finding of a resolver's reply to a query for a.name, and follows the
// aliases in it.
func (a *aliasPath) read(r reply, token string) finding {
	if !r.isAnswer() {
		return failure("resolver", r)
	}
	if f, is := notZones(r); is {
		return f
	}
	before := len(a.targets)
	for { // in any order
		target, err := aliasAt(r.answer, ".", a.name)
		if err == nil && target != "" {
			err = a.follow(target)
		}
		if err != nil {
			return aliasFailure(err)
		}
		if target == "" {
			break
		}
	}
	followed := len(a.targets) > before
	f := findAt(r, a.name, token, followed)
	switch {
	case f.reason != ReasonNoRecord:
	case followed:
		return finding{queryTarget: true}
	case refersElsewhere(r):
		return unknown(ReasonRefused, errors.New("the answer refers to other name servers; is this a recursive resolver?"))
	}
	return f
}

// findAt returns the finding about a name. followed: aliases in the reply led to it.
func findAt(r reply, name, token string, followed bool) finding {
	texts := textsAt(r.answer, name)
	switch {
	case len(texts) > 0 && r.rcode == dns.RcodeNameError:
		return unknown(ReasonMalformed, errors.New("the answer says that the name does not exist, and has records of it"))
	case len(texts) > 0:
		return compare(texts, token)
	case len(r.answer) > 0 && !followed:
		return unknown(ReasonMalformed, errors.New("the answer has records, and none that answers the question"))
	case r.rcode == dns.RcodeNameError: // it is the last target's (RFC 6604 section 3)
		return finding{state: Absent, reason: ReasonNoName, negativeTTL: negativeTTL(r.authority, name)}
	}
	return finding{state: Absent, reason: ReasonNoRecord, negativeTTL: negativeTTL(r.authority, name)}
}

// compare searches the token among the TXT records of the name. A resolver may return the
// same records for their TTL, the lowest if they differ (RFC 2181 section 5.2).
func compare(texts []*dns.TXT, token string) finding {
	values := make([]string, len(texts))
	ttl := seconds(texts[0].Hdr.Ttl)
	for i, text := range texts {
		values[i] = textOf(text)
		ttl = min(ttl, seconds(text.Hdr.Ttl))
	}
	nearestFirst(values, token)
	if slices.Contains(values, token) {
		return finding{state: Present, reason: ReasonFound, values: values}
	}
	return finding{state: Absent, reason: ReasonOtherValue, values: values, negativeTTL: ttl}
}

// requireZone turns a negative finding into Unknown unless the reply has the SOA record of
// its zone (RFC 2308 sections 3 and 6). A captive portal that denies every name sends none.
// The root's denies a top-level domain, which is not the host's zone either; but that of an alias
// may not exist.
func (f finding) requireZone(r reply, path *aliasPath) finding {
	if f.reason != ReasonNoName && f.reason != ReasonNoRecord {
		return f
	}
	if soa := soaOf(r.authority, path.name); soa != nil &&
		(dns.CountLabel(soa.Hdr.Name) > 0 || (f.reason == ReasonNoName && len(path.targets) > 0)) {
		return f
	}
	return unknown(ReasonRefused,
		errors.New("the answer is empty and has no SOA record, so it may not come from the zone (RFC 2308)"))
}

// requireNoToken turns any finding but Present into Unknown if the token is anywhere in the
// answer: in a stale one, in one without authority, or at another name. It proves nothing
// there, but it is no evidence of absence either.
func (f finding) requireNoToken(r reply, token string) finding {
	isToken := func(text *dns.TXT) bool { return textOf(text) == token }
	if f.state == Present || f.reason == ReasonDNSSEC || f.reason == ReasonAlias || f.queryTarget ||
		!slices.ContainsFunc(recordsOf[*dns.TXT](r.answer), isToken) {
		return f
	}
	text := "the token is in the answer's bytes, but not in its records"
	if f.err != nil {
		text += ": " + f.err.Error()
	}
	return unknown(ReasonMalformed, errors.New(text))
}

func (a *aliasPath) follow(target string) error {
	if slices.Contains(a.visited, dnsname.Canonical(target)) {
		return fmt.Errorf("the aliases (CNAME) run in a circle: back to %s", dnsname.Shown(dnsname.Unrooted(target)))
	}
	if len(a.targets) == maxAliases {
		return fmt.Errorf("more than %d aliases (CNAME) in a row", maxAliases)
	}
	a.visited = append(a.visited, dnsname.Canonical(target))
	a.targets = append(a.targets, dnsname.Unrooted(target))
	a.name = target
	return nil
}

// aliasAt returns the target of the name's CNAME, or of a DNAME above it, in an answer from
// a server of zone; of a resolver, zone is the root. Two targets, or TXT records next to
// one, are ambiguous (RFC 2181 section 10.1).
func aliasAt(answer []dns.RR, zone, name string) (target string, err error) {
	for _, record := range answer {
		var next string
		switch record := record.(type) {
		case *dns.CNAME:
			if isAt(record, name) {
				next = record.Target
			}
		case *dns.DNAME:
			if next, err = renamed(record, zone, name); err != nil {
				return "", err
			}
		}
		if next == "" {
			continue
		}
		if target != "" && !dnsname.Same(next, target) {
			return "", fmt.Errorf("%s has more than one alias (CNAME)", dnsname.Shown(dnsname.Unrooted(name)))
		}
		target = next
	}
	if target != "" && len(textsAt(answer, name)) > 0 {
		return "", fmt.Errorf("%s has an alias (CNAME) and TXT records", dnsname.Shown(dnsname.Unrooted(name)))
	}
	return target, nil
}

var errNoSuchName = errors.New("the DNAME there makes an invalid name (YXDOMAIN)")

// renamed returns the name to which a DNAME above a name redirects it; empty: none does.
// Servers should add the CNAME that follows from it (RFC 6672 section 3.1), but not all do.
// The servers of a zone have no authority over a DNAME outside of it.
func renamed(d *dns.DNAME, zone, name string) (string, error) {
	owner := dnsname.Canonical(d.Hdr.Name)
	labels := dns.Split(name)
	below := len(labels) - dns.CountLabel(owner)
	if d.Hdr.Class != dns.ClassINET || below < 1 || !dns.IsSubDomain(owner, dnsname.Canonical(name)) ||
		!dns.IsSubDomain(zone, owner) {
		return "", nil
	}
	prefix := name
	if below < len(labels) {
		prefix = name[:labels[below]]
	}
	target := prefix + strings.TrimPrefix(d.Target, ".") // the root has no label
	if _, err := dns.PackDomainName(target, make([]byte, maxWireName), 0, nil, false); err != nil {
		return "", errNoSuchName
	}
	return target, nil
}

func aliasFailure(err error) finding {
	if errors.Is(err, errNoSuchName) {
		return unknown(ReasonRCode, err)
	}
	return unknown(ReasonAlias, err)
}

func textsAt(answer []dns.RR, name string) []*dns.TXT {
	return slices.DeleteFunc(recordsOf[*dns.TXT](answer), func(text *dns.TXT) bool { return !isAt(text, name) })
}

func isAt(record dns.RR, name string) bool {
	h := record.Header()
	return h.Class == dns.ClassINET && dnsname.Same(h.Name, name)
}

// failure is the finding of a response code that is not an answer.
func failure(server string, r reply) finding {
	err := fmt.Errorf("the %s answered %s", server, r.rcodeName())
	switch r.rcode {
	case dns.RcodeServerFailure:
		if r.hasError(bogus) || r.hasError(uncheckable) {
			return unknown(ReasonDNSSEC, err)
		}
		return unknown(ReasonServFail, err)
	case dns.RcodeRefused:
		return unknown(ReasonRefused, err)
	}
	return unknown(ReasonRCode, err)
}

// Extended errors (RFC 8914 section 4) that qualify an answer.
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
	// uncheckable signatures explain a SERVFAIL. Next to an answer they mean no more than a
	// missing AD. The last one is of RFC 9276 section 3.2.
	uncheckable = []uint16{
		dns.ExtendedErrorCodeUnsupportedDNSKEYAlgorithm, dns.ExtendedErrorCodeUnsupportedDSDigestType,
		dns.ExtendedErrorCodeDNSSECIndeterminate, dns.ExtendedErrorCodeUnsupportedNSEC3IterValue,
	}
)

func (r *reply) hasError(codes []uint16) bool {
	return slices.ContainsFunc(r.errors, func(e *dns.EDNS0_EDE) bool { return slices.Contains(codes, e.InfoCode) })
}

// notZones returns the finding of an answer that is not the zone's, positive or negative:
// changed or withheld by policy, stale because the resolver does not reach the zone, or
// bogus, which some resolvers only warn of.
func notZones(r reply) (finding, bool) {
	switch {
	case r.hasError(bogus):
		return unknown(ReasonDNSSEC,
			errors.New("the resolver has found that the answer's signatures do not hold, and gives it all the same")), true
	case r.hasError(byPolicy):
		return unknown(ReasonRefused, errors.New("the resolver's policy answers in place of the zone")), true
	case r.hasError(stale):
		return unknown(ReasonServFail, errors.New("the resolver has an old answer only: it does not reach the zone")), true
	}
	return finding{}, false
}

// refersElsewhere distinguishes a referral from an empty answer (RFC 2308 section 2.2): a
// server without the zone that does not recurse sends name servers, often the root's, and no
// SOA. It denies nothing.
func refersElsewhere(r reply) bool {
	return !r.authoritative && !r.recursion &&
		len(recordsOf[*dns.NS](r.authority)) > 0 && len(recordsOf[*dns.SOA](r.authority)) == 0
}

// negativeTTL is for how long a resolver may cache a negative answer: the lower of the SOA's
// TTL and its MINIMUM (RFC 2308 section 5), 0 without the SOA of the name's zone.
func negativeTTL(authority []dns.RR, name string) time.Duration {
	if soa := soaOf(authority, name); soa != nil {
		return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl))
	}
	return 0
}

// soaOf returns the SOA record of a zone that contains the name, or nil.
func soaOf(authority []dns.RR, name string) *dns.SOA {
	for _, soa := range recordsOf[*dns.SOA](authority) {
		if soa.Hdr.Class == dns.ClassINET && dns.IsSubDomain(dnsname.Canonical(soa.Hdr.Name), dnsname.Canonical(name)) {
			return soa
		}
	}
	return nil
}

// seconds converts a TTL. One with its highest bit set counts as zero (RFC 2181 section 8).
func seconds(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

func addressIn(record dns.RR) (netip.Addr, bool) {
	var raw []byte
	switch record := record.(type) {
	case *dns.A:
		raw = record.A.To4()
	case *dns.AAAA:
		raw = record.AAAA.To16()
	}
	addr, ok := netip.AddrFromSlice(raw)
	return addr.Unmap(), ok
}
