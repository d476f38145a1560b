package dnscheck_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
)

// proofCases is the part of CASES.md that says what a proof needs. A new row goes here, and to the file by
//
//	go test ./dnscheck -run TestCases -update
var proofCases = []caseSection{
	{"Before a domain is proven",
		"Here the verdict is a proof's (`Checker.Prove`), and the resolvers see the token. An attacker holds at most half of the servers of a zone.",
		[]proofCase{
			{number: 69, about: "one server refers to a server of the attacker's, and the others deny the token, fail or are silent; the same after it was put right",
				verdict: "unknown; nothing of the referral is cached",
				servers: []scene{
					{"a referral, the other denies", []zone{leads, denies}, disagree},
					{"a referral, three deny", []zone{denies, leads, denies, denies}, disagree},
					{"a referral, one denies, two are silent", []zone{nil, leads, denies, nil}, disagree},
					{"two referrals, two deny", []zone{denies, leads, denies, leads}, disagree},
					{"a referral, the other is silent", []zone{leads, nil}, tooFew},
					{"a referral, three are silent", []zone{nil, leads, nil, nil}, tooFew},
					{"two referrals, two are silent", []zone{nil, leads, nil, leads}, tooFew},
					{"a referral, the others fail", []zone{servfail, leads, refused}, tooFew},
				},
				tests: []string{"TestReferralOfOneServerIsNotCached", "TestDisproofDoesNotFollowTheReferralOfOne"}},
			{number: 70, about: "the token or an alias at no more than half of the servers, and the others silent, lame or failing; one dead server of two",
				verdict: "unknown: too few have answered",
				servers: []scene{
					{"the token, the other is silent", []zone{publishes, nil}, tooFew},
					{"the token, three are silent", []zone{nil, nil, publishes, nil}, tooFew},
					{"the token at two of four, the others are silent", []zone{publishes, nil, publishes, nil}, tooFew},
					{"the token, the others fail or are lame", []zone{publishes, servfail, refused, noName}, tooFew},
					{"an alias, the other is silent", []zone{diverts, nil}, tooFew},
					{"an alias, three are silent", []zone{nil, diverts, nil, nil}, tooFew},
					{"an alias to a zone of the attacker's, the other is silent", []zone{misleads, nil}, tooFew},
					{"an alias to a zone of the attacker's at two of four, the others are silent", []zone{misleads, nil, nil, misleads}, tooFew},
					{"the token beside a referral, two are silent", []zone{publishes, leads, nil, nil}, tooFew},
				},
				tests: []string{"TestOneDeadServerOfTwo", "TestServerThatChangesItsAnswers"}},
			{number: 71, about: "a no or an alias next to a referral or the token, also a late one",
				verdict: "unknown: the name servers disagree",
				servers: []scene{
					{"the token, the other denies", []zone{publishes, denies}, disagree},
					{"an alias, the others deny", []zone{denies, diverts, denies}, disagree},
					{"an alias to a zone of the attacker's, the other denies", []zone{misleads, denies}, disagree},
					{"an alias beside a referral", []zone{diverts, leads, nil, nil}, disagree},
					{"an alias beside the token", []zone{diverts, publishes, nil, nil}, disagree},
				},
				tests: []string{"TestLateAnswerNextToReferrals", "TestSentenceOfAReferralNextToAnAnswer"}},
			{number: 72, about: "servers, or a registry's, that refer to different servers, or give other addresses for them",
				verdict: "as the majority has it; unknown without one",
				tests:   []string{"TestDelegationsThatDiffer", "TestGlueOfOneServerIsNotTaken"}},
			{number: 73, about: "many addresses of one name, many names of one machine, more servers than are queried",
				verdict: "counted once; a majority of all",
				tests:   []string{"TestMajorityCountsNamesAndAddresses", "TestMoreServersThanAreQueried"}},
			{number: 74, about: "all of the zone's servers silent, lame or failing",
				verdict: "unknown: the resolvers are not asked instead",
				tests:   []string{"TestSilentNameServersAreNoReasonToAskTheResolversAlone", "TestModeAuto/servers that have nothing to say: the resolvers, for a look"}},
			{number: 75, about: "port 53 closed or redirected on the way",
				verdict: "the verdict of the resolvers over TLS and HTTPS; unknown where these are fewer than a quorum",
				tests:   []string{"TestRedirectedPort53", "TestProofDoesNotBelieveAnotherTopLevelDomain"}},
			{number: 76, about: "servers and resolvers that do any of this by chance, and honest ones that are silenced",
				verdict: "present only where honest servers and resolvers give the token",
				tests:   []string{"TestProofsInHostileWorlds", "TestHostileWorldsOverSockets"}},
			{number: 77, about: "one to eight servers, one of three dead or lame, a zone at each label, aliases",
				verdict: "present",
				tests:   []string{"TestProofsOfCalmWorlds"}},
			{number: 78, about: "a name server at an address that is not public: private, reserved, a cloud's platform",
				verdict: "not asked: unknown without another",
				tests: []string{"TestAddressesThatAreNotAsked", "TestIsPublic/special-purpose registry of IPv4",
					"TestIsPublic/special-purpose registry of IPv6", "TestIsPublic/platforms of clouds", "TestIsPublic/carried by IPv6"}},
		}},
	{"What a proof needs of the resolvers",
		"Here the verdict is a proof's (`Checker.Prove`), and where it says *refused* the setting is: no Checker is made.",
		[]proofCase{
			{number: 79, about: "a quorum below all of two, all but one of three to five, all but two of six and more; above the number of resolvers",
				verdict: "refused",
				tests:   []string{"TestQuorumOfAProof", "TestConfigThatDoesNotFit"}},
			{number: 80, about: "one resolver alone sees the token, the name servers do too",
				verdict: "unknown; a look and advice work",
				tests:   []string{"TestOneResolverProvesNothing", "TestDiagnosisByOneResolver"}},
			{number: 81, about: "one operator has a quorum: by two addresses, by IPv4 and IPv6, by one network, by one domain in certificates",
				verdict: "refused; own resolvers at loopback and private addresses are an operator each",
				tests:   []string{"TestNoOperatorIsAQuorum", "TestOperatorsOfResolvers"}},
			{number: 82, about: "one resolver finds the answer bogus, early or late, and the others see the token, authenticated or not, or deny it",
				verdict: "unknown; one without a vote has no veto",
				resolvers: []scene{
					{"one finds it bogus", []zone{yes, yes, bogus}, isBogus},
					{"one finds it bogus, the others authenticate it", []zone{signed(yes), signed(yes), bogus}, isBogus},
					{"one finds it bogus, and gives it", []zone{yes, yes, warned}, isBogus},
					{"one finds it bogus, and another fails", []zone{yes, servfail, bogus}, isBogus},
					{"one finds it bogus, and another denies it", []zone{yes, noName, bogus}, isBogus},
					{"one finds it bogus, and a quorum denies it", []zone{noName, noName, bogus}, isBogus},
					{"one withholds it without a reason", []zone{yes, yes, withholds(yes)}, isBogus},
					{"one withholds a denial without a reason", []zone{yes, yes, withholds(noName)}, isBogus},
					{"one withholds it, the others authenticate it", []zone{signed(yes), signed(yes), withholds(yes)}, isBogus},
					{"one fails in any case", []zone{yes, yes, servfail}, isFound},
					{"one of seven finds it bogus", []zone{yes, yes, yes, yes, yes, yes, bogus}, isBogus},
				},
				tests: []string{"TestProofHearsEachResolver/a late veto", "TestSignaturesByAResolverWithoutAVote"}},
			{number: 83, about: "none, some or all resolvers authenticate their answers, yes or no",
				verdict: "present where none does, or a quorum sees the token authenticated; else unknown",
				resolvers: []scene{
					{"none authenticates", []zone{yes, yes, yes}, isFound},
					{"all authenticate", []zone{signed(yes), signed(yes), signed(yes)}, isFound},
					{"a quorum authenticates", []zone{signed(yes), yes, signed(yes)}, isFound},
					{"a quorum authenticates, and one fails", []zone{signed(yes), servfail, signed(yes)}, isFound},
					{"one of three authenticates", []zone{yes, signed(yes), yes}, unconfirmed},
					{"one of three authenticates that it is not there", []zone{yes, yes, signed(noName)}, unconfirmed},
					{"one of three authenticates another value", []zone{yes, yes, signed(noValue)}, unconfirmed},
					{"a failure with AD authenticates nothing", []zone{yes, yes, signed(servfail)}, isFound},
					{"three of five authenticate", []zone{signed(yes), signed(yes), signed(yes), yes, yes}, unconfirmed},
					{"four of five authenticate", []zone{signed(yes), signed(yes), signed(yes), yes, signed(yes)}, isFound},
					{"an authenticated yes and two nos", []zone{signed(yes), noName, noName}, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
					{"an authenticated yes, a yes and a no", []zone{signed(yes), yes, noName}, unconfirmed},
				}},
			{number: 84, about: "DNSSEC is required, and none authenticates, or too few",
				verdict:  "unknown",
				required: true,
				resolvers: []scene{
					{"required, and all authenticate", []zone{signed(yes), signed(yes), signed(yes)}, isFound},
					{"required, and a quorum authenticates", []zone{signed(yes), signed(yes), yes}, isFound},
					{"required, and none authenticates", []zone{yes, yes, yes}, unsigned},
					{"required, and too few authenticate", []zone{yes, signed(yes), yes}, unconfirmed},
					{"required, and a quorum denies it", []zone{yes, noName, noName}, expected{dnscheck.Absent, dnscheck.ReasonNoName}},
					{"required, and one finds it bogus", []zone{signed(yes), signed(yes), bogus}, isBogus},
				},
				tests: []string{"TestValidatedAtRealResolvers"}},
			{number: 85, about: "perspectives are named, and the resolvers of one alone see the token, or see it authenticated; the resolvers over TLS are all in one, where port 53 is closed",
				verdict: "unknown: seen from one network alone; too few resolvers over TLS",
				tests:   []string{"TestProofSpansPerspectives", "TestPerspectivesWherePort53IsClosed", "TestPerspectivesAtUnbound", "TestProofsInHostileWorlds"}},
			{number: 86, about: "all resolvers in one perspective; a public resolver in another than this machine's; one public operator has a quorum all the same",
				verdict: "refused",
				tests:   []string{"TestPerspectivesThatCannotBeSpanned"}},
			{number: 87, about: "the resolvers of one perspective give other name servers, or deny the record that others are silent about",
				verdict: "unknown",
				tests:   []string{"TestNameServersByOnePerspective", "TestDisproofSpansPerspectives"}},
		}},
	{"A proof that lacks name servers alone",
		"Here the verdict is a proof's (`Checker.Prove`) with `Config.ThinProofs`: *thin* is unknown, marked so, and nothing is proven by it.",
		[]proofCase{
			{number: 88, about: "the token at no more than half of the servers, and the others silent",
				verdict: "thin, if every resolver has it; without the setting the resolvers are not asked",
				tests:   []string{"TestThinProofs", "TestSentenceOfAThinProof", "TestThinProofTakesEveryResolver/each has it"}},
			{number: 89, about: "the others fail, refuse, do not hold the zone, refer elsewhere or deny it; more servers than are queried; no time to hear them",
				verdict: "unknown, not thin; the resolvers are not asked",
				tests:   []string{"TestThinProofs/the other refuses", "TestThinProofIsContested", "TestThinProofHearsAllServers", "TestThinProofThatWasCutShort", "TestContestedByOneOfMany"}},
			{number: 90, about: "an alias, or a delegation on the way, of too few servers; an alias of all into a zone of which too few answer",
				verdict: "unknown, not thin",
				tests:   []string{"TestThinProofs/an alias alone", "TestThinProofs/a zone at the host that one server refers to", "TestThinProofIsOfTheHostsOwnZone"}},
			{number: 91, about: "one resolver denies it, has another value, finds it bogus, fails, is silent or alone",
				verdict: "unknown, not thin; told from silence where it denies it",
				tests:   []string{"TestThinProofTakesEveryResolver"}},
			{number: 92, about: "servers and resolvers that do any of this by chance",
				verdict: "never present by it",
				tests:   []string{"TestThinProofsInHostileWorlds"}},
			{number: 93, about: "thin for a time: without a break; denied at any check, of another host or token; with checks that nobody answers; with a long gap; with executions that are killed, repeated or two at once",
				verdict: "accepted after that time; begun anew; not counted; begun anew; not earlier",
				tests:   []string{"engine.TestVerifyThin", "engine.TestVerifyThinContested", "engine.TestVerifyThinUnanswered", "engine.TestVerifyThinRecord", "engine.TestVerifyThinKilled", "engine.TestVerifyThin/off", "engine.TestSweepsAcceptNoThinProof"}},
		}},
	{"What a proof does not go through, if that is refused",
		"Here the verdict is that of a proof with `RefuseAliases` (the first three) or `RefuseWildcards`, where it would be *present* without.",
		[]proofCase{
			{number: 94, about: "an alias within the domain",
				verdict: "present",
				tests:   []string{"TestAliasesOutOfTheDomain/within the domain", "TestAliasOut"}},
			{number: 95, about: "an alias (CNAME or DNAME) out of the domain, at any step of a chain, also one that comes back",
				verdict: "unknown",
				tests:   []string{"TestAliasesOutOfTheDomain", "TestAliasOut", "TestStrictProofsAtRealServers"}},
			{number: 96, about: "such an alias at one resolver only",
				verdict: "unknown",
				tests:   []string{"TestAliasOutOfTheDomainAtOneResolver"}},
			{number: 97, about: "a wildcard with the token, or with an alias that leads to it",
				verdict: "unknown",
				tests:   []string{"TestWildcardsAreRefused", "TestStrictProofsAtRealServers"}},
			{number: 98, about: "a wildcard with something else, and a record of the host's own",
				verdict: "present",
				tests:   []string{"TestWildcardsAreRefused/another value everywhere else", "TestWildcardsAreRefused/an alias everywhere else", "TestStrictProofsAtRealServers"}},
			{number: 99, about: "a wildcard's alias to a name that has the token for one query and not for the next",
				verdict: "unknown: the host and its sibling are aliases",
				tests:   []string{"TestWildcardByResolvers/an alias at both, to nothing for the sibling", "TestWildcardByResolvers/an alias at both, that one resolver sees"}},
			{number: 100, about: "one resolver has the token at the sibling",
				verdict: "unknown; one without a vote has no say",
				tests:   []string{"TestWildcardByResolvers/one has it", "TestWildcardByAResolverWithoutAVote"}},
			{number: 101, about: "too few resolvers say what the sibling has, one finds it bogus, or the host is too long to have a sibling",
				verdict: "unknown",
				tests:   []string{"TestWildcardByResolvers/too few say that they do not have it", "TestWildcardByResolvers/one finds the signatures bogus", "TestSiblingOfALongHost"}},
			{number: 102, about: "port 53 closed on the way",
				verdict: "only resolvers over TLS and HTTPS are asked for the sibling",
				tests:   []string{"TestSiblingWherePort53IsClosed"}},
			{number: 103, about: "a look, a disproof, a proof that is not made, or a Checker without the setting",
				verdict: "no sibling is asked for",
				tests:   []string{"TestWhoIsAskedForTheSibling"}},
		}},
}

// What the scenes end in.
var (
	isFound     = expected{dnscheck.Present, dnscheck.ReasonFound}
	disagree    = expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}
	tooFew      = expected{dnscheck.Unknown, dnscheck.ReasonTooFew}
	isBogus     = expected{dnscheck.Unknown, dnscheck.ReasonDNSSEC}
	unconfirmed = expected{dnscheck.Unknown, dnscheck.ReasonUnconfirmed}
	unsigned    = expected{dnscheck.Unknown, dnscheck.ReasonUnsigned}
)

