// Package dnscheck finds out whether a verification token stands in a TXT record at a host name.
//
// The answer has three values. Present: the token is there. Absent: the zone says that it is not there
// (the name does not exist, it has no TXT record, or its TXT records hold other values). Unknown:
// nobody could say (a time-out, SERVFAIL, an answer that cannot be read, resolvers that disagree).
// A false "present" hands an organization the logins of a domain that is not its own, a false "absent"
// locks out a rightful one; so whatever is in doubt is Unknown, with a Reason.
//
// A [Checker] asks several recursive resolvers at once. [Checker.Look] is the cheap question: one
// resolver that sees the token is enough to go on. [Checker.Prove] is the one to act upon: a quorum of
// the resolvers has to see the token. [Checker.Disprove] is the one to act upon an absence: everybody is heard, one
// who sees the token is enough, and whatever may be a failure is Unknown.
//
// By [Config.Mode] the zone's own name servers are asked as well: they know a record as soon as it is published, while
// a resolver that was asked before it was goes on denying it. See below.
//
//	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
//	verdict, err := checker.Prove(ctx, "_verify.example.com", token)
//	if verdict.State == dnscheck.Present { … }
//
// An answer is a [Verdict], also a bad one. An error is only returned for a question that cannot be
// asked ([QuestionError]) and when the context has ended.
//
// Values are compared byte by byte, after the strings of one record were joined (RFC 1035 section
// 3.3.14, RFC 7208 section 3.3): no trimming, no folding of case. Names are compared without regard to
// ASCII case, and shown as they were given.
//
// [CheckDomain] tells domains that an organization can hold from public suffixes and the like, and [Within] whether a
// host lies beneath one: a proof at a host that does not says nothing of the domain.
//
// # The zone's own name servers
//
// [ModeAuto] and [ModeAuthority] find them from the top-level domain downward, without guessing where a zone
// begins: the resolvers are asked for the top-level domain's name servers, a quorum of them having to agree;
// then each zone's servers are queried, without recursion, for the host's TXT records, and refer to the next zone,
// be it one that begins at the verification label, till some answer with authority (AA). All servers of a zone are
// queried, at each address, but of a registry's only three, at one address each. A referral is followed, and its
// delegation cached, only if a majority gave it; so one server that is hostile leads nowhere. Delegations are the same
// if they name the same servers, and a server has the addresses (glue) that a majority gave. An alias is followed at
// the zone that its target lies in. No resolver is ever asked for a name between the host and its top-level domain,
// so that our looking leaves no negative answer in its cache (RFC 2308, RFC 8020).
//
// All that answer have the token: Present, for a look. None that answers has it, and more than half of the
// servers have answered: Absent. One denies what another has, or answers with an alias or a no where another refers to
// a zone below: Unknown, ReasonServersDisagree, and [Verdict.Sentence] says which. None leads on, lame servers
// included: in ModeAuto a look asks the resolvers instead, and [Verdict.Note] says why.
//
// A proof wants the token at more than half of the zone's servers, at none of them a denial, and then the resolvers'
// quorum as well: an authoritative answer alone proves nothing, for one query can be spoofed. If at most half answer it is
// Unknown, ReasonTooFew: whoever holds one server may be able to silence the others. A majority is one of names, each
// counted once, and of addresses, each counted once; with at most half of a zone's servers an attacker proves nothing.
// A zone may have more servers than the eight that are queried: then it takes more than half of all, and with 16 or more
// there is no proof.
//
// Of two servers one is often dead for good. With [Config.ThinProofs] the resolvers are asked also where too few servers answer and
// none of those lacks the token; [Verdict.Thin] says that every resolver has it too. The verdict stays Unknown, ReasonTooFew: one
// check cannot tell a dead server from one that is silenced, and what a caller makes of many is its own decision. [Verdict.Contested]
// tells a check in which an answer spoke against the token from one that lacks answers. Thin is the yes at the host's own zone
// alone: delegations and aliases take their majority, and where an alias leads there is no thin proof.
//
// The resolvers alone prove something in ModeAuto only where no name server can be reached from here, a registry's
// included: port 53 is closed, or redirected to a server that answers without authority. Whoever does that can
// forge what comes in the clear, so that only resolvers over TLS and HTTPS count; with fewer than a quorum of
// these it is Unknown, ReasonUnprotected.
//
// Everything here is a stranger's to choose, so everything is bounded (the constants of authority.go say by what
// and why): queries and look-ups of one verdict, referrals, servers of a zone, addresses of a server, time. With nothing
// cached a verdict takes three queries for each registry on the way (six where its referral is truncated), and one for
// each address of each server of each zone below: at most 32 a zone, and 200 in all, each attempt counted. With the
// delegations cached it takes those to the host's zone alone, and to that of each alias; a delegation that no majority gave is
// not cached. Each resolver gets one query for the host in a proof, and with nothing cached one for each top-level domain's name
// servers, and two for each name server without glue: at most 48 of these in all. Name
// servers at addresses that are not public unicast are not asked. A referral must lead strictly down and toward
// the host, and glue is believed for names in the referred zone only. Zones' name servers are remembered by
// their TTL, at most a quarter of an hour; that a top-level domain has none, by what the root says (RFC 2308).
//
// Where the servers of a top-level domain are all silent, port 53 outwards is taken to be closed for five
// minutes: [Config.Reach] is told, and the resolvers answer alone. A proof queries the servers of its own top-level domain all the
// same: others may be silent because somebody wants them to be. In a disproof the resolvers answer alone only where that was so on two tries
// five minutes apart, and no name server has answered within a day.
//
// [Verdict.Operator] is a key for who runs a zone's name servers: records of many domains that are gone at once are rather
// lost by one operator than by each owner. [Checker.Operator] has the resolvers tell it.
//
// # How resolvers are asked
//
// Over UDP each query has a port, an id and letters of its own, chosen at random; what comes back in other letters is asked for
// again over TCP (letters.go). Over TCP, TLS (RFC 7858) and HTTPS (RFC 8484) connections are kept for ten seconds, also from look
// to look: [Checker.Close] closes them. [ParseResolver] says how such resolvers are written. Certificates always have to hold,
// and nothing falls back to the clear (RFC 8310, strict). [Observation].Authenticated says whether the resolver claims to have
// validated.
//
// In a disproof a resolver's no has to bring the SOA record of the zone that says it (RFC 2308): a network that has nothing for any
// name would be an absence of all. A resolver that leaves it out, as some do that only forward, denies nothing there.
//
// # What a proof needs of the resolvers
//
// A quorum of the resolvers has to see the token ([QuorumOf]): all of two, all but one of three to five, all but two of six or
// more. A lower quorum is refused, and one resolver proves nothing. No operator may have a quorum: [Operators] tells by
// address, network and certificate which resolvers are one operator's. A proof waits for each resolver, because one that has a vote and
// finds the signatures bogus vetoes it. One that says SERVFAIL without a reason is queried again with CD (checking disabled): if it has
// an answer then, it vetoes too. Where any resolver authenticates its answer (AD), a quorum has to see the token in
// authenticated answers: a resolver that does not validate, or a forwarder that leaves AD out, does not count
// for zones that are signed, and a proof is Unknown if too few are left. All resolvers have to validate, or
// none. With [Config.RequireDNSSEC] zones that are not signed cannot be proven.
//
// A resolver may name its perspective, the network from which it queries ([Resolver.Perspective]). If any does, the answers that
// count come from at least two perspectives, or it is Unknown, ReasonOnePerspective: all resolvers of one prove nothing.
// The same holds for a disproof, and where the resolvers give the name servers of a top-level domain. Public operators are anycast and have
// no perspective but the default one; of resolvers of one's own all may be one operator's then.
//
// With [Config.RefuseAliases] the token is not proven through an alias that leads out of the domain ([Verdict.AliasOut]), and with
// [Config.RefuseWildcards] not by a wildcard: after a proof the same resolvers are asked for a random sibling of the host, which must
// not have the token. Where they cannot say it is Unknown. A look and a disproof are not concerned.
//
// With [Config.CanaryZone] a resolver that makes answers up loses its vote, and [Config.Vote] is told; the quorum stays as it is.
//
// # How it is laid out
//
// check.go asks the vantage points and counts (quorum); vantage.go is one of them, a recursive resolver, which
// it asks again where an alias leads out of the answer. exchange.go carries one question over UDP and TCP and
// reads on past whatever is not its answer; letters.go mixes case, stream.go keeps connections over TCP and TLS, secure.go
// knows certificates and HTTPS; canary.go finds out resolvers that make answers up; reply.go takes bytes apart; answer.go reads what an answer says;
// txt.go joins, unescapes and compares TXT strings; name.go knows host names and domain.go domains, mode.go
// joins the name servers' word with the resolvers', and disprove.go what all of them say of an absence; operator.go makes a key of
// who runs name servers: authority.go asks a zone's servers and counts,
// authority_find.go finds them, authority_referral.go reads what they say, authority_cache.go remembers them,
// authority_reach.go knows whether they can be reached, authority_address.go which addresses are not asked;
// strict.go refuses proofs through aliases and by wildcards,
// resolver.go how resolvers are written, resolver_operator.go who runs them, quorum.go how many have to agree, verdict.go the reasons and their sentences; diagnose.go advises the customer who got the
// record wrong ([Checker.Diagnose]), and authority_own.go asks for it what name servers the zone itself names; they have no part in any
// verdict.
//
// A further transport is another carrier (stream.go), and a scheme in resolver.go.
package dnscheck
