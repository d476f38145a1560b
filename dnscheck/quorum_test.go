package dnscheck_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
)

// signed sets AD in the answers of z, as a validating resolver does.
func signed(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := z(q)
		m.AuthenticatedData = true
		return m
	}
}

// withholds answers SERVFAIL without an extended error, as BIND does for bogus records, unless
// checking is disabled.
func withholds(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if q.CheckingDisabled {
			return z(q)
		}
		return servfail(q)
	}
}

// warned returns the token with the extended error DNSSEC Bogus.
var warned = with(dns.ExtendedErrorCodeDNSBogus, yes)

func TestQuorumOfAProof(t *testing.T) {
	least := map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 4, 6: 4, 7: 5, 8: 6, 9: 7, 10: 8}
	for n := 1; n <= len(least); n++ {
		resolvers := anyResolver(n)
		for set := -1; set <= n+1; set++ {
			c, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers, Quorum: set, Mode: dnscheck.ModeAuthority})
			if set != 0 && (set < least[n] || set > n) {
				wanted := fmt.Sprintf("resolver quorum %d: want %d to %d of %d resolvers, or 0 for %d", set,
					least[n], n, n, least[n])
				if err == nil || err.Error() != wanted {
					t.Errorf("%d of %d: error %v, want %s", set, n, err, wanted)
				}
				continue
			}
			if err != nil {
				t.Errorf("%d of %d: %v", set, n, err)
				continue
			}
			c.Close()
		}
	}
	for n := 2; n <= 100; n++ {
		q, err := dnscheck.QuorumOf(0, n)
		if err != nil || q < 2 || 2*q <= n || q > n {
			t.Errorf("quorum of %d: %d, %v: want at least two, and a majority", n, q, err)
		}
	}
}

// TestQuorumIsReachedOrNot checks that a proof is present exactly if a quorum of the resolvers
// sees the token.
func TestQuorumIsReachedOrNot(t *testing.T) {
	for n := 2; n <= 7; n++ {
		quorum, err := dnscheck.QuorumOf(0, n)
		if err != nil {
			t.Fatal(err)
		}
		for seeing := range n + 1 {
			zones := slices.Concat(slices.Repeat([]zone{yes}, seeing), slices.Repeat([]zone{servfail}, n-seeing))
			synctest.Test(t, func(t *testing.T) {
				v := prove(t, inMemory(t, dnscheck.Config{}, zones...))
				if got, wanted := v.State == dnscheck.Present, seeing >= quorum; got != wanted || v.Quorum != quorum {
					t.Errorf("%d of %d see it: %s, quorum %d", seeing, n, v.State, v.Quorum)
				}
			})
		}
	}
}

func TestOneResolverProvesNothing(t *testing.T) {
	tests := []struct {
		name  string
		zone  zone
		state dnscheck.State
		prove dnscheck.Reason
	}{
		{"yes", yes, dnscheck.Unknown, dnscheck.ReasonTooFewResolvers},
		{"an authenticated yes", signed(yes), dnscheck.Unknown, dnscheck.ReasonTooFewResolvers},
		{"no", noName, dnscheck.Absent, dnscheck.ReasonNoName},
		{"a failure", servfail, dnscheck.Unknown, dnscheck.ReasonServFail},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			c := inMemory(t, dnscheck.Config{}, test.zone)
			want(t, prove(t, c), test.state, test.prove)
			if test.prove == dnscheck.ReasonTooFewResolvers {
				want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
			}
		})
	}
	bubble(t, "beside the name servers", func(t *testing.T) {
		n := delegated(t, txt(host, token))
		n.know(txt(host, token))
		want(t, prove(t, n.checkerBy(dnscheck.Config{Mode: dnscheck.ModeAuthority}, resolverAddrs[0])), dnscheck.Unknown,
			dnscheck.ReasonTooFewResolvers)
		want(t, prove(t, n.checkerBy(dnscheck.Config{Mode: dnscheck.ModeAuthority}, resolverAddrs[:2]...)),
			dnscheck.Present, dnscheck.ReasonFound)
	})
}

