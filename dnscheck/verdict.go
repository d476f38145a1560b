package dnscheck

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is what is known of the token at the host.
type State int

// The states. The zero value is Unknown.
const (
	Unknown State = iota // nobody could say
	Absent               // the zone says that it is not there
	Present              // it is there
)

// String is "unknown", "absent" or "present".
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Present:
		return "present"
	default:
		return "unknown"
	}
}

// Reason says why a state was found. Its text is stable, for metrics and machines;
// docs/reference/outcomes.md has the comments of the reasons.
type Reason string

// The reasons. ReasonFound goes with Present; ReasonNoRecord, ReasonOtherValue and ReasonNoName with Absent; the others
// with Unknown.
const (
	ReasonFound       Reason = "found"               // the token is there
	ReasonNoRecord    Reason = "no_txt_record"       // the name exists, and has no TXT record (NODATA)
	ReasonOtherValue  Reason = "other_value"         // TXT records, none with the token
	ReasonNoName      Reason = "name_does_not_exist" // NXDOMAIN
	ReasonServFail    Reason = "servfail"            // SERVFAIL; or an old answer served because the zone does not answer
	ReasonRefused     Reason = "refused"             // REFUSED, a referral elsewhere, or an answer withheld by policy (RFC 8914 codes 4, 15 to 18)
	ReasonTimeout     Reason = "timeout"             // no answer in time
	ReasonUnreachable Reason = "unreachable"         // the resolver cannot be reached, or hung up
	ReasonMalformed   Reason = "malformed_answer"    // an answer that cannot be read, or does not answer the question
	ReasonAlias       Reason = "alias_chain"         // CNAMEs in a circle, too many in a row, or ambiguous
	ReasonDisagree    Reason = "resolvers_disagree"  // some see the token, others see that it is not there
	ReasonDNSSEC      Reason = "dnssec_bogus"        // signatures do not validate according to at least one resolver, by SERVFAIL or by an extended error
	ReasonRCode       Reason = "unexpected_rcode"    // another response code
	ReasonUntrusted   Reason = "resolver_untrusted"  // the resolver answers for names that do not exist, as the canary query showed

	// These come of a proof, where a quorum of the resolvers sees the token.
	ReasonUnconfirmed     Reason = "dnssec_unconfirmed" // some answers are authenticated by DNSSEC, and too few of those have the token
	ReasonUnsigned        Reason = "dnssec_missing"     // no answer is authenticated by DNSSEC, and that is required
	ReasonTooFewResolvers Reason = "too_few_resolvers"  // there is but one resolver
	ReasonOnePerspective  Reason = "one_perspective"    // perspectives are named, and the token is seen from one alone

	// These come of a proof by which the token is there, where the Config refuses how it is.
	ReasonAliasOut       Reason = "alias_out_of_domain"    // through an alias that leads out of the domain
	ReasonWildcard       Reason = "wildcard"               // by a wildcard
	ReasonWildcardUnsure Reason = "wildcard_not_ruled_out" // perhaps by a wildcard

	// These come of asking the zone's own name servers.
	ReasonServersDisagree Reason = "name_servers_disagree" // some have the token, others say that it is not there
	ReasonLag             Reason = "resolvers_lag"         // the name servers have the token, and too few of the resolvers see it yet
	ReasonLame            Reason = "lame_delegation"       // servers that are named as the zone's and do not hold it
	ReasonDelegation      Reason = "endless_delegation"    // the way to the zone's name servers takes too many referrals or queries
	ReasonTooFew          Reason = "too_few_name_servers"  // at most half of the servers of a zone have answered
	ReasonUnprotected     Reason = "resolvers_unprotected" // a proof by resolvers alone, and too few of them are queried over TLS or HTTPS
	ReasonReferral        Reason = "referral"              // of an observation only: the name server refers to others
)

// Basis says by whose word a verdict was reached.
type Basis string

// The bases.
const (
	ByResolvers Basis = "resolvers"
	ByAuthority Basis = "authority"               // the zone's own name servers
	ByBoth      Basis = "authority_and_resolvers" // a proof, or its contrary
)

