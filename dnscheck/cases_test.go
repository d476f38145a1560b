package dnscheck_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
)

// caseSection is a section of CASES.md. Scenes are data, which a test runs; the other cases have
// tests of their own.
type caseSection struct {
	title, intro string
	scenes       []caseRow
	cases        []testCase
}

// caseRow is a row of CASES.md.
type caseRow struct{ about, verdict string }

// testCase is a case with tests of its own: functions, or names of those that only some
// builds have or, with "handlers.", of tasks/handlers.
type testCase struct {
	caseRow

	tests []any
}

func tested(about, verdict string, tests ...any) testCase {
	return testCase{caseRow{about, verdict}, tests}
}

// listed returns the rows of scenes.
func listed[S any](scenes []S, of func(S) (string, expected)) (rows []caseRow) {
	for _, s := range scenes {
		name, want := of(s)
		rows = append(rows, caseRow{name, want.state.String() + ": " + strings.ReplaceAll(string(want.reason), "_", " ")})
	}
	return rows
}

func ofProof(s proofScene) (string, expected) { return s.name, s.want }

func caseSections() []caseSection {
	return []caseSection{
		{
			"The wire", "Each message is ignored: the right answer after it is taken. The verdict is that without one.",
			listed(damages(), func(d damage) (string, expected) { return d.name, unknown(d.alone) }),
			[]testCase{
				tested("our id and port, sent from elsewhere", "not received: the true answer's",
					TestRightIDFromAnotherSourceIsDropped),
				tested("wrong ids without end", "unknown, at the timeout", TestFloodOfWrongIDsLastsToTheDeadlineOnly),
				tested("other letters in the question", "queried again", TestForgeryInOtherLettersIsRejected),
				tested("the reply twice", "the reply's", TestDuplicateReplyDoesNoHarm),
				tested("a reply to a check that was given up", "the later answer's own", TestLateReplyDoesNotReachTheNextCheck),
				tested("noise behind the right id", "passed over", FuzzReadReply),
				tested("more records than an honest reply has", "passed over", TestRepliesOfManyRecords,
					TestReplyOfTooManyRecordsIsUnknown),
				tested("a datagram above the advertised size", "the reply's; where it was cut, TCP's",
					TestReplyLongerThanAdvertised),
				tested("truncated: empty, with the token, without it, NXDOMAIN, over TCP too",
					"TCP's; unknown without TCP, and where that is truncated",
					TestTruncatedReplyIsFetchedByTCP, TestAuthorityOverTCPWhereUDPIsTruncated),
				tested("TCP closed, cut short, wrong lengths, one byte a second", "unknown; present where the bytes come whole",
					TestBrokenTCP, TestByteASecondOverTCPEndsWithTheTimeout, TestConnectionsThatBreak),
				tested("one transport dead, the other alive", "the living one's", TestOneTransportDead),
				tested("closed port", "unknown", TestPortClosedOnBoth),
				tested("no answer; an answer around the timeout", "unknown; just before: the answer's", TestAnswersAroundTheTimeout,
					TestConnectionsThatBreak),
				tested("a server that fails on EDNS", "queried without: the answer's", TestServersThatFailOnEDNS),
				tested("given up on the way", "no verdict, the context's error, nothing left open", TestContextEnds,
					TestContextEndsOverOpenConnections, TestNoSocketIsLeftOpen),
			},
		},
		{
			"The answer", "",
			listed(answerScenes(), func(s answerScene) (string, expected) { return s.name, s.want }),
			[]testCase{
				tested("a referral upward from a server that does not resolve", "unknown", TestServersThatLeadNowhere),
				tested("SERVFAIL with any extended error; one next to an answer",
					"unknown, with its own reason where DNSSEC is blamed", TestExtendedErrors, TestBogusAtRealResolvers),
				tested("the token at a name that nothing leads to", "unknown", TestServersThatLeadNowhere),
				tested("alias chains in any order, long, circular; DNAME, with and without the alias that follows from it",
					"present up to 8 hops; unknown beyond, in circles and in contradictions", TestAliasChains,
					TestAliasCircleIsQueriedOnce, TestDNAMEWithoutItsAlias, TestZonesAtRealServers),
				tested("the owner in other letters", "present", TestOwnerInAnyCase),
				tested("TTL 0, and from 2^31 on", "as without", TestTokenCountsWhateverItsTTL),
			},
		},
		{
			"The value", "",
			append(listed(splitValues, func(s splitValue) (string, expected) { return s.name, s.want }),
				listed(otherValues, func(s otherValue) (string, expected) {
					return "the token, " + s.name, absent(dnscheck.ReasonOtherValue)
				})...),
			[]testCase{
				tested("two strings, cut anywhere", "present", TestTokenSplitAtEveryOffset),
				tested("a record without any string", "absent", TestRecordWithoutStrings),
				tested("a thousand records", "present", TestThousandRecordsTheTokenLast, TestRepliesOfManyRecords),
				tested("a token of any bytes", "present", TestOddTokensAreFound, TestUnescape, FuzzUnescape),
				tested("a token of no bytes", "refused", TestEmptyTokenIsRefused),
				tested("another organization's token, only that or next to ours", "absent; present next to ours",
					TestAnotherOrganizationsTokenAtTheSameHost),
			},
		},
		{
			"The name", "", nil,
			[]testCase{
				tested("internationalized, in either form, and wrongly encoded",
					"domains: put into A-labels, or refused; hosts: A-labels only", TestDomains,
					TestDomainsThatAreRefused, TestHostNames),
				tested("dots, blanks, nothing; names and labels at their bounds", "queried within the bounds, else refused",
					TestHostNames, TestDomainsThatAreRefused, TestBadHostsAreNeverQueried, FuzzCheckHost, FuzzCheckDomain),
				tested("one label, addresses, names that are not in the public DNS", "refused", TestHostNames,
					"handlers.TestVerifyRefuses"),
			},
		},
		{
			"The world", "",
			append(listed(worldScenes(), func(s worldScene) (string, expected) { return s.name, s.want }),
				listed(zoneScenes(), func(s zoneScene) (string, expected) { return s.name, s.want })...),
			[]testCase{
				tested("resolvers that see different things", "present or absent by the quorum, else unknown",
					TestResolversThatDiffer, TestProofDoesNotDependOnTheOrderOfAnswers, TestCheckNeedsOneYesOrAQuorumOfNo,
					TestQuorumIsReachedOrNot),
				tested("there, gone, there again",
					"each time as it is; a row stays open until it is proven; a verified domain's absence starts again",
					TestFlappingRecord, "handlers.TestVerifyTokenGone", "handlers.TestRecheckLost"),
				tested("no answer from any server, for an hour or for days",
					"unknown, and right again with the first answer; a row stays open for a day more than its time; a verified domain is neither nearer to its end nor back",
					TestAllServersDownForAWhile, "handlers.TestVerifyUnanswered", "handlers.TestVerifyExpires",
					"handlers.TestRecheckUnknown"),
				tested("an alias into a top-level domain that the root denies, such as a token",
					"absent; a top-level domain of the host's own: absent, but not to a disproof",
					TestAliasIntoATopLevelDomainThatDoesNotExist, TestTopLevelDomainThatDoesNotExist),
				tested("a zone that names the root as its only name server, or none",
					"unknown, with its own reason", TestZoneWithoutNameServers),
				tested("a server that compares letters exactly", "queried again in the given ones: as if it did not",
					TestServerThatComparesLettersExactly),
				tested("a forged answer to that query", "does not count: TCP's", TestForgedAnswerInTheGivenLetters),
				tested("servers with IPv6 addresses only, and no IPv6 here; one with an alias for a name",
					"the others', if they are a majority; else unknown, with its own reason", TestNetworkWithoutIPv6,
					TestNameServerNamedByAnAlias),
				tested("a server that does not have the zone; one with an older zone",
					"the others'; unknown where they contradict each other",
					TestServersThatLeadNowhere, TestServersThatDisagree, TestAddressesOfOneServerThatDisagree, TestServersOutOfReach),
				tested("lost and back within the grace window",
					"the absence is cleared, and nothing was done; of a row that is not proven yet: open meanwhile, then proven",
					"handlers.TestRecheckLost", "handlers.TestVerifyTokenGone"),
				tested("one slow name, one slow resolver or server",
					"the others' verdicts, without delay; a proof waits for each resolver as long as that has",
					TestSlowNameDelaysNoOther, TestSlowResolverDoesNotDelayACheck, TestProofWaitsForEachResolver,
					TestSilentServerDoesNotDelayADecidedVerdict),
				tested("a resolver that affirms every name", "one of three is no quorum; worker doctor names it",
					TestResolversThatMakeAnswersUpDoNotChooseTheNameServers, TestExamine),
				tested("a zone that names other name servers than its delegation",
					"the delegated ones'; where those deny it, the advice names the others, and their records",
					TestDiagnosisOfAZoneThatMoved, TestDiagnosisAtRealServers),
				tested("wildcards and aliases at real servers", "as above", TestZonesAtRealServers),
			},
		},
		{
			"Before an absence is acted upon",
			"Here the verdict is a disproof's (`Checker.Disprove`): all servers and resolvers are queried, and a failure that could look like an absence is unknown. Of the first scenes only resolvers are queried.",
			append(listed(resolverDisproofs, func(s resolverDisproof) (string, expected) { return s.name, s.want }),
				listed(disproofScenes(), func(s disproofScene) (string, expected) { return s.name, s.want })...),
			[]testCase{
				tested("any of these answers, by chance", "by the rules", TestDisproofInWorldsOfChance),
				tested("a server above a referral still has it", "present", TestDisproofCountsServersAboveAReferral,
					TestDisproofAtRealServers),
				tested("a late answer; the limit of queries or time is reached before all have answered; name servers in the cache",
					"the late one's; unknown; looked up again",
					TestDisproofWaitsForAll, TestDisproofThatWasCutShort, TestDisproofUsesNoCache),
				tested("port 53 closed outwards, for a moment or for days", "unknown: the resolvers do not decide alone",
					TestDisproofWherePort53IsClosed),
				tested("name servers of one operator, of two, of a registry, invented by a stranger",
					"one key; one key; none; a short key",
					TestOperatorOf, TestOperatorOfAVerdict, TestOperatorByResolvers, TestOperatorTakesAQuorum, FuzzOperatorOf),
			},
		},
		{
			"Before a domain is proven",
			"Here the verdict is a proof's (`Checker.Prove`), and the resolvers see the token. An attacker holds at most half of the servers of a zone: one that refers to a server of the attacker's, has the token or an alias.",
			listed(hostileServers, ofProof),
			[]testCase{
				tested("a referral of one server, after it was put right", "nothing of it is cached",
					TestReferralOfOneServerIsNotCached, TestDisproofDoesNotFollowTheReferralOfOne),
				tested("one dead server of two; one that changes its answers", "unknown", TestOneDeadServerOfTwo,
					TestServerThatChangesItsAnswers),
				tested("a late no or alias next to a referral", "unknown: the name servers disagree", TestLateAnswerNextToReferrals,
					TestSentenceOfAReferralNextToAnAnswer),
				tested("servers, or a registry's, that refer to different servers, or give other addresses for them",
					"as the majority has it; unknown without one",
					TestDelegationsThatDiffer, TestGlueOfOneServerIsRejected),
				tested("the token at one server, and a referral of another one to a server that denies it", "unknown, not absent",
					TestReferralNextToTheToken),
				tested(
					"servers with names in another zone, of whose servers one is the attacker's, the others silenced or not; the resolvers are led to it",
					"never present by its addresses, nor absent", TestNameServersNamedInAZoneWithOneHostileServer,
					TestAddressesOfNameServers),
				tested("a top-level domain's server, whose address the resolvers gave, as a domain's own server",
					"its address is looked up for the domain", TestResolversAddressIsOfATopLevelDomainOnly),
				tested("many addresses of one name, many names of one machine, more servers than are queried",
					"counted once; a majority of all",
					TestMajorityCountsNamesAndAddresses, TestMoreServersThanAreQueried, TestManyServers),
				tested("a disproof of a zone with more servers than are queried", "unknown: one of the others may have the token",
					TestDisproofOfManyServers),
				tested("all of the zone's servers silent, lame or failing", "unknown: the resolvers are not queried instead",
					TestResolversDoNotReplaceSilentNameServersInAProof, TestModeAuthority),
				tested("port 53 closed or redirected on the way, and resolvers that have the token",
					"unknown, today and tomorrow: the resolvers do not decide in the name servers' place",
					TestRedirectedPort53),
				tested("up to half of a registry's servers refer to the attacker's, the others there or silenced, after a check or not",
					"as more than half of all have it; unknown without", TestRegistryWithHostileServers),
				tested("a minority of a registry's servers stale, silent or refusing", "present, without waiting",
					TestStaleServerOfARegistry),
				tested("half of a country's servers hold a suffix below as well; one refers to another suffix",
					"present; the one is not followed", TestRegistryThatHoldsASuffixBelow),
				tested("the name in a query to a registry", "the registered domain, not the host",
					TestRegistryIsQueriedForTheRegisteredDomain),
				tested("a denial 600 ms after the token", "unknown: a proof waits for each server", TestLateDenial),
				tested("servers with IPv6 addresses that lead nowhere", "present, without waiting", TestIPv6BlackHole),
				tested("name servers that cannot be looked up, with addresses from the registry: of a zone with a dead server, of two zones that name their servers in each other, stale ones",
					"by those that more than half of its servers gave; stale ones are not used where others are found", TestGlueAsASecondChoice),
				tested("a wildcard alias out of the domain, or inside and then out", "unknown, and what to publish",
					TestWildcardAliases, TestWildcardAliasThatTooFewAnswerFor),
				tested("servers and resolvers that do any of this by chance, and honest ones that are silenced",
					"present only where honest servers and resolvers give the token",
					TestProofsInHostileWorlds, "TestHostileWorldsOverSockets"),
				tested("one to eight servers, one of three dead or lame, a zone at each label, aliases", "present",
					TestProofsOfCalmWorlds, TestProofsOfServersNamedElsewhere),
				tested("a name server at an address that is not public: private, reserved, a cloud's platform",
					"not queried: unknown without another",
					TestAddressesThatAreNotQueried, TestIsPublic),
			},
		},
		{
			"What a proof needs of the resolvers",
			"Here the verdict is a proof's (`Checker.Prove`), and where it says *refused* the setting is: no Checker is made.",
			append(listed(signatures, ofProof), listed(requiredSignatures, ofProof)...),
			[]testCase{
				tested(
					"a quorum below all of two, all but one of three to five, all but two of six and more; above the number of resolvers", "refused", TestQuorumOfAProof, TestNewRefusesInvalidConfig),
				tested("mode resolvers: public resolvers without HTTPS", "they do not count; refused if the others are no quorum",
					TestResolversInTheClearAreNoQuorum),
				tested("only one resolver sees the token, the name servers do too", "unknown; a check and advice work",
					TestOneResolverProvesNothing, TestDiagnosisByOneResolver),
				tested(
					"one operator has a quorum: by two addresses, by IPv4 and IPv6, by one network, by one domain in certificates",
					"refused; own resolvers at loopback and private addresses are an operator each", TestNoOperatorIsAQuorum,
					TestOperatorsOfResolvers),
				tested("a late resolver finds the answer bogus", "unknown", TestProofWaitsForEachResolver),
				tested("signatures at real resolvers", "as above", TestValidatedAtRealResolvers),
				tested(
					"perspectives are named, and this machine's, or more than one or two of the others, do not see the token, or not authenticated; one denies it",
					"unknown, with each perspective's answer",
					TestProofSpansPerspectives, TestPerspectivesAtUnbound,
					TestProofsInHostileWorlds),
				tested(
					"all resolvers in one perspective; a public resolver in another than this machine's; one public operator has a quorum all the same", "refused", TestPerspectivesThatCannotBeSpanned),
				tested("one perspective of three is lied to completely, this machine's with its name servers or another",
					"not present", TestOneDeceivedPerspectiveProvesNothing),
				tested("the resolvers of one perspective give other name servers, or deny the record that others are silent about",
					"unknown",
					TestNameServersByOnePerspective, TestDisproofSpansPerspectives),
			},
		},
		{
			"Our own network",
			"Test queries to the root and two top-level domains choose the reason of a verdict that is *unknown* anyway.", nil,
			[]testCase{
				tested("port 53 is closed: no server answers over UDP or TCP", "unknown: port 53 closed", TestProbeNetwork,
					TestNetworkExplains),
				tested("port 53 is redirected: another server answers in place of all of them", "unknown: port 53 redirected",
					TestProbeNetwork, TestNetworkExplains, TestRedirectedPort53),
				tested("only UDP, only TCP or only IPv4 works", "the verdict's own; doctor and the page *Tenants* report it", TestProbeNetwork),
				tested("port 53 is closed, and the resolvers have the token", "unknown; a check reports their answers, which prove nothing",
					TestResolversSee),
				tested("a server of the domain answers, although no other does", "the verdict's own reason", TestNetworkExplains),
			},
		},
		{
			"What a proof does not go through, if that is refused",
			"Here the verdict is that of a proof with `RefuseAliases`, where it would be *present* without.", nil,
			[]testCase{
				tested("an alias within the domain", "present", TestAliasesOutOfTheDomain, TestAliasOut),
				tested("an alias (CNAME or DNAME) out of the domain, at any step of a chain, also one that comes back", "unknown",
					TestAliasesOutOfTheDomain, TestAliasOut, TestStrictProofsAtRealServers),
				tested("such an alias at one resolver only", "unknown", TestAliasOutOfTheDomainAtOneResolver),
			},
		},
	}
}