// signatures are answers of resolvers to a proof, requiredSignatures those of a proof that
// requires DNSSEC.
var (
	signatures = []proofScene{
		{"one finds it bogus", []zone{yes, yes, bogus}, isBogus},
		{"one finds it bogus, the others authenticate it", []zone{signed(yes), signed(yes), bogus}, isBogus},
		{"one finds it bogus, and gives it", []zone{yes, yes, warned}, isBogus},
		{"one finds it bogus, and another fails", []zone{yes, servfail, bogus}, isBogus},
		{"one finds it bogus, and another denies it", []zone{yes, noName, bogus}, isBogus},
		{"one finds it bogus, and a quorum denies it", []zone{noName, noName, bogus}, isBogus},
		{"one withholds it without a reason", []zone{yes, yes, withholds(yes)}, isBogus},
		{"one withholds a denial without a reason", []zone{yes, yes, withholds(noName)}, isBogus},
		{"one withholds it, the others authenticate it", []zone{signed(yes), signed(yes), withholds(yes)}, isBogus},
		{"one fails in any case", []zone{yes, yes, servfail}, found},
		{"one of seven finds it bogus", []zone{yes, yes, yes, yes, yes, yes, bogus}, isBogus},
		{"none authenticates", []zone{yes, yes, yes}, found},
		{"all authenticate", []zone{signed(yes), signed(yes), signed(yes)}, found},
		{"a quorum authenticates", []zone{signed(yes), yes, signed(yes)}, found},
		{"a quorum authenticates, and one fails", []zone{signed(yes), servfail, signed(yes)}, found},
		{"one of three authenticates", []zone{yes, signed(yes), yes}, unconfirmed},
		{"one of three authenticates that it is not there", []zone{yes, yes, signed(noName)}, unconfirmed},
		{"one of three authenticates another value", []zone{yes, yes, signed(noValue)}, unconfirmed},
		{"a failure with AD authenticates nothing", []zone{yes, yes, signed(servfail)}, found},
		{"three of five authenticate", []zone{signed(yes), signed(yes), signed(yes), yes, yes}, unconfirmed},
		{"four of five authenticate", []zone{signed(yes), signed(yes), signed(yes), yes, signed(yes)}, found},
		{"an authenticated yes and two nos", []zone{signed(yes), noName, noName}, absent(dnscheck.ReasonNoName)},
		{"an authenticated yes, a yes and a no", []zone{signed(yes), yes, noName}, unconfirmed},
	}
	requiredSignatures = []proofScene{
		{"required, and all authenticate", []zone{signed(yes), signed(yes), signed(yes)}, found},
		{"required, and a quorum authenticates", []zone{signed(yes), signed(yes), yes}, found},
		{"required, and none authenticates", []zone{yes, yes, yes}, unsigned},
		{"required, and too few authenticate", []zone{yes, signed(yes), yes}, unconfirmed},
		{"required, and a quorum denies it", []zone{yes, noName, noName}, absent(dnscheck.ReasonNoName)},
		{"required, and one finds it bogus", []zone{signed(yes), signed(yes), bogus}, isBogus},
	}
)

// TestSignaturesInAProof checks that one resolver's result on signatures counts, in any order
// of answers.
func TestSignaturesInAProof(t *testing.T) {
	for _, test := range signatures {
		t.Run(test.name, func(t *testing.T) { test.proves(t, false) })
	}
	for _, test := range requiredSignatures {
		t.Run(test.name, func(t *testing.T) { test.proves(t, true) })
	}
	for third, reason := range map[string]dnscheck.Reason{"bogus": dnscheck.ReasonDNSSEC,
		"authenticated": dnscheck.ReasonUnconfirmed} {
		bubble(t, "the name servers have it, one resolver "+third, func(t *testing.T) {
			n := delegated(t, txt(host, token))
			n.know(txt(host, token))
			n.at(resolverAddrs[2], map[string]zone{"bogus": n.only(bogus), "authenticated": n.only(signed(yes))}[third])
			want(t, prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})), dnscheck.Unknown, reason)
		})
	}
}

