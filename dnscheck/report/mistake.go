package report

import (
	"fmt"

	"orgops/dnscheck/dnsname"
)

// Mistake is a possible mistake of a customer with a record. Its text is stable, for machines.
type Mistake string

// The mistakes.
const (
	MistakeApex       Mistake = "at_domain"       // the token is at the domain itself
	MistakeDoubled    Mistake = "domain_appended" // the token is at the host with the domain appended twice
	MistakeLeftOut    Mistake = "label_left_out"  // the token is at the host without one of its labels
	MistakeAbove      Mistake = "at_parent"       // the token is at another name above the host
	MistakeUnderscore Mistake = "no_underscore"   // the token is at the host without its underscores
	MistakeWWW        Mistake = "at_www"          // the token is at www, or below it
	MistakeAtWildcard Mistake = "at_wildcard"     // the token is at a wildcard that does not cover the host
	MistakeQuoted     Mistake = "quoted"          // with quotation marks or backslashes
	MistakePadded     Mistake = "padded"          // with blanks or invisible characters
	MistakeCut        Mistake = "cut"             // only a part of the token
	MistakeSplit      Mistake = "split"           // its parts are in two records
	MistakeLetters    Mistake = "letter_case"     // letters in another case
	MistakeAlong      Mistake = "more_along"      // the value has more than the token
	MistakeTyped      Mistake = "mistyped"        // a few characters in one place differ
	MistakeEmpty      Mistake = "empty"           // the value is empty
	MistakeOther      Mistake = "other_token"     // a value of the token's form: an older one, or another organization's
	MistakeAsAlias    Mistake = "token_as_cname"  // the token is in a CNAME record
	MistakeWildcard   Mistake = "wildcard"        // the value comes from a wildcard, the host has no record
	MistakeAlias      Mistake = "cname"           // a CNAME leads to a name without the token

	MistakeOtherServers Mistake = "other_name_servers" // the token is at name servers to which the zone is not delegated
	// the zone names other name servers than its delegation, and no other mistake was found
	MistakeServersDiffer Mistake = "name_servers_differ"
)

// Finding is one mistake with the record. Its texts are safe to show.
type Finding struct {
	Mistake Mistake `json:"mistake"`
	Host    string  `json:"host"` // where it was found; of name servers, their zone
	// Found has the values there, quoted as printable ASCII without links, at most 64 characters
	// of each value; empty: the token itself, or nothing that the mistake does not say.
	Found    string `json:"found,omitempty"`
	Sentence string `json:"sentence"` // that of Advice
}

// Diagnosis is advice on a missing record. It proves nothing, and is no part of a verdict.
type Diagnosis struct {
	Findings   []Finding `json:"findings,omitempty"`   // the nearest to the right record first
	Unanswered []string  `json:"unanswered,omitempty"` // names without an answer in time
	// ResolversSee says what the resolvers see of a record whose name servers gave no verdict; empty:
	// they were not asked, or the verdict has their answers.
	ResolversSee string `json:"resolvers_see,omitempty"`
}

// advice has the sentences of mistakes: %[1]s is the host of the record, %[2]s and %[3]s are Host
// and Found, and %[4]s is the record's name relative to its zone.
var advice = map[Mistake]string{
	MistakeQuoted:  "The value at %[1]s has quotation marks or backslashes in it (%[3]s): enter it without.",
	MistakePadded:  "The value at %[1]s has blanks or invisible characters in it (%[3]s): enter it without.",
	MistakeLetters: "The value at %[1]s has letters in other case than the expected one (%[3]s): enter it exactly as it was given.",
	MistakeCut:     "The value at %[1]s is only a part of the expected one (%[3]s): enter all of it.",
	MistakeAlong:   "The value at %[1]s has the expected one and more in it (%[3]s): enter the expected value alone.",
	MistakeTyped:   "The value at %[1]s differs from the expected one in a few characters (%[3]s): copy it again.",
	MistakeEmpty:   "The TXT record at %[1]s is empty: enter the expected value.",
	MistakeOther: "The value at %[1]s looks like one that was given before, or to another organization (%[3]s): " +
		"add a TXT record with the expected value there.",
	MistakeSplit: "The value is cut in two at %[1]s, a part in each of two TXT records (%[3]s): put it into one record, as one value.",
	MistakeDoubled: "The record is at %[2]s; it must be at %[1]s. The DNS provider appends the domain itself: " +
		"enter %[4]s as the record's name there, or the full name with a final dot.",
	MistakeWildcard: "The value at %[1]s comes from a wildcard record (*), which answers for every name that has no record of its own: " +
		"add the TXT record at exactly %[1]s.",
	MistakeAtWildcard: "The record is at a wildcard (*), which does not answer for %[1]s; it must be at exactly %[1]s.",
	MistakeAsAlias:    "The expected value is in a CNAME record at %[1]s: delete that, and add a TXT record with the value.",
	MistakeAlias: "There is a CNAME record at %[1]s, which leads to %[3]s, and next to a CNAME no other record counts: " +
		"delete it and add the TXT record, or add the TXT record at the name to which it leads.",
	MistakeOtherServers: "The record was found at name servers (%[3]s) to which %[2]s is not delegated: " +
		"add it at those to which the registrar delegates the domain, or change the delegation there.",
	MistakeServersDiffer: "The zone %[2]s names other name servers (%[3]s) than its delegation: " +
		"make sure to add the record at those to which the registrar delegates the domain, or change the delegation there.",
}

// Advice describes the mistake with the record of a host, and the remedy, for the
// customer. The mistake may be that of another version.
func (f Finding) Advice(host string) string {
	host = dnsname.Shown(dnsname.Unrooted(host))
	sentence := advice[f.Mistake]
	switch {
	case f.Found != "" && !dnsname.Same(f.Host, host) && (sentence == "" || f.Mistake == MistakeDoubled):
		sentence = "There is a record at %[2]s with a value like the expected one (%[3]s): it must be at %[1]s, " +
			"with the value exactly as it was given."
	case sentence == "":
		sentence = "The record is at %[2]s; it must be at %[1]s."
	}
	name, _ := f.Entered(host)
	return fmt.Sprintf(sentence, host, f.Host, f.Found, name)
}

// Entered returns the name under which the record of a host is entered where the found record is,
// and the zone that is appended there, as a record at the host with its domain appended twice
// shows. Of another mistake the name is the host, and the zone is empty.
func (f Finding) Entered(host string) (name, zone string) {
	at := len(host) + len(".")
	if f.Mistake != MistakeDoubled || at >= len(f.Host) {
		return host, ""
	}
	zone = f.Host[at:]
	if len(zone) >= len(host) {
		return host, ""
	}
	return host[:len(host)-len(zone)-len(".")], zone
}