// Observation is what one vantage point saw. Its texts are safe to show but for Values, which are raw.
type Observation struct {
	Resolver      string        // the resolver's name, or the name server's
	Authority     bool          // it is one of the zone's own name servers
	Address       string        // of a name server: "192.0.2.1:53"; empty where it has none that could be asked
	Operator      string        // of a resolver: who runs it, as Operators has it
	Perspective   string        // of a resolver: its name, "default" where it names none
	Transport     string        // of the last question: "udp", "tcp", "tls" or "https"
	State         State         //
	Reason        Reason        //
	Values        []string      // values of the TXT records there: strings joined, raw bytes of strangers, each capped to 255 bytes; at most 10
	MoreValues    int           // values beyond those 10
	Aliases       []string      // targets of the CNAMEs that were followed, in order, as they came, without the last dot
	RCode         string        // of the last answer: "NOERROR", "NXDOMAIN", …; empty without one
	EDE           string        // extended errors of the last answer (RFC 8914), capped, control characters quoted
	Authenticated bool          // each answer had AD: the resolver says that it validated (RFC 4035 section 3.2.3); worth what resolver and transport are
	NegativeTTL   time.Duration // how long the resolver may go on saying no; 0 when not absent, or not said
	Took          time.Duration // from the first question to the last answer
	Err           string        // what went wrong, for an operator; empty when the answer could be read
}

// Verdict is what the observations come to.
type Verdict struct {
	State     State
	Reason    Reason
	Host      string // as it was given
	Basis     Basis  // who was asked
	Operator  string // who runs the zone's name servers, if they were looked for: a key ("awsdns", "a+b"), at most 100 bytes
	Note      string // why name servers have not said anything, or a wildcard is not ruled out; for an operator
	Zone      string // whose name servers were queried last, safe to show; empty where none were, or none answered
	Servers   int    // how many that zone has
	Answered  int    // how many of them have answered
	Quorum    int    // how many resolvers have to agree, where they are asked
	Resolvers int    // of so many

	// Observations are of those that had answered when the verdict was clear: name servers, at most 16, then resolvers in
	// the order of Config.Resolvers.
	Observations []Observation
	NegativeTTL  time.Duration // longest that a resolver may go on saying no; 0 where none that was asked said so
	// Thin says of a proof, Unknown with ReasonTooFew, that it lacks nothing but name servers that are silent: of the host's
	// own zone at least one has the token and each other is silent, and every resolver has it. See Config.ThinProofs.
	Thin bool
}

// Contested reports whether any answer speaks against the token: a no, another name server's alias or referral, a signature that is
// bogus, a name server that does not hold the zone. No answer does not, nor does SERVFAIL, a resolver's way to say that it got none.
func (v Verdict) Contested() bool {
	return v.State == Absent || v.Reason == ReasonServersDisagree || slices.ContainsFunc(v.Observations, func(o Observation) bool {
		return o.State != Present && !o.Reason.isSilence() && o.Reason != ReasonServFail
	})
}

// isSilence reports whether there was no answer at all.
func (r Reason) isSilence() bool { return r == ReasonTimeout || r == ReasonUnreachable }

// shownValue is how many bytes of a value are shown to people.
const shownValue = 100

// Sentence says for the customer what was found: it names the host and, where another value is there, quotes the
// first one (capped to 100 bytes, control characters and whatever is not ASCII escaped).
func (v Verdict) Sentence() string {
	o := v.telling()
	switch {
	case v.Reason == ReasonOtherValue && len(o.Values) > 0:
		return fmt.Sprintf("%s: %s%s.", strings.TrimSuffix(v.Plain(), "."), shown(o.Values[0], shownValue), andMore(len(o.Values)-1+o.MoreValues))
	case (v.Reason == ReasonNoName || v.Reason == ReasonNoRecord) && len(o.Aliases) > 0:
		lacks := "does not exist"
		if v.Reason == ReasonNoRecord {
			lacks = "has no TXT record"
		}
		return fmt.Sprintf("%s is an alias (CNAME) of %s, which %s.", shownHost(v.Host), shownHost(o.Aliases[len(o.Aliases)-1]), lacks)
	case v.Reason == ReasonServersDisagree:
		return strings.TrimSuffix(v.Plain(), ".") + ": " + v.sides() + "."
	case v.Reason == ReasonTooFew && v.Servers > 0:
		return fmt.Sprintf("Only %d of the %d name servers of %s answered for the TXT record at %s%s.", v.Answered, v.Servers, v.Zone, shownHost(v.Host), v.lacking())
	case v.Reason == ReasonAliasOut:
		name, target, _ := v.AliasOut()
		return fmt.Sprintf("The TXT record at %s was found through an alias (CNAME or DNAME) from %s to %s, out of the domain, where others may be able to publish it: "+
			"publish the record at %[1]s itself, instead of an alias.", shownHost(v.Host), shownHost(name), shownHost(target))
	case v.State == Unknown && o.EDE != "":
		return fmt.Sprintf("%s The %s says: %s.", v.Plain(), o.role(), o.EDE)
	}
	return v.Plain()
}