// proves has the resolvers answer in both orders.
func (s proofScene) proves(t *testing.T, required bool) {
	for _, zones := range [][]zone{s.answers, backwards(s.answers)} {
		synctest.Test(t, func(t *testing.T) {
			v := prove(t, inMemory(t, dnscheck.Config{RequireDNSSEC: required}, zones...))
			want(t, v, s.want.state, s.want.reason)
			if len(v.Observations) != len(zones) {
				t.Errorf("%d observations, want one of each resolver", len(v.Observations))
			}
		})
	}
}

// only answers with z for the host, and as a resolver for all other names.
func (n *internet) only(z zone) zone {
	return func(q *dns.Msg) *dns.Msg {
		if dnsname.Same(q.Question[0].Name, host) {
			return z(q)
		}
		return n.resolver(q)
	}
}

// TestProofWaitsForEachResolver checks that a proof waits for each resolver's timeout, because
// a veto may come last.
func TestProofWaitsForEachResolver(t *testing.T) {
	late := func(z zone) zone {
		return func(q *dns.Msg) *dns.Msg {
			time.Sleep(dnscheck.DefaultTimeout - 10*time.Millisecond)
			return z(q)
		}
	}
	for name, test := range map[string]struct {
		last   zone
		state  dnscheck.State
		reason dnscheck.Reason
	}{
		"a late veto":    {late(bogus), dnscheck.Unknown, dnscheck.ReasonDNSSEC},
		"a late yes":     {late(yes), dnscheck.Present, dnscheck.ReasonFound},
		"one is silent":  {never, dnscheck.Present, dnscheck.ReasonFound},
		"a late failure": {late(servfail), dnscheck.Present, dnscheck.ReasonFound},
	} {
		bubble(t, name, func(t *testing.T) {
			began := time.Now()
			want(t, prove(t, inMemory(t, dnscheck.Config{}, yes, yes, test.last)), test.state, test.reason)
			if took := time.Since(began); took > 2*dnscheck.DefaultTimeout {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestOperatorsOfResolvers(t *testing.T) {
	tests := []struct {
		name      string
		resolvers string
		want      []string
	}{
		{"the defaults", "1.1.1.1,8.8.8.8,9.9.9.9", []string{"Cloudflare", "Google", "Quad9"}},
		{"second addresses", "1.0.0.1,8.8.4.4,149.112.112.112", []string{"Cloudflare", "Google", "Quad9"}},
		{"IPv6", "2606:4700:4700::1001,2001:4860:4860::8844,2620:fe::9", []string{"Cloudflare", "Google", "Quad9"}},
		{"variants", "1.1.1.2,1.0.0.3,9.9.9.11,149.112.112.10,2620:fe::11",
			[]string{"Cloudflare", "Cloudflare", "Quad9", "Quad9", "Quad9"}},
		{"OpenDNS", "208.67.222.222,208.67.220.123,2620:119:35::35,2620:119:53::53",
			[]string{"OpenDNS", "OpenDNS", "OpenDNS", "OpenDNS"}},
		{"AdGuard", "94.140.14.14,94.140.15.15,2a10:50c0::ad1:ff", []string{"AdGuard", "AdGuard", "AdGuard"}},
		{"by name, at addresses that are not known",
			"https://104.16.248.249/dns-query#cloudflare-dns.com,https://5.5.5.5#DNS.Google.,https://6.6.6.6#dns11.quad9.net,https://7.7.7.7#one.one.one.one",
			[]string{"Cloudflare", "Google", "Quad9", "Cloudflare"}},
		{"by address, whatever the name", "https://1.1.1.1#dns.example.com,1.0.0.1", []string{"Cloudflare", "Cloudflare"}},
		{"one network", "5.5.5.1,5.5.5.200,5.5.6.1", []string{"5.5.5.0/24", "5.5.5.0/24", "5.5.6.0/24"}},
		{"one network of IPv6", "2a00:1:2::1,2a00:1:2:3::1,2a00:1:3::1",
			[]string{"2a00:1:2::/48", "2a00:1:2::/48", "2a00:1:3::/48"}},
		{"one domain", "https://5.5.5.5#a.dns.example.co.uk,https://6.6.6.6#b.example.co.uk,https://7.7.7.7#c.other.co.uk",
			[]string{"example.co.uk", "example.co.uk", "other.co.uk"}},
		{"one network and one domain overlap", "https://5.5.5.5#a.example.com,5.5.5.6,https://6.6.6.6#b.example.com",
			[]string{"example.com", "example.com", "example.com"}},
		{"a chain of them", "https://5.5.5.5#a.example.com,https://6.6.6.6#b.example.net,https://5.5.5.6#c.example.net",
			[]string{"example.com", "example.com", "example.com"}},
		{"a name that is a public suffix", "https://5.5.5.5#co.uk", []string{"5.5.5.0/24"}},
		{"loopback", "127.0.0.1:5301,127.0.0.1:5302,[::1]:5303", []string{"127.0.0.1:5301", "127.0.0.1:5302", "[::1]:5303"}},
		{"private, of one domain too",
			"10.1.2.3,10.1.2.4,https://10.1.2.5#dns.eu.example.com,https://10.2.2.5#dns.us.example.com,fd00::1",
			[]string{"10.1.2.3", "10.1.2.4", "10.1.2.5", "10.2.2.5", "fd00::1"}},
		{"a private way to a known one", "https://10.1.2.3#dns.google,8.8.8.8", []string{"Google", "Google"}},
		{"by way of NAT64", "64:ff9b::808:808", []string{"Google"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, dnscheck.Operators(parsed(t, test.resolvers))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, resolvers string) []dnscheck.Resolver {
	t.Helper()
	var all []dnscheck.Resolver
	for text := range strings.SplitSeq(resolvers, ",") {
		r, err := dnscheck.ParseResolver(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestResolversInTheClearAreNoQuorum checks that in mode resolvers a public resolver counts only
// over HTTPS: where port 53 is redirected, one machine answers for all of them.
func TestResolversInTheClearAreNoQuorum(t *testing.T) {
	const tls = "https://1.1.1.1#one.one.one.one,https://8.8.8.8#dns.google"
	for name, test := range map[string]struct{ resolvers, want string }{
		"over HTTPS":            {tls + ",https://9.9.9.9#dns.quad9.net", ""},
		"one in the clear":      {tls + ",9.9.9.9", ""},
		"private ones":          {"10.0.0.1,10.0.0.2", ""},
		"private ones and one":  {"10.0.0.1,10.0.0.2,9.9.9.9", ""},
		"of this machine":       {"127.0.0.1:5301,127.0.0.1:5302", ""},
		"all in the clear":      {"1.1.1.1,8.8.8.8", "resolvers 1.1.1.1:53, 8.8.8.8:53 are queried"},
		"no quorum over HTTPS":  {"https://1.1.1.1#one.one.one.one,8.8.8.8,9.9.9.9", "the 1 others are fewer than the quorum of 2"},
		"only one, for advice?": {"9.9.9.9", "do not count for a proof in mode resolvers"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []dnscheck.Mode{dnscheck.ModeResolvers, dnscheck.ModeAuthority} {
				c, err := dnscheck.New(dnscheck.Config{Resolvers: parsed(t, test.resolvers), Mode: mode})
				if err == nil {
					c.Close()
				}
				refused := mode == dnscheck.ModeResolvers && test.want != ""
				if (err != nil) != refused || refused && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: error %v, want %q", mode, err, test.want)
				}
			}
		})
	}
	bubble(t, "one in the clear is not asked", func(t *testing.T) {
		c := inMemory(t, dnscheck.Config{Resolvers: parsed(t, "10.0.0.1,10.0.0.2,9.9.9.9")}, yes, noName, yes)
		if v := prove(t, c); v.State == dnscheck.Present || len(v.Observations) != 2 {
			t.Errorf("%s by %+v", v.State, v.Observations)
		}
	})
}

func TestNoOperatorIsAQuorum(t *testing.T) {
	tests := []struct {
		name      string
		resolvers string
		quorum    int
		want      string // the error; empty: none
	}{
		{"three operators", "1.1.1.1,8.8.8.8,9.9.9.9", 0, ""},
		{"two operators", "1.1.1.1,8.8.8.8", 0, ""},
		{"one resolver, which proves nothing anyway", "1.1.1.1", 0, ""},
		{"two of one", "1.1.1.1,1.0.0.1", 0,
			"resolvers 1.1.1.1:53 and 1.0.0.1:53 are of one operator (Cloudflare), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators"},
		{"two of three", "1.1.1.1,1.0.0.1,8.8.8.8", 0,
			"resolvers 1.1.1.1:53 and 1.0.0.1:53 are of one operator (Cloudflare), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"},
		{"two of three, and all are wanted", "1.1.1.1,1.0.0.1,8.8.8.8", 3, ""},
		{"by IPv4 and IPv6", "8.8.8.8,9.9.9.9,2001:4860:4860::8888", 0,
			"resolvers 8.8.8.8:53 and [2001:4860:4860::8888]:53 are of one operator (Google), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"},
		{
			"by IPv4 and IPv6, each of three operators",
			"8.8.8.8,2001:4860:4860::8888,1.1.1.1,2606:4700:4700::1111,9.9.9.9,2620:fe::fe", 0, "",
		},
		{"three of four", "9.9.9.9,https://149.112.112.112#dns.quad9.net,2620:fe::fe,1.1.1.1", 0,
			"resolvers 9.9.9.9:53, https://149.112.112.112:443/dns-query#dns.quad9.net and [2620:fe::fe]:53 are of one operator (Quad9), which reaches the quorum of 3 alone: keep one of them, and add resolvers of other operators; or set the quorum to 4"},
		{"three of five", "9.9.9.9,9.9.9.10,9.9.9.11,1.1.1.1,8.8.8.8", 0, ""},
		{"own ones", "127.0.0.1:5301,127.0.0.1:5302,127.0.0.1:5303", 0, ""},
		{"private ones", "10.0.0.1,10.0.0.2", 0, ""},
		{"a network", "5.5.5.1,5.5.5.2,8.8.8.8", 0,
			"resolvers 5.5.5.1:53 and 5.5.5.2:53 are of one operator (5.5.5.0/24), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := dnscheck.New(dnscheck.Config{Resolvers: parsed(t, test.resolvers), Quorum: test.quorum,
				Mode: dnscheck.ModeAuthority})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				c.Close()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDiagnosisByOneResolver checks that a diagnosis needs no proof, only one resolver.
func TestDiagnosisByOneResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, dnscheck.Config{}, func(q *dns.Msg) *dns.Msg {
			if dnsname.Same(q.Question[0].Name, "example.com") {
				return yes(q)
			}
			return noName(q)
		})
		v := prove(t, c)
		want(t, v, dnscheck.Absent, dnscheck.ReasonNoName)
		d, err := c.Diagnose(context.WithoutCancel(t.Context()), host, "example.com", token, v)
		if err != nil || len(d.Findings) != 1 || d.Findings[0].Mistake != report.MistakeApex {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