type caseSection struct {
	title, intro string
	cases        []proofCase
}

// proofCase is a row, with scenes where a few answers are all there is to a test.
type proofCase struct {
	number         int
	about, verdict string
	servers        []scene  // by the servers of the zone: TestHostileNameServersProveNothing
	resolvers      []scene  // by the resolvers: TestSignaturesInAProof
	required       bool     // Config.RequireDNSSEC
	tests          []string // others: "TestName/subtest"
}

// scene has each of the servers, or of the resolvers, answer as a zone does; nil: it is silent.
type scene struct {
	name    string
	answers []zone
	want    expected
}

var updateCases = flag.Bool("update", false, "write CASES.md")

// TestCases wants CASES.md to have what proofCases says.
func TestCases(t *testing.T) {
	const file = "CASES.md"
	const first, last = "<!-- Written by go test ./dnscheck -run TestCases -update. -->\n", "<!-- Up to here. -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), first)
	_, after, ends := strings.Cut(rest, last)
	if !begins || !ends {
		t.Fatalf("%s: want the lines %q and %q", file, first, last)
	}
	wanted := before + first + writtenCases() + last + after
	if *updateCases {
		if err := os.WriteFile(file, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(wanted, string(text)); diff != "" {
		t.Errorf("%s differs from proofCases: go test ./dnscheck -run TestCases -update writes it (-want +got):\n%s", file, diff)
	}
}

func writtenCases() string {
	var b strings.Builder
	for _, section := range proofCases {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| # | Case | Verdict | Tests |\n|---|---|---|---|\n", section.title, section.intro)
		for _, c := range section.cases {
			fmt.Fprintf(&b, "| %d | %s | %s | `%s` |\n", c.number, c.about, c.verdict, strings.Join(c.allTests(), "`, `"))
		}
	}
	return b.String() + "\n"
}

// allTests returns the tests of the row, those of its scenes first.
func (c proofCase) allTests() []string {
	var names []string
	for _, s := range c.servers {
		names = append(names, "TestHostileNameServersProveNothing/"+s.name)
	}
	for _, s := range c.resolvers {
		names = append(names, "TestSignaturesInAProof/"+s.name)
	}
	return slices.Concat(names, c.tests)
}
