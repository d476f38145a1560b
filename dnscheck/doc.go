// Package dnscheck finds out whether a verification token stands in a TXT record at a host name.
//
// The answer has three values. Present: the token is there. Absent: the zone says that it is not there (the name
// does not exist, it has no TXT record, or its TXT records hold other values). Unknown: nobody could say. A false
// "present" gives an organization the logins of a domain that is not its own, a false "absent" locks out a rightful
// one; so whatever is in doubt is Unknown, with a [Reason].
//
//	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
//	verdict, err := checker.Prove(ctx, "_verify.example.com", token)
//	if verdict.State == dnscheck.Present { … }
//
// [Checker.Look] is the cheap question, [Checker.Prove] the one to act upon, [Checker.Disprove] the one to act upon
// an absence. Each returns a [Verdict]; an error means a question that cannot be asked ([QuestionError]), or that the
// context has ended.
//
// Values are compared byte by byte after the strings of one record were joined (RFC 1035 section 3.3.14, RFC 7208
// section 3.3). Names are compared without regard to ASCII case, and shown as they were given.
//
// # The zone's own name servers
//
// [ModeAuto] and [ModeAuthority] query the zone's name servers too: they know a record as soon as it is published.
// They are found from the top-level domain downward: a quorum of the resolvers gives the top-level domain's name
// servers; each zone's servers are queried for the host's TXT records without recursion, and refer to the next zone,
// till some answer with authority (AA). No resolver is asked for a name between the host and its top-level domain,
// so that our looking leaves no negative answer in its cache (RFC 2308, RFC 8020). An alias is followed at the zone
// that its target lies in.
//
// All servers of a zone are queried, at each address, but of a registry's three, at one address each, and of any
// zone's at most eight. A referral is followed, and its delegation cached, if a majority gave it: the same server
// names, with the addresses (glue) that a majority gave. It must lead strictly down and toward the host; glue is
// believed for names in the referred zone, and addresses that are not public unicast are not queried. A majority is
// one of all the zone's servers, and of their addresses, each counted once: with at most half of them an attacker
// proves nothing.
//
// A proof takes the token at a majority, a denial by none, and then the resolvers' quorum as well, for a single
// authoritative answer can be spoofed. Where at most half of the servers answer it is ReasonTooFew, since whoever
// holds one may be able to silence the others; [Config.ThinProofs] then has [Verdict.Thin] tell whether nothing but
// silent servers is missing, at the host's own zone.
//
// Where the servers of a top-level domain are all silent, port 53 outwards is taken to be closed for five minutes
// ([Config.Reach]). Then resolvers answer a look alone; a proof finds out by itself, in ModeAuto, and counts only
// resolvers over TLS or HTTPS, for whoever closes or redirects the port can forge the others' answers; a disproof
// wants to have seen it twice, and no answer of any name server within a day.
//
// Everything here is a stranger's to choose, so everything is bounded: a verdict takes at most 200 queries to name
// servers, 48 look-ups of their addresses, 12 referrals and 5 seconds, or 10 for a disproof. Delegations and addresses
// are remembered by their TTL, at most a quarter of an hour.
//
// # The resolvers
//
// A quorum ([QuorumOf]) of resolvers has to see the token, and no operator may have one alone ([Operators]). A proof
// waits for each resolver, because one that finds the signatures bogus vetoes it; one that says SERVFAIL is queried
// again with CD (checking disabled), and vetoes if it has an answer then. Where any resolver authenticates its answer
// (AD), only authenticated ones count. Resolvers that name a perspective ([Resolver.Perspective]) have to agree from
// two. One that makes answers up loses its vote ([Config.CanaryZone]). In a disproof a no has to bring the SOA record
// of the zone that says it (RFC 2308).
//
// Over UDP each query has a port, an id and letters of its own, at random; what comes back in other letters is asked
// for again over TCP. Over TCP, TLS (RFC 7858) and HTTPS (RFC 8484) connections are kept for ten seconds. Certificates
// always have to hold, and nothing falls back to the clear (RFC 8310, strict).
//
// A further transport is another carrier (stream.go), and a scheme in resolver.go.
package dnscheck
