package dnscheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/untrusted"
)

// State is the state of the token at the host.
type State int

// The states. The zero value is Unknown.
const (
	Unknown State = iota // there is no reliable answer
	Absent               // the zone denies the token
	Present              // the token is there
)

func (s State) String() string {
	switch s {
	case Absent:
		return report.Absent
	case Present:
		return report.Present
	default:
		return report.Unknown
	}
}

// Reason is the reason of a state. Its text is stable, for metrics and machines.
// docs/reference/outcomes.md has the comments of the reasons.
type Reason string

// The reasons. ReasonFound belongs to Present; ReasonNoRecord, ReasonOtherValue and
// ReasonNoName to Absent; the others to Unknown.
const (
	ReasonFound      Reason = "found"               // the token is there
	ReasonNoRecord   Reason = "no_txt_record"       // the name exists, and has no TXT record (NODATA)
	ReasonOtherValue Reason = "other_value"         // TXT records, none with the token
	ReasonNoName     Reason = "name_does_not_exist" // NXDOMAIN
	ReasonServFail   Reason = "servfail"            // SERVFAIL; or an old answer served because the zone does not answer
	// REFUSED, a referral elsewhere, or an answer withheld by policy (RFC 8914 codes 4, 15 to 18)
	ReasonRefused     Reason = "refused"
	ReasonTimeout     Reason = "timeout"            // no answer in time
	ReasonUnreachable Reason = "unreachable"        // the server cannot be reached, or closed the connection
	ReasonMalformed   Reason = "malformed_answer"   // an answer that cannot be read, or does not answer the question
	ReasonAlias       Reason = "alias_chain"        // CNAMEs in a circle, too many in a row, or ambiguous
	ReasonDisagree    Reason = "resolvers_disagree" // some see the token, others see that it is not there
	// signatures do not validate according to at least one resolver, by SERVFAIL or by an extended
	// error
	ReasonDNSSEC Reason = "dnssec_bogus"
	ReasonRCode  Reason = "unexpected_rcode" // another response code

	// Reasons of a proof in which a quorum of the resolvers sees the token.

	// some answers are authenticated by DNSSEC, and too few of those have the token
	ReasonUnconfirmed     Reason = "dnssec_unconfirmed"
	ReasonUnsigned        Reason = "dnssec_missing"    // no answer is authenticated by DNSSEC, and that is required
	ReasonTooFewResolvers Reason = "too_few_resolvers" // there is only one resolver
	ReasonOnePerspective  Reason = "one_perspective"   // too few perspectives see the token, or one denies it

	// A proof that Config.RefuseAliases refuses.
	ReasonAliasOut Reason = "alias_out_of_domain" // through an alias that leads out of the domain

	// through aliases out of the domain, of which one was not shown to be of its name alone: other
	// names have it as well, by a wildcard or DNAME record, or too few servers answered
	ReasonWildcardAlias Reason = "wildcard_alias"

	// Reasons from the zone's own name servers.
	ReasonServersDisagree Reason = "name_servers_disagree" // some have the token, others say that it is not there
	// the name servers have the token, and too few of the resolvers see it yet
	ReasonLag  Reason = "resolvers_lag"
	ReasonLame Reason = "lame_delegation" // the servers in the delegation do not hold the zone
	// the way to the zone's name servers takes too many referrals or queries
	ReasonDelegation Reason = "endless_delegation"
	// the zone above names no name servers; the root denies the top-level domain of a name server, or
	// in a disproof the host's
	ReasonNoServers Reason = "no_name_servers"
	// too few of the resolvers name the name servers of a top-level domain
	ReasonTopLevel Reason = "top_level_domain_unknown"
	ReasonTooFew   Reason = "too_few_name_servers" // at most half of the servers of a zone have answered
	// the name of a server that would make a majority is an alias, which RFC 2181 section 10.3 forbids
	ReasonServerAlias Reason = "name_server_is_alias"
	// servers that would make a majority have IPv6 addresses only, and there is no IPv6 from here
	ReasonNoIPv6 Reason = "no_ipv6"
	// no name server answers, and the probe of our own network found port 53 closed
	ReasonPortClosed Reason = "port_53_closed"
	// no name server answers, and the probe of our own network found port 53 redirected
	ReasonPortRedirected Reason = "port_53_redirected"
	ReasonReferral       Reason = "referral" // of an observation only: the name server refers to others
)

