package dnscheck_test

import "orgops/dnscheck"

// caseTable has the cases of CASES.md. Add a case here, and update the file with
//
//	go test ./dnscheck -run TestCases -update
var caseTable = []caseSection{
	{title: "The wire", cases: []testCase{
		{
			about:   "another id, then ours",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/wrong id", "TestOnlyDamagedRepliesAreUnknown",
			},
		},
		{
			about:   "our id and port, sent from elsewhere",
			verdict: "not received: the true answer's",
			tests:   []string{"TestRightIDFromAnotherSourceIsDropped"},
		},
		{
			about:   "wrong ids without end",
			verdict: "unknown, at the timeout",
			tests:   []string{"TestFloodOfWrongIDsLastsToTheDeadlineOnly"},
		},
		{
			about:   "another name, type or class in the question; other letters",
			verdict: "passed over; letters: queried again",
			tests: []string{
				"TestDamagedRepliesArePassedOver/wrong name in the question",
				"TestDamagedRepliesArePassedOver/wrong type in the question",
				"TestDamagedRepliesArePassedOver/wrong class in the question",
				"TestForgeryInOtherLettersIsRejected",
			},
		},
		{
			about:   "no question, two questions, a count of two",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/no question",
				"TestDamagedRepliesArePassedOver/two questions",
				"TestDamagedRepliesArePassedOver/question that is counted twice",
			},
		},
		{
			about:   "a query instead of a response, our own given back",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/not a response",
				"TestDamagedRepliesArePassedOver/our own query",
			},
		},
		{
			about:   "another opcode",
			verdict: "passed over",
			tests:   []string{"TestDamagedRepliesArePassedOver/other opcode"},
		},
		{
			about:   "the reply twice",
			verdict: "the reply's",
			tests:   []string{"TestDuplicateReplyDoesNoHarm"},
		},
		{
			about:   "a reply to a check that was given up",
			verdict: "the later answer's own",
			tests:   []string{"TestLateReplyDoesNotReachTheNextCheck"},
		},
		{
			about:   "less than a header, or nothing",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/empty message", "TestDamagedRepliesArePassedOver/one byte",
				"TestDamagedRepliesArePassedOver/eleven bytes",
			},
		},
		{
			about:   "noise behind the right id",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/random bytes behind our id", "FuzzReadReply",
			},
		},
		{
			about:   "bytes after the end",
			verdict: "passed over",
			tests:   []string{"TestDamagedRepliesArePassedOver/trailing garbage"},
		},
		{
			about:   "sections that hold more or less than their counts; more records than an honest reply has",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/count of answers too high",
				"TestDamagedRepliesArePassedOver/count of answers too low",
				"TestDamagedRepliesArePassedOver/count of answers without any",
				"TestDamagedRepliesArePassedOver/count of authority records too high",
				"TestDamagedRepliesArePassedOver/count of additional records too high",
				"TestRepliesOfManyRecords", "TestReplyOfTooManyRecordsIsUnknown",
			},
		},
		{
			about:   "compression in a circle or out of bounds, names and labels too long",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/pointer to itself",
				"TestDamagedRepliesArePassedOver/two pointers in a circle",
				"TestDamagedRepliesArePassedOver/pointer past the end",
				"TestDamagedRepliesArePassedOver/over-long name",
				"TestDamagedRepliesArePassedOver/label of 64 bytes",
			},
		},
		{
			about:   "a datagram above the advertised size",
			verdict: "the reply's; where it was cut, TCP's",
			tests:   []string{"TestReplyLongerThanAdvertised"},
		},
		{
			about:   "truncated: empty, with the token, without it, NXDOMAIN",
			verdict: "TCP's; unknown without TCP",
			tests: []string{
				"TestTruncatedReplyIsFetchedByTCP", "TestAuthorityOverTCPWhereUDPIsTruncated",
			},
		},
		{
			about:   "truncated over TCP",
			verdict: "unknown",
			tests:   []string{"TestTruncatedReplyIsFetchedByTCP/truncated over TCP too"},
		},
		{
			about:   "TCP closed, cut short, wrong lengths, one byte a second",
			verdict: "unknown; present where the bytes come whole",
			tests: []string{
				"TestBrokenTCP", "TestByteASecondOverTCPEndsWithTheTimeout", "TestConnectionsThatBreak",
			},
		},
		{
			about:   "another id over TCP",
			verdict: "passed over",
			tests: []string{
				"TestDamagedRepliesArePassedOver/wrong id",
			},
		},
		{
			about:   "one transport dead, the other alive",
			verdict: "the living one's",
			tests:   []string{"TestOneTransportDead"},
		},
		{
			about:   "closed port",
			verdict: "unknown",
			tests:   []string{"TestPortClosedOnBoth"},
		},
		{
			about:   "no answer; an answer around the timeout",
			verdict: "unknown; just before: the answer's",
			tests: []string{
				"TestAnswersAroundTheTimeout", "TestConnectionsThatBreak",
			},
		},
		{
			about:   "a server that fails on EDNS; two OPT records",
			verdict: "queried without: the answer's; passed over",
			tests: []string{
				"TestServersThatFailOnEDNS", "TestDamagedRepliesArePassedOver/two OPT records",
			},
		},
		{
			about:   "given up on the way",
			verdict: "no verdict, the context's error, nothing left open",
			tests: []string{
				"TestContextEnds", "TestContextEndsOverOpenConnections", "TestNoSocketIsLeftOpen",
			},
		},
	}},
	{title: "The answer", cases: []testCase{
		{
			about:   "no such name, or no record, with and without SOA",
			verdict: "absent; cached as long as the SOA says",
			tests:   []string{"TestNegativeAnswers"},
		},
		{
			about:   "a referral upward from a server that does not resolve",
			verdict: "unknown",
			tests: []string{
				"TestAnswersThatAreNeitherYesNorNo/upward referral",
				"TestServersThatLeadNowhere/refers to the root", "TestServersThatLeadNowhere/refers upward",
			},
		},
		{
			about:   "SERVFAIL with any extended error; one next to an answer",
			verdict: "unknown, with its own reason where DNSSEC is blamed",
			tests:   []string{"TestExtendedErrors", "TestBogusAtRealResolvers"},
		},
		{
			about:   "REFUSED and odd response codes",
			verdict: "unknown",
			tests: []string{
				"TestAnswersThatAreNeitherYesNorNo/REFUSED", "TestAnswersThatAreNeitherYesNorNo/YXDOMAIN",
				"TestAnswersThatAreNeitherYesNorNo/extended code without a name",
			},
		},
		{
			about:   "NXDOMAIN and an alias in one answer",
			verdict: "absent, since the target does not exist; unknown if the answer has its record",
			tests: []string{
				"TestAliasesThatEndInNothing/NXDOMAIN beside the alias",
				"TestAnswersThatAreNeitherYesNorNo/NXDOMAIN with an alias and the token at its target",
				"TestAliasesThatCannotBeFollowed/circle under NXDOMAIN",
			},
		},
		{
			about:   "the token at a name that nothing leads to",
			verdict: "unknown",
			tests: []string{
				"TestAnswersThatAreNeitherYesNorNo/TXT of another name, no alias",
				"TestServersThatLeadNowhere/answers about another name",
			},
		},
		{
			about:   "alias chains in any order, long, circular, ambiguous; DNAME, with and without the alias that follows from it",
			verdict: "present up to 8 hops; unknown beyond, in circles and in contradictions",
			tests: []string{
				"TestAliasChains", "TestAliasesThatCannotBeFollowed", "TestAliasCircleIsQueriedOnce",
				"TestAuthorityFindsTheZone/an alias more",
				"TestAuthorityFindsTheZone/a DNAME above the host", "TestDNAMEWithoutItsAlias",
				"TestZonesAtRealServers",
			},
		},
		{
			about:   "the token outside the answer section",
			verdict: "absent",
			tests: []string{
				"TestNegativeAnswers/token in the authority section only",
				"TestNegativeAnswers/token in the additional section only",
			},
		},
		{
			about:   "the token in another class or type",
			verdict: "unknown",
			tests: []string{
				"TestAnswersThatAreNeitherYesNorNo/class CHAOS",
				"TestAnswersThatAreNeitherYesNorNo/type SPF", "TestAnswersThatAreNeitherYesNorNo/type NULL",
			},
		},
		{
			about:   "the owner in other letters; dots that are escaped",
			verdict: "present; passed over or unknown",
			tests: []string{
				"TestOwnerInAnyCase", "TestAnswersThatAreNeitherYesNorNo/TXT of a name with an escaped dot",
				"TestDamagedRepliesArePassedOver/escaped dot in the question",
			},
		},
		{
			about:   "TTL 0, and from 2^31 on",
			verdict: "as without; not cached",
			tests: []string{
				"TestTokenCountsWhateverItsTTL", "TestNegativeAnswers/other value with TTL 0",
				"TestNegativeAnswers/other value with TTL 2^31", "TestNegativeAnswers/SOA with TTL 2^31",
			},
		},
	}},
	{title: "The value", cases: []testCase{
		{
			about:   "two strings, cut anywhere",
			verdict: "present",
			tests: []string{
				"TestTokenSplitAtEveryOffset", "TestStringsOfOneRecordAreJoined/an byte a string",
			},
		},
		{
			about:   "empty strings among them",
			verdict: "present",
			tests:   []string{"TestStringsOfOneRecordAreJoined/empty strings around and between"},
		},
		{
			about:   "values as long as a string, and longer",
			verdict: "present where the same, absent where longer",
			tests: []string{
				"TestStringsOfOneRecordAreJoined/255 bytes", "TestStringsOfOneRecordAreJoined/2,000 bytes",
				"TestStringsOfOneRecordAreJoined/one byte too many",
			},
		},
		{
			about:   "a record without any string",
			verdict: "absent",
			tests:   []string{"TestRecordWithoutStrings"},
		},
		{
			about:   "a thousand records",
			verdict: "present",
			tests: []string{
				"TestThousandRecordsTheTokenLast", "TestRepliesOfManyRecords/as many as are read",
			},
		},
		{
			about:   "more or less than the token, dressed up, written otherwise",
			verdict: "absent",
			tests:   []string{"TestOnlyTheExactValueCounts"},
		},
		{
			about:   "bytes above ASCII",
			verdict: "absent; present where the token has them",
			tests: []string{
				"TestOnlyTheExactValueCounts/bytes above ASCII", "TestOddTokensAreFound", "TestUnescape",
				"FuzzUnescape",
			},
		},
		{
			about:   "half in one record, half in another",
			verdict: "absent",
			tests: []string{
				"TestStringsOfOneRecordAreJoined/halves in two records",
				"TestStringsOfOneRecordAreJoined/halves in two records, the other way round",
			},
		},
		{
			about:   "a token of no bytes",
			verdict: "refused",
			tests:   []string{"TestEmptyTokenIsRefused"},
		},
		{
			about:   "another organization's token, only that or next to ours",
			verdict: "absent; present next to ours",
			tests:   []string{"TestAnotherOrganizationsTokenAtTheSameHost"},
		},
	}},
	{title: "The name", cases: []testCase{
		{
			about:   "internationalized, in either form, and wrongly encoded",
			verdict: "domains: put into A-labels, or refused; hosts: A-labels only",
			tests: []string{
				"TestDomains", "TestDomainsThatAreRefused/A-label that decodes to nothing",
				"TestHostNames/U-label", "TestHostNames/A-label",
			},
		},
		{
			about:   "dots, blanks, nothing; names and labels at their bounds",
			verdict: "queried within the bounds, else refused",
			tests: []string{
				"TestHostNames", "TestDomainsThatAreRefused", "TestBadHostsAreNeverQueried",
				"FuzzCheckHost", "FuzzCheckDomain",
			},
		},
		{
			about:   "one label, addresses, names that are not in the public DNS",
			verdict: "refused",
			tests: []string{
				"TestHostNames/single label", "TestHostNames/IPv4", "TestHostNames/beneath localhost",
				"TestHostNames/arpa", "TestHostNames/onion", "TestHostNames/local",
				"engine.TestVerifyRefuses",
			},
		},
	}},
	{title: "The world", cases: []testCase{
		{
			about:   "a wildcard: an old value, the token, an alias",
			verdict: "as if the wildcard's record were the host's",
			tests:   []string{"TestWildcards", "TestZonesAtRealServers"},
		},
		{
			about:   "resolvers that see different things",
			verdict: "present or absent by the quorum, else unknown",
			tests: []string{
				"TestResolversThatDiffer", "TestProofDoesNotDependOnTheOrderOfAnswers",
				"TestCheckNeedsOneYesOrAQuorumOfNo", "TestQuorumIsReachedOrNot",
			},
		},
		{
			about:   "there, gone, there again",
			verdict: "each time as it is; a row stays open until it is proven; a verified domain's absence starts again",
			tests: []string{
				"TestFlappingRecord", "engine.TestVerifyTokenGone", "engine.TestRecheckLost",
			},
		},
		{
			about:   "no answer from any server, for an hour or for days",
			verdict: "unknown, and right again with the first answer; a row stays open for a day more than its time; a verified domain is neither nearer to its end nor back",
			tests: []string{
				"TestAllServersDownForAWhile", "engine.TestVerifyUnanswered",
				"engine.TestVerifyExpires/no answer", "engine.TestRecheckUnknown",
			},
		},
		{
			about:   "a server that does not have the zone; one with an older zone",
			verdict: "the others'; unknown where they contradict each other",
			tests: []string{
				"TestServersThatLeadNowhere", "TestServersThatDisagree",
				"TestAddressesOfOneServerThatDisagree", "TestServersOutOfReach",
			},
		},
		{
			about:   "lost and back within the grace window",
			verdict: "the absence is cleared, and nothing was done; of a row that is not proven yet: open meanwhile, then proven",
			tests:   []string{"engine.TestRecheckLost", "engine.TestVerifyTokenGone"},
		},
		{
			about:   "a parking zone, with something for every name",
			verdict: "absent or unknown, never present",
			tests:   []string{"TestParkingZones"},
		},
		{
			about:   "one slow name, one slow resolver or server",
			verdict: "the others' verdicts, without delay; a proof waits for each resolver as long as that has",
			tests: []string{
				"TestSlowNameDelaysNoOther",
				"TestSlowResolverDoesNotDelayACheck", "TestProofWaitsForEachResolver",
				"TestSilentServerDoesNotDelayADecidedVerdict",
			},
		},
		{
			about:   "a resolver that affirms every name",
			verdict: "one of three is no quorum; worker doctor names it",
			tests:   []string{"TestResolversThatMakeAnswersUpDoNotChooseTheNameServers", "TestExamine"},
		},
		{
			about:   "a zone that names other name servers than its delegation",
			verdict: "the delegated ones'; where those deny it, the advice names the others, and their records",
			tests:   []string{"TestDiagnosisOfAZoneThatMoved", "TestDiagnosisAtRealServers"},
		},
	}},
	{title: "Before an absence is acted upon",
		intro: "Here the verdict is a disproof's (`Checker.Disprove`): all servers and resolvers are queried, and a failure that could look like an absence is unknown.",
		cases: []testCase{
			{
				about:   "one resolver of several sees the token; denies it, fails, is silent, refuses, filters, has an old no",
				verdict: "present; the others'",
				tests:   []string{"TestDisproofByResolvers", "TestDisproofInWorldsOfChance"},
			},
			{
				about:   "a minority denies it, half of them do, a majority that is no quorum",
				verdict: "unknown",
				tests: []string{
					"TestDisproofByResolvers/two fail", "TestDisproofByResolvers/two of four",
					"TestDisproofByResolvers/a majority that is no quorum",
					"TestDisproofByResolvers/a high quorum that is not reached",
				},
			},
			{
				about:   "NXDOMAIN, no record and other values together; a parking zone, a wildcard with another value",
				verdict: "absent",
				tests: []string{
					"TestDisproofByResolvers/no in three ways", "TestDisproofByBoth/no in several ways",
					"TestDisproofByBoth/a parked zone", "TestDisproofByBoth/a wildcard with another value",
				},
			},
			{
				about:   "one of the zone's servers still has it, at another's referral too; the resolvers still have it",
				verdict: "present",
				tests: []string{
					"TestDisproofByBoth/one name server has it",
					"TestDisproofByBoth/one name server has it, the others are silent",
					"TestDisproofByBoth/the resolvers still have it", "TestDisproofCountsServersAboveAReferral",
					"TestDisproofAtRealServers",
				},
			},
			{
				about:   "all name servers are silent, fail, refuse, are lame or no longer have the zone, and each resolver denies it; most of them are so",
				verdict: "unknown",
				tests: []string{
					"TestDisproofByBoth/all name servers are silent",
					"TestDisproofByBoth/all name servers fail", "TestDisproofByBoth/all name servers refuse",
					"TestDisproofByBoth/all name servers are lame",
					"TestDisproofByBoth/two name servers are lame",
				},
			},
			{
				about:   "the token in an old answer, in one without authority, or at another name; an answer that contradicts itself, is ambiguous, or bogus",
				verdict: "unknown",
				tests: []string{
					"TestDisproofByResolvers/an old yes shows nothing, and is not nothing",
					"TestDisproofByResolvers/one speaks against itself",
					"TestDisproofByResolvers/one finds it bogus",
					"TestDisproofByBoth/a lame name server has it",
					"TestDisproofByBoth/a name server has it of before", "TestDisproofByBoth/two aliases",
				},
			},
			{
				about:   "a network that denies every name, without a zone's SOA, or with the SOA of the root or of another zone",
				verdict: "unknown",
				tests: []string{
					"TestDisproofByResolvers/all say so without a zone",
					"TestDisproofByResolvers/all say so for the root",
					"TestDisproofByResolvers/all say so for another zone",
				},
			},
			{
				about:   "a late answer; the limit of queries or time is reached before all have answered; name servers in the cache",
				verdict: "the late one's; unknown; looked up again",
				tests: []string{
					"TestDisproofWaitsForAll", "TestDisproofThatWasCutShort", "TestDisproofUsesNoCache",
				},
			},
			{
				about:   "port 53 closed outwards: for a moment, since today, for long",
				verdict: "unknown; unknown; the resolvers'",
				tests:   []string{"TestDisproofWherePort53IsClosed"},
			},
			{
				about:   "name servers of one operator, of two, of a registry, invented by a stranger",
				verdict: "one key; one key; none; a short key",
				tests: []string{
					"TestOperatorOf", "TestOperatorOfAVerdict", "TestOperatorByResolvers",
					"TestOperatorTakesAQuorum", "FuzzOperatorOf",
				},
			},
		}},
	{title: "Before a domain is proven",
		intro: "Here the verdict is a proof's (`Checker.Prove`), and the resolvers see the token. An attacker holds at most half of the servers of a zone.",
		cases: []testCase{
			{
				about:   "one server refers to a server of the attacker's, and the others deny the token, fail or are silent; the same after it was put right",
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
				tests: []string{
					"TestReferralOfOneServerIsNotCached", "TestDisproofDoesNotFollowTheReferralOfOne",
				},
			},
			{
				about:   "the token or an alias at no more than half of the servers, and the others silent, lame or failing; one dead server of two",
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
					{"one denies, two are silent", []zone{denies, nil, nil}, expected{dnscheck.Unknown, dnscheck.ReasonTimeout}},
				},
				tests: []string{"TestOneDeadServerOfTwo", "TestServerThatChangesItsAnswers"},
			},
			{
				about:   "a no or an alias next to a referral or the token, also a late one",
				verdict: "unknown: the name servers disagree",
				servers: []scene{
					{"the token, the other denies", []zone{publishes, denies}, disagree},
					{"an alias, the others deny", []zone{denies, diverts, denies}, disagree},
					{"an alias to a zone of the attacker's, the other denies", []zone{misleads, denies}, disagree},
					{"an alias beside a referral", []zone{diverts, leads, nil, nil}, disagree},
					{"an alias beside the token", []zone{diverts, publishes, nil, nil}, disagree},
				},
				tests: []string{"TestLateAnswerNextToReferrals", "TestSentenceOfAReferralNextToAnAnswer"},
			},
			{
				about:   "servers, or a registry's, that refer to different servers, or give other addresses for them",
				verdict: "as the majority has it; unknown without one",
				tests:   []string{"TestDelegationsThatDiffer", "TestGlueOfOneServerIsRejected"},
			},
			{
				about:   "the token at one server, and a referral of another one to a server that denies it",
				verdict: "unknown, not absent",
				tests:   []string{"TestReferralNextToTheToken"},
			},
			{
				about:   "servers with names in another zone, of whose servers one is the attacker's, the others silenced or not; the resolvers are led to it",
				verdict: "never present by its addresses, nor absent",
				tests:   []string{"TestNameServersNamedInAZoneWithOneHostileServer", "TestAddressesOfNameServers"},
			},
			{
				about:   "a top-level domain's server, whose address the resolvers gave, as a domain's own server",
				verdict: "its address is looked up for the domain",
				tests:   []string{"TestResolversAddressIsOfATopLevelDomainOnly"},
			},
			{
				about:   "many addresses of one name, many names of one machine, more servers than are queried",
				verdict: "counted once; a majority of all",
				tests:   []string{"TestMajorityCountsNamesAndAddresses", "TestMoreServersThanAreQueried", "TestManyServers"},
			},
			{
				about:   "a disproof of a zone with more servers than are queried",
				verdict: "unknown: one of the others may have the token",
				tests:   []string{"TestDisproofOfManyServers"},
			},
			{
				about:   "all of the zone's servers silent, lame or failing",
				verdict: "unknown: the resolvers are not queried instead",
				tests: []string{
					"TestResolversDoNotReplaceSilentNameServersInAProof",
					"TestModeAuto/servers that have nothing to say: the resolvers, for a look",
				},
			},
			{
				about:   "port 53 closed or redirected on the way",
				verdict: "the verdict of the resolvers over HTTPS; unknown where these are fewer than a quorum",
				tests:   []string{"TestRedirectedPort53", "TestProofDoesNotBelieveAnotherTopLevelDomain"},
			},
			{
				about:   "servers and resolvers that do any of this by chance, and honest ones that are silenced",
				verdict: "present only where honest servers and resolvers give the token",
				tests:   []string{"TestProofsInHostileWorlds", "TestHostileWorldsOverSockets"},
			},
			{
				about:   "one to eight servers, one of three dead or lame, a zone at each label, aliases",
				verdict: "present",
				tests:   []string{"TestProofsOfCalmWorlds", "TestProofsOfServersNamedElsewhere"},
			},
			{
				about:   "a name server at an address that is not public: private, reserved, a cloud's platform",
				verdict: "not queried: unknown without another",
				tests: []string{
					"TestAddressesThatAreNotQueried", "TestIsPublic/special-purpose registry of IPv4",
					"TestIsPublic/special-purpose registry of IPv6", "TestIsPublic/platforms of clouds",
					"TestIsPublic/carried by IPv6",
				},
			},
		}},
	{title: "What a proof needs of the resolvers",
		intro: "Here the verdict is a proof's (`Checker.Prove`), and where it says *refused* the setting is: no Checker is made.",
		cases: []testCase{
			{
				about:   "a quorum below all of two, all but one of three to five, all but two of six and more; above the number of resolvers",
				verdict: "refused",
				tests:   []string{"TestQuorumOfAProof", "TestConfigThatDoesNotFit"},
			},
			{
				about:   "only one resolver sees the token, the name servers do too",
				verdict: "unknown; a check and advice work",
				tests:   []string{"TestOneResolverProvesNothing", "TestDiagnosisByOneResolver"},
			},
			{
				about:   "one operator has a quorum: by two addresses, by IPv4 and IPv6, by one network, by one domain in certificates",
				verdict: "refused; own resolvers at loopback and private addresses are an operator each",
				tests:   []string{"TestNoOperatorIsAQuorum", "TestOperatorsOfResolvers"},
			},
			{
				about:   "one resolver finds the answer bogus, early or late, and the others see the token, authenticated or not, or deny it",
				verdict: "unknown",
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
				tests: []string{"TestProofWaitsForEachResolver/a late veto"},
			},
			{
				about:   "none, some or all resolvers authenticate their answers, yes or no",
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
				},
			},
			{
				about:    "DNSSEC is required, and none authenticates, or too few",
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
				tests: []string{"TestValidatedAtRealResolvers"},
			},
			{
				about:   "perspectives are named, and only the resolvers of one see the token, or see it authenticated; the resolvers over HTTPS are all in one, where port 53 is closed",
				verdict: "unknown: seen from one network only; too few resolvers over HTTPS",
				tests: []string{
					"TestProofSpansPerspectives", "TestPerspectivesWherePort53IsClosed",
					"TestPerspectivesAtUnbound", "TestProofsInHostileWorlds",
				},
			},
			{
				about:   "all resolvers in one perspective; a public resolver in another than this machine's; one public operator has a quorum all the same",
				verdict: "refused",
				tests:   []string{"TestPerspectivesThatCannotBeSpanned"},
			},
			{
				about:   "the resolvers of one perspective give other name servers, or deny the record that others are silent about",
				verdict: "unknown",
				tests:   []string{"TestNameServersByOnePerspective", "TestDisproofSpansPerspectives"},
			},
		}},
	{title: "What a proof does not go through, if that is refused",
		intro: "Here the verdict is that of a proof with `RefuseAliases`, where it would be *present* without.",
		cases: []testCase{
			{
				about:   "an alias within the domain",
				verdict: "present",
				tests:   []string{"TestAliasesOutOfTheDomain/within the domain", "TestAliasOut"},
			},
			{
				about:   "an alias (CNAME or DNAME) out of the domain, at any step of a chain, also one that comes back",
				verdict: "unknown",
				tests: []string{
					"TestAliasesOutOfTheDomain", "TestAliasOut", "TestStrictProofsAtRealServers",
				},
			},
			{
				about:   "such an alias at one resolver only",
				verdict: "unknown",
				tests:   []string{"TestAliasOutOfTheDomainAtOneResolver"},
			},
		}},
}

// Expected verdicts of scenes.
var (
	isFound     = expected{dnscheck.Present, dnscheck.ReasonFound}
	disagree    = expected{dnscheck.Unknown, dnscheck.ReasonServersDisagree}
	tooFew      = expected{dnscheck.Unknown, dnscheck.ReasonTooFew}
	isBogus     = expected{dnscheck.Unknown, dnscheck.ReasonDNSSEC}
	unconfirmed = expected{dnscheck.Unknown, dnscheck.ReasonUnconfirmed}
	unsigned    = expected{dnscheck.Unknown, dnscheck.ReasonUnsigned}
)