// lacking is what there is to say of too few name servers.
func (v Verdict) lacking() string {
	switch {
	case !v.Thin:
		return ": more than half of them have to"
	case v.Answered == 1:
		return "; it has the expected value, and so have all resolvers"
	}
	return "; they have the expected value, and so have all resolvers"
}

// sides tells which name servers have the token, which do not, and which refer to others.
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
	const most = 4 // name servers are two to four nearly everywhere
	return strings.Join(names[:min(len(names), most)], ", ") + andMore(len(names)-most)
}

// asked is who was asked last, in the customer's words.
func (v Verdict) asked() string {
	if v.Basis == ByAuthority {
		return "the domain's name servers"
	}
	return "the resolver"
}

func (o Observation) role() string {
	if o.Authority {
		return "name server"
	}
	return "resolver"
}

const unchecked = "The TXT record at %[1]s could not be checked: "

// plain are the sentences of the reasons: %[1]s is the host, and %[2]s who was asked.
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
	ReasonTooFew:          "Too few of the domain's name servers answered for the TXT record at %[1]s: more than half of them have to.",
	ReasonUnprotected: "The TXT record at %[1]s could not be proven: the domain's name servers cannot be reached from here, " +
		"and too few resolvers are queried over TLS or HTTPS to do without.",
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
	ReasonOnePerspective: "The TXT record at %[1]s holds the expected value as seen from one network alone: " +
		"resolvers in at least two have to see it. Check again later; if that lasts, ",
	ReasonAliasOut: "The TXT record at %[1]s was found through an alias (CNAME or DNAME) that leads out of the domain, " +
		"where others may be able to publish it: publish the record at %[1]s itself, instead of an alias.",
	ReasonWildcard: "The expected value at %[1]s comes from a wildcard record (*), which answers for every name without a record of its own: " +
		"publish the TXT record at %[1]s itself, and at no wildcard.",
	ReasonWildcardUnsure: "The TXT record at %[1]s holds the expected value, but too few resolvers could say that it does not come " +
		"from a wildcard record (*): check again later.",
	ReasonUntrusted: unchecked + "the resolver answers for names that do not exist, so its answers do not count.",
	ReasonRCode:     unchecked + "the answer was an unexpected error.",
}

// Plain says the same without anything that was found there: it names nothing but the host that was asked for.
func (v Verdict) Plain() string {
	sentence, known := plain[v.Reason]
	switch {
	case !known:
		sentence = "Nothing is known yet of the TXT record at %[1]s."
	case v.Reason == ReasonNoName && len(v.telling().Aliases) > 0: // then it is another name that does not exist
		sentence = plain[ReasonNoRecord]
	case v.Reason == ReasonTimeout && v.Basis == ByAuthority:
		sentence = unchecked + "the domain's name servers did not answer in time."
	case v.Reason == ReasonOnePerspective && slices.ContainsFunc(v.Observations, func(o Observation) bool { return !o.Authority && o.State == Absent }):
		sentence += "have the domain's name servers give the same answer to every network."
	case v.Reason == ReasonOnePerspective:
		sentence += "have the operators of the resolvers in the other networks repair them."
	}
	return fmt.Sprintf(sentence, shownHost(v.Host), v.asked())
}

// telling is the observation that the verdict's reason comes from; empty where it comes from all of them. Where resolvers were
// asked too the last word was theirs.
func (v Verdict) telling() Observation {
	for _, o := range v.Observations {
		if o.Reason == v.Reason && o.Authority == (v.Basis == ByAuthority) {
			return o
		}
	}
	return Observation{}
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// shown quotes foreign text: at most so many of its bytes, and nothing but printable ASCII.
func shown(s string, most int) string {
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// shownHost leaves a name that looks like one as it is, for it reads better, and quotes any other.
func shownHost(name string) string {
	for _, c := range []byte(name) {
		if !isHostOctet(c) && c != '.' {
			return shown(name, maxName)
		}
	}
	if name == "" || len(name) > maxName+1 {
		return shown(name, maxName)
	}
	return name
}