// Basis names the servers on whose answers a verdict is based.
type Basis string

// The bases.
const (
	ByResolvers Basis = "resolvers"
	ByAuthority Basis = "authority"               // the zone's own name servers
	ByBoth      Basis = "authority_and_resolvers" // a proof or a disproof
)

// Observation is the result of one resolver or name server. All texts but Values are safe to
// show.
type Observation struct {
	Resolver    string   // the resolver's name, or the name server's
	Authority   bool     // it is one of the zone's own name servers
	Address     string   // of a name server: "192.0.2.1:53"; empty if it has none that may be queried
	Operator    string   // of a resolver: as returned by Operators
	Perspective string   // of a resolver: "default" if it names none
	Transport   string   // of the last query: "udp", "tcp" or "https"
	State       State    //
	Reason      Reason   //
	Values      []string // of the TXT records: strings joined, foreign bytes, at most 255 of each; at most 10
	MoreValues  int      // values beyond those 10
	Aliases     []string // targets of the CNAMEs that were followed, in order, without the final dot
	RCode       string   // of the last answer: "NOERROR", "NXDOMAIN", …; empty without an answer
	EDE         string   // extended errors of the last answer (RFC 8914), capped, control characters quoted
	// each answer had AD: the resolver validated it (RFC 4035 section 3.2.3); as reliable as resolver
	// and transport
	Authenticated bool
	NegativeTTL   time.Duration // for how long the resolver may cache that the token is absent; 0: not known
	Took          time.Duration // from the first query to the last answer
	Err           string        // for an operator; empty if the answer could be read
}

// Zone is a zone with its name servers. Both are foreign text; empty: not known.
type Zone struct {
	Name    string   // canonical, without the final dot
	Servers []string // their names, likewise, sorted
}

// Verdict is the result of a check, a proof or a disproof.
type Verdict struct {
	State     State
	Reason    Reason
	Host      string // as it was given
	Basis     Basis
	Operator  string // of the zone's name servers, if they were queried: a key ("awsdns", "a+b"), at most 100 bytes
	Note      string // why no name server answered; for an operator
	HostZone  Zone   // the host's own, if its name servers were queried
	Zone      string // whose name servers were queried last, safe to show; empty if none answered
	Servers   int    // the number of its name servers
	Answered  int    // the number of them that answered
	Quorum    int    // how many resolvers have to agree
	Resolvers int    // the number of resolvers

	// Observations are those until the verdict was clear: of at most 16 name servers, then of
	// resolvers in the order of Config.Resolvers.
	Observations []Observation
	NegativeTTL  time.Duration // the longest of the resolvers' observations

	proven record // found present by Prove; zero: none. See Proof.
}

// record is a token and the host whose TXT record should have it.
type record struct{ host, token string }

// isContradiction reports whether an answer was read that contradicts itself or its signature,
// as opposed to a missing answer: there may be something at the host.
func (o Observation) isContradiction() bool {
	switch o.Reason {
	case ReasonAlias, ReasonDNSSEC:
		return true
	case ReasonMalformed:
		return o.RCode != ""
	}
	return false
}

