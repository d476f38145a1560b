// Package dnscheck checks whether a host name has a TXT record with a verification token.
//
// The result has three values. Present: the token is there. Absent: the zone denies it (the
// name does not exist, it has no TXT record, or its TXT records have other values). Unknown:
// there is no reliable answer. A false Present gives an organization the logins of a foreign
// domain, and a false Absent locks a rightful one out, so anything doubtful is Unknown, with
// a [Reason].
//
//	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
//	verdict, err := checker.Prove(ctx, "_verify.example.com", token)
//	if proof, ok := verdict.Proof(); ok { … }
//
// [Checker.Check] is the cheap check, [Checker.Prove] the one to act upon, [Checker.Disprove]
// the one to act upon an absence. Each returns a [Verdict]. An error is a [QuestionError], or
// the context's.
//
// Values are compared byte by byte after the strings of one record were joined (RFC 1035
// section 3.3.14, RFC 7208 section 3.3). Names are compared without regard to ASCII case, and
// shown as they were given.
//
// # Name servers
//
// [ModeAuthority] also queries the zone's own name servers, which know a record
// as soon as it is published. They are found from the top-level domain down: a quorum of the
// resolvers gives its name servers and their addresses, in place of the root; each zone's
// servers are queried for the host's TXT records without recursion, and refer to the next zone,
// until some answer with authority (AA). No resolver is queried for a name between the host and
// its top-level domain, so that it caches no negative answer (RFC 2308, RFC 8020). An alias is
// followed in the zone of its target. If the root denies the target's top-level domain, the token
// is absent.
//
// The address of a name server whose name lies in another zone is found in the same way, also
// where the servers of that zone have their names in a third one: by a majority at each step,
// and never by a resolver, which may have it from one hostile server.
//
// From the registry down all servers of each zone are asked (at most 16, of at most 31), and more
// than half of all of them have to give the same delegation, the same glue, the same alias, the
// same token. In a zone that may hold the token or an alias, every server is waited for until it
// has answered or failed, and one that denies what the others give prevents the proof. Then the
// resolvers are asked, each of which is waited for, and a quorum of them has to see the token as
// well.
//
// A referral must lead strictly down and toward the host. If some servers hold the zone below as
// well, and no majority refers to it, all are asked for its name servers. A registry's zone holds
// no token: the poll ends at the majority, and the others prevent nothing. It is asked for the
// registered domain, and for the host only if it does not refer to others. Glue counts for names
// in the referred zone; a registry's for names in other zones below it, too, if they cannot be
// looked up. Addresses that are not public unicast are not queried. A majority is one of all the
// zone's servers, and of their addresses, each counted once: with at most half of them an
// attacker proves nothing.
//
// If at most half of the
// servers answer, the result is ReasonTooFew, since an attacker with one of them may be able
// to silence the others. So of two servers both have to answer, and a zone of 32 is never proven.
// A disproof needs an answer of every server: a zone of 17 has no absence to act upon.
//
// Where no name server can be reached, because port 53 is closed or redirected, the result is
// Unknown: it is not guessed why, and the resolvers do not decide in their place.
//
// Foreign zones choose all of this, so it is bounded: a verdict takes at most 500 queries to name
// servers, 128 lookups of their addresses, through at most four zones, 12 referrals to each name,
// and 5 seconds, or 10 for a proof or a disproof. Delegations and addresses are cached by their
// TTL, at most a quarter of an hour.
//
// # Resolvers
//
// A quorum ([QuorumOf]) of resolvers has to see the token ([Checker.Prove]), and no operator
// may have a quorum of its own ([Operators]). A resolver that returns SERVFAIL is queried again
// with CD (checking disabled), and an answer then is a veto. In a disproof, a negative answer must
// have the SOA record of its zone (RFC 2308).
//
// Over UDP each query has a random port, id and case of letters. If a reply has the letters in
// another case, the query is sent again over TCP. A name server's denial is confirmed by a query in
// the given letters, since some compare them exactly; another answer must come over TCP.
// Connections over HTTPS (RFC 8484) stay open for ten seconds. Certificates must be valid, no proxy
// is used, and nothing falls back to cleartext.
//
// Messages are encoded and decoded by github.com/miekg/dns, but its Msg.Unpack is too lenient
// for replies: it accepts any question, returns fewer records than the header counts, ignores
// bytes after the end and a second OPT record, and reads any number of records. parseReply
// checks these. Its Client skips no invalid replies, and uses one connection for each query.
//
// # Files
//
// A file uses those below it:
//
//	diagnose.go   Diagnose: mistakes with a missing record
//	examine.go    Examine: test queries to resolvers
//	network.go    ProbeNetwork: the way to name servers, and whether it explains a verdict
//	prove.go      Prove and Disprove, each a function that is the rule
//	alias.go      aliases that lead out of the domain
//	check.go      Check, and the queries to all resolvers
//	checker.go    Config, New, Close
//	walk.go       from a top-level domain down to a name's zone, and to name servers' addresses
//	poll.go       queries the servers of one zone, and counts majorities
//	authority.go  the state of a walk, and its limits
//	referral.go   reads one server's answer
//	operator.go   Operator: of a zone's name servers
//	panel.go      queries to resolvers, which of them answer, and records that a quorum has
//	answer.go     reads a reply: aliases, values, denials
//	exchange.go   sends a query over UDP, TCP or HTTPS, and parses its reply
//	proof.go      Proof, of a token that was found present
//	verdict.go    results, their sentences, and evidence
//	resolver.go   resolvers, their operators and their quorum
//	cache.go      values with a TTL
//	mistake.go    values that are like the token
//	names.go      registries, addresses, and values of TXT records
//
// Package dnsname has names without queries, and package report the form in which verdicts and
// mistakes are stored and shown.
package dnscheck
