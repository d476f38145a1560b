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
// the resolvers has to see the token.
//
//	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
//	verdict, err := checker.Prove(ctx, "_verify.example.com", token)
//	if verdict.State == dnscheck.Present { … }
//
// An answer is a [Verdict], also a bad one. An error is only returned for a question that cannot be
// asked ([QuestionError]) and when the context has ended.
//
// Values are compared octet by octet, after the strings of one record were joined (RFC 1035 section
// 3.3.14, RFC 7208 section 3.3): no trimming, no folding of case. Names are compared without regard to
// ASCII case, and shown as they were given; over UDP their letters go out in upper or lower case at random (letters.go).
//
// [CheckDomain] tells domains that an organization can hold from public suffixes and the like, and [Within] whether a
// host lies beneath one: a proof at a host that does not says nothing of the domain.
//
// # How it is laid out
//
// check.go asks the vantage points and counts (quorum); vantage.go is one of them, a recursive resolver,
// which it asks again where an alias leads out of the answer. exchange.go carries one question over UDP and TCP
// and reads on past whatever is not its answer; reply.go takes octets apart; answer.go reads what an
// answer says; txt.go joins, unescapes and compares TXT strings; name.go knows host names and domain.go domains,
// resolver.go how resolvers are written, verdict.go the reasons and their sentences.
//
// A further kind of vantage point (the zone's own name servers) is another vantage beside vantage.go; a
// further transport (DNS over TLS or HTTPS) is another way to carry a query in exchange.go, and a
// scheme in resolver.go; advice on what the customer did wrong grows from [Verdict.Sentence].
package dnscheck