// AliasOut returns the first alias (CNAME or DNAME), a name and its target, that led any
// resolver or name server to the token outside of the host's registered domain.
func (v Verdict) AliasOut() (name, target string, out bool) {
	own := dnsname.Registered(dnsname.Unrooted(v.Host))
	for _, o := range v.Observations {
		if o.State != Present {
			continue
		}
		name = v.Host
		for _, target = range o.Aliases {
			// An escaped dot would resemble one that separates labels.
			if own == "" || strings.Contains(target, `\`) || dnsname.Registered(target) != own {
				return name, target, true
			}
			name = target
		}
	}
	return "", "", false
}

// shownValue is how many bytes of a value are shown.
const shownValue = 100

// Sentence describes the verdict for the customer. It names the host and quotes the first of
// other values, capped to 100 bytes, with anything but printable ASCII escaped.
func (v Verdict) Sentence() string {
	o := v.deciding()
	switch {
	case v.Reason == ReasonOtherValue && len(o.Values) > 0:
		more := andMore(len(o.Values) - 1 + o.MoreValues)
		return fmt.Sprintf("%s: %s%s.", strings.TrimSuffix(v.Plain(), "."),
			untrusted.QuoteFound(o.Values[0], shownValue), more)
	case (v.Reason == ReasonNoName || v.Reason == ReasonNoRecord) && len(o.Aliases) > 0:
		lacks := "does not exist"
		if v.Reason == ReasonNoRecord {
			lacks = "has no TXT record"
		}
		return fmt.Sprintf("%s is an alias (CNAME) of %s, which %s.", dnsname.Shown(v.Host),
			dnsname.Shown(o.Aliases[len(o.Aliases)-1]), lacks)
	case v.Reason == ReasonServersDisagree:
		return strings.TrimSuffix(v.Plain(), ".") + ": " + v.sides() + "."
	case v.Reason == ReasonTooFew && v.Servers > 0:
		enough := "more than half of them have to"
		if 2*v.Answered > v.Servers { // a disproof
			enough = "each of them has to"
		}
		return fmt.Sprintf("Only %d of the %d name servers of %s answered for the TXT record at %s: %s.%s",
			v.Answered, v.Servers, v.Zone, dnsname.Shown(v.Host), enough, v.remedy())
	case v.Reason == ReasonOnePerspective:
		var each []string
		answers := v.perspectives()
		for _, perspective := range slices.Sorted(maps.Keys(answers)) {
			each = append(each, perspective+": "+answers[perspective])
		}
		return strings.TrimSuffix(v.Plain()+" Seen from "+strings.Join(each, ", ")+".", " Seen from .")
	case v.Reason == ReasonServerAlias && o.Resolver != "":
		return fmt.Sprintf("%s It is %s.", v.Plain(), o.Resolver)
	case v.Reason == ReasonAliasOut:
		name, target, _ := v.AliasOut()
		return fmt.Sprintf(
			"The TXT record at %s was found through an alias (CNAME or DNAME) from %s to %s, out of the domain, where others may be able to publish it: "+
				"publish the record at %[1]s itself, instead of an alias.", dnsname.Shown(v.Host), dnsname.Shown(name), dnsname.Shown(target))
	case v.State == Unknown && o.EDE != "":
		role := "resolver"
		if o.Authority {
			role = "name server"
		}
		return fmt.Sprintf("%s The %s says: %s.", v.Plain(), role, o.EDE)
	}
	return v.Plain()
}

// remedy tells who has to do what about the name servers of v.Zone that failed.
func (v Verdict) remedy() string {
	if isRegistry(dns.Fqdn(v.Zone)) {
		return " They are the registry's: that is no fault of the domain's, and is tried again."
	}
	useful := make(map[string]bool)
	for _, o := range v.Observations {
		useful[o.Resolver] = useful[o.Resolver] || o.State != Unknown || o.Reason == ReasonReferral || o.Reason == ReasonAlias
	}
	var silent, unknown []string // servers, by name and address; and those whose address cannot be found
	for _, o := range v.Observations {
		switch shown := fmt.Sprintf("%s (%s)", o.Resolver, o.Address); {
		case !o.Authority || useful[o.Resolver]:
		case o.Address == "":
			unknown = append(unknown, o.Resolver)
		case !slices.Contains(silent, shown):
			silent = append(silent, shown)
		}
	}
	var text string
	if len(silent) > 0 {
		text += " No usable answer: " + someNames(silent) + ". Repair it, or take it out at the registrar."
	}
	if len(unknown) > 0 {
		text += " No address can be found: " + someNames(unknown) + ". The operator of the zone with that name has to " +
			"repair its name servers, or the name has to be taken out at the registrar."
	}
	return text
}

// perspectives returns each perspective's answer, by more than half of its resolvers; nil: none is
// named.
func (v Verdict) perspectives() map[string]string {
	var present, absent, all votes
	for _, o := range v.Observations {
		if o.Authority {
			continue
		}
		all.add(o.Perspective)
		switch o.State {
		case Present:
			present.add(o.Perspective)
		case Absent:
			absent.add(o.Perspective)
		}
	}
	delete(all.in, "")
	if len(all.in) == 0 || (len(all.in) == 1 && all.in[DefaultPerspective] > 0) {
		return nil
	}
	answers := make(map[string]string)
	for perspective, of := range all.in {
		state := Unknown
		switch {
		case 2*present.in[perspective] > of:
			state = Present
		case 2*absent.in[perspective] > of:
			state = Absent
		}
		answers[perspective] = state.String()
	}
	return answers
}

// sides lists the name servers with the token, those without, and those that refer to others.
func (v Verdict) sides() string {
	var with, without, refer []string
	for _, o := range v.Observations {
		name := o.Resolver
		switch {
		case !o.Authority || slices.Contains(slices.Concat(with, without, refer), name):
		case o.State == Present:
			with = append(with, name)
		case o.State == Absent || o.Reason == ReasonAlias:
			without = append(without, name)
		case o.Reason == ReasonReferral:
			refer = append(refer, name)
		}
	}
	var parts []string
	if len(with) > 0 {
		parts = append(parts, someNames(with)+" has it")
	}
	if len(without) > 0 {
		parts = append(parts, someNames(without)+" does not")
	}
	switch {
	case len(parts) == 0:
		return "they refer to different name servers"
	case len(refer) > 0:
		parts = append(parts, someNames(refer)+" refers to other name servers")
	case len(with) == 0:
		return "they name different aliases (CNAME), or only some have one"
	}
	return strings.Join(parts, ", ")
}

func someNames(names []string) string {
	const most = 4 // most zones have two to four
	return strings.Join(names[:min(len(names), most)], ", ") + andMore(len(names)-most)
}

const unchecked = "The TXT record at %[1]s could not be checked: "

// plain has the sentences of the reasons: %[1]s is the host, %[2]s the queried servers.
var plain = map[Reason]string{
	ReasonFound:           "The TXT record at %[1]s holds the expected value.",
	ReasonNoRecord:        "There is no TXT record at %[1]s.",
	ReasonOtherValue:      "The TXT record at %[1]s holds another value than the expected one.",
	ReasonNoName:          "There is no TXT record at %[1]s: the name does not exist.",
	ReasonServFail:        unchecked + "the domain's name servers do not answer as they should (SERVFAIL).",
	ReasonRefused:         unchecked + "%[2]s declined to answer for this name.",
	ReasonTimeout:         unchecked + "no answer came in time.",
	ReasonUnreachable:     unchecked + "%[2]s cannot be reached.",
	ReasonServersDisagree: "The domain's name servers disagree about the TXT record at %[1]s.",
	ReasonLag:             "The domain's name servers have the expected value at %[1]s; not enough of the public resolvers see it yet.",
	ReasonLame:            unchecked + "the servers that are named as the domain's name servers do not hold it.",
	ReasonDelegation:      unchecked + "the way to the domain's name servers does not end.",
	ReasonNoServers: unchecked + "the zone above names no name servers of the domain, or of a name on the way there " +
		"(of an alias, or of a name server).",
	ReasonTopLevel: unchecked + "too few of the resolvers name the name servers of its top-level domain, " +
		"or of another one on the way there.",
	ReasonTooFew: "Too few of the domain's name servers answered for the TXT record at %[1]s: more than half of them have to.",
	ReasonServerAlias: unchecked + "a name server of the domain has an alias (CNAME) for a name, which RFC 2181 section 10.3 " +
		"forbids: name it, at the registrar and in the zone, by a name with addresses of its own.",
	ReasonNoIPv6: unchecked + "%[2]s cannot be reached over IPv6 from here, where there is none. " +
		"That is no fault of the domain's.",
	ReasonMalformed: unchecked + "the answer could not be understood.",
	ReasonAlias:     unchecked + "the aliases (CNAME) there are too many, run in a circle, or contradict other records.",
	ReasonDisagree:  "Resolvers disagree about the TXT record at %[1]s: some see the expected value and others do not (yet).",
	ReasonDNSSEC:    unchecked + "the domain's DNSSEC signatures do not validate.",
	ReasonUnconfirmed: "Only some resolvers confirm by DNSSEC what they found at %[1]s, and too few of those see the expected value: " +
		"check again later; if that lasts, one of the resolvers does not validate DNSSEC, and has to be replaced by one that does.",
	ReasonUnsigned: "The TXT record at %[1]s holds the expected value, but is not secured by DNSSEC, which is required: " +
		"sign the domain's zone, and have its DS record published by the registrar.",
	ReasonTooFewResolvers: "The TXT record at %[1]s holds the expected value as far as one resolver sees it, which proves nothing: " +
		"at least two resolvers of different operators have to be asked.",
	ReasonOnePerspective: "The TXT record at %[1]s holds the expected value as seen from some networks, but not from enough of them. " +
		"Check again later; if that lasts, ",
	ReasonAliasOut: "The TXT record at %[1]s was found through an alias (CNAME or DNAME) that leads out of the domain, " +
		"where others may be able to publish it: publish the record at %[1]s itself, instead of an alias.",
	ReasonWildcardAlias: "The TXT record at %[1]s was found through an alias (CNAME) that leads out of the domain, and it was not shown " +
		"that it is an alias of that name alone: a wildcard or DNAME record gives it to other names, too, or too few servers " +
		"answered. Publish the record at %[1]s itself, or an alias for that name instead of the wildcard.",
	ReasonRCode: unchecked + "the answer was an unexpected error.",
	ReasonPortClosed: unchecked + "no name server of any domain can be reached from here, where port 53 is closed. " +
		"That is no fault of the domain's.",
	ReasonPortRedirected: unchecked + "no name server of any domain can be reached from here, where port 53 is redirected to " +
		"another server. That is no fault of the domain's.",
}

// Plain is Sentence without anything that was found: it names only the host.
func (v Verdict) Plain() string {
	sentence, known := plain[v.Reason]
	switch {
	case !known:
		sentence = "Nothing is known yet of the TXT record at %[1]s."
	case v.Reason == ReasonNoName && len(v.deciding().Aliases) > 0: // another name does not exist
		sentence = plain[ReasonNoRecord]
	case v.Reason == ReasonTimeout && v.Basis == ByAuthority:
		sentence = unchecked + "%[2]s did not answer in time."
	case v.Reason == ReasonOnePerspective && slices.ContainsFunc(v.Observations,
		func(o Observation) bool { return !o.Authority && o.State == Absent }):
		sentence += "have the domain's name servers give the same answer to every network."
	case v.Reason == ReasonOnePerspective:
		sentence += "have the operators of the resolvers in the other networks repair them."
	}
	servers := "the resolver"
	switch {
	case v.Basis == ByAuthority && v.isOfRegistry():
		servers = "the name servers of the domain's registry"
	case v.Basis == ByAuthority:
		servers = "the domain's name servers"
	}
	return fmt.Sprintf(sentence, dnsname.Shown(v.Host), servers)
}

// isOfRegistry reports whether no server of the domain's own zone was asked.
func (v Verdict) isOfRegistry() bool {
	return v.Zone == "" && v.HostZone.Name == "" && slices.ContainsFunc(v.Observations, func(o Observation) bool {
		return o.Authority
	})
}

// deciding returns the observation with the verdict's reason: a resolver's if these were
// queried, too. It is empty if the reason is of all observations.
func (v Verdict) deciding() Observation {
	for _, o := range v.Observations {
		if o.Reason == v.Reason && o.Authority == (v.Basis == ByAuthority) {
			return o
		}
	}
	return Observation{}
}

// Evidence returns the verdict for JSON.
func (v Verdict) Evidence() report.Evidence {
	e := report.Evidence{
		State: v.State.String(), Reason: string(v.Reason), Sentence: v.Sentence(), Basis: string(v.Basis), Note: v.Note,
		Quorum: v.Quorum, Resolvers: v.Resolvers, NegativeTTL: v.NegativeTTL.Seconds(), Said: []report.Observation{},
	}
	for _, o := range v.Observations {
		e.Said = append(e.Said, o.record())
	}
	e.Perspectives = v.perspectives()
	return e
}

func (o Observation) record() report.Observation {
	r := report.Observation{
		Asked: o.Resolver, Authority: o.Authority, Address: o.Address, Operator: o.Operator, Perspective: o.Perspective,
		Transport: o.Transport, State: o.State.String(), Reason: string(o.Reason), MoreValues: o.MoreValues, RCode: o.RCode,
		EDE: o.EDE, Authenticated: o.Authenticated,
		NegativeTTL: o.NegativeTTL.Seconds(), Milliseconds: float64(o.Took.Microseconds()) / 1000, Err: o.Err,
	}
	for _, value := range o.Values {
		r.Values = append(r.Values, untrusted.QuoteFound(value, shownValue))
	}
	for _, name := range o.Aliases {
		r.Aliases = append(r.Aliases, dnsname.Shown(name))
	}
	return r
}

// reasonOf returns the most informative reason of the observations.
func reasonOf(state State, observations []Observation) Reason {
	seen := make(map[Reason]int)
	for _, o := range observations {
		seen[o.Reason]++
	}
	if state == Absent {
		return firstOf(seen, absences)
	}
	if seen[ReasonFound] > 0 && seen[ReasonOtherValue]+seen[ReasonNoRecord]+seen[ReasonNoName] > 0 {
		return ReasonDisagree
	}
	return firstOf(seen, doubtful)
}

func failureOf(observations []Observation) Reason {
	failed := slices.DeleteFunc(slices.Clone(observations),
		func(o Observation) bool { return o.State != Unknown || o.Reason == ReasonReferral })
	if len(failed) == 0 {
		return ReasonTimeout
	}
	return reasonOf(Unknown, failed)
}

// The reasons of Absent and of Unknown, the most informative first: of Unknown those that lie
// with the domain precede those that may lie with us.
var (
	absences = []Reason{ReasonOtherValue, ReasonNoRecord, ReasonNoName}
	doubtful = []Reason{
		ReasonServersDisagree, ReasonDNSSEC, ReasonDelegation, ReasonNoServers, ReasonTooFew, ReasonServerAlias, ReasonLame,
		ReasonServFail, ReasonAlias, ReasonRefused, ReasonRCode, ReasonMalformed, ReasonTimeout, ReasonUnreachable,
		ReasonTopLevel, ReasonNoIPv6, ReasonOnePerspective,
	}
)

func firstOf(seen map[Reason]int, order []Reason) Reason {
	for _, reason := range order {
		if seen[reason] > 0 {
			return reason
		}
	}
	return ReasonMalformed // not reached: each observation has one of these reasons
}