var updateCases = flag.Bool("update", false, "write CASES.md")

// TestCases compares CASES.md with the cases.
func TestCases(t *testing.T) {
	const file = "CASES.md"
	wanted := casesDocument(t)
	if *updateCases {
		if err := os.WriteFile(file, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, string(text)); diff != "" {
		t.Errorf("%s differs from the cases: go test ./dnscheck -run TestCases -update writes it (-want +got):\n%s",
			file, diff)
	}
}

func casesDocument(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from the tests by go test ./dnscheck -run TestCases -update. Do not edit. -->

# Faults and attacks of the DNS, and their verdicts

Each row without a test is a scene: data that a test runs and requires the verdict of, which is *present*, *absent* or
*unknown*, with its reason. The others have tests of their own, of this package, or of ` + "`tasks/handlers`" +
		` where the
name says so; *refused* means that the question itself is. Tests at real servers (` + "`…Real…`, `…Unbound…`" +
		`) start NSD,
Knot, BIND and Unbound, and are skipped where those are not installed. No test of this package may leave a goroutine
(` + "`main_test.go`) or a socket (`TestNoSocketIsLeftOpen`" + `) behind.
`)
	for _, section := range caseSections() {
		fmt.Fprintf(&b, "\n## %s\n\n", section.title)
		if section.intro != "" {
			fmt.Fprintf(&b, "%s\n\n", section.intro)
		}
		b.WriteString("| Case | Verdict | Tests |\n|---|---|---|\n")
		for _, row := range section.scenes {
			fmt.Fprintf(&b, "| %s | %s | |\n", row.about, row.verdict)
		}
		for _, c := range section.cases {
			var names []string
			for _, test := range c.tests {
				names = append(names, testName(t, test))
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", c.about, c.verdict, strings.Join(names, "`, `"))
		}
	}
	return b.String()
}

// testName returns the name of a test, which must exist.
func testName(t *testing.T, test any) string {
	name, ok := test.(string)
	if !ok {
		name = runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		return name[strings.LastIndex(name, ".")+1:]
	}
	directory := "."
	function, elsewhere := strings.CutPrefix(name, "handlers.")
	if elsewhere {
		directory = filepath.Join("..", "tasks", "handlers")
	}
	files, _ := filepath.Glob(filepath.Join(directory, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "func "+function+"(t ") {
			return name
		}
	}
	t.Errorf("there is no test %s", name)
	return name
}
