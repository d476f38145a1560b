package dnscheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// TestNetworkWithoutIPv6 has name servers with IPv6 addresses alone, and a worker without IPv6: the
// reason names the missing IPv6, and no fault of the customer's zone.
func TestNetworkWithoutIPv6(t *testing.T) {
	has, lacks := []dns.RR{txt(host, token)}, []dns.RR{}
	tests := []struct {
		name       string
		four, six  int // servers with an address of that family, which answer
		both, dead int // servers with one of each, of which the first is silent; with IPv4, silent
		records    []dns.RR
		prove      expected
		disprove   expected
	}{
		{"one of two", 1, 1, 0, 0, has, unknown(dnscheck.ReasonNoIPv6), found},
		{"one of two, without the record", 1, 1, 0, 0, lacks, unknown(dnscheck.ReasonNoIPv6), unknown(dnscheck.ReasonNoIPv6)},
		{"two of three", 1, 2, 0, 0, has, unknown(dnscheck.ReasonNoIPv6), found},
		{"all", 0, 2, 0, 0, has, unknown(dnscheck.ReasonNoIPv6), found},
		{"one of three, and the others answer", 2, 1, 0, 0, has, found, found},
		{"one of three, without the record", 2, 1, 0, 0, lacks, absent(dnscheck.ReasonNoName), absent(dnscheck.ReasonNoName)},
		{"others are dead, and too many", 1, 1, 0, 2, has, unknown(dnscheck.ReasonTooFew), found},
		{"one is dead, which makes no difference", 1, 2, 0, 1, has, unknown(dnscheck.ReasonNoIPv6), found},
		{"the IPv4 address of the other is dead", 1, 0, 1, 0, has, unknown(dnscheck.ReasonTooFew), found},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			var servers []dns.RR
			n := overTLD(t)
			n.noIPv6 = true
			add := func(count int, z zone, patterns ...string) {
				for range count {
					name := fmt.Sprintf("ns%d.example.com", len(servers))
					servers = append(servers, ns("example.com", name))
					for _, pattern := range patterns {
						addr := fmt.Sprintf(pattern, len(servers))
						servers = append(servers, address(name, addr))
						n.at(addr, z)
					}
				}
			}
			holds := zoneOf(append([]dns.RR{start("example.com")}, test.records...)...)
			add(test.four, holds, "5.1.0.%d")
			add(test.six, holds, "2a00::%d")
			add(test.both, nil, "5.1.0.%d", "2a00::%d")
			add(test.dead, nil, "5.1.0.%d")
			n.at(tldAddr, zoneOf(append([]dns.RR{start("com")}, servers...)...))
			n.know(test.records...)
			c := n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
			v := prove(t, c)
			want(t, v, test.prove.state, test.prove.reason)
			const says = "the domain's name servers cannot be reached over IPv6 from here"
			if ours := test.prove.reason == dnscheck.ReasonNoIPv6; strings.Contains(v.Sentence(), says) != ours {
				t.Errorf("sentence %q", v.Sentence())
			}
			want(t, disprove(t, c), test.disprove.state, test.disprove.reason)
			n.noIPv6 = false
			if test.dead+test.both > 0 {
				return
			}
			wanted := found
			if len(test.records) == 0 {
				wanted = absent(dnscheck.ReasonNoName)
			}
			want(t, prove(t, c), wanted.state, wanted.reason)
		})
	}
}

// TestNameServerNamedByAnAlias has a delegation name a server by an alias, which resolvers follow
// or not (RFC 2181 section 10.3): the customer has to hear of it, or waits for ever.
func TestNameServerNamedByAnAlias(t *testing.T) {
	tests := []struct {
		name    string
		servers []dns.RR
		want    expected
	}{
		{"one of two", []dns.RR{ns("example.com", "ns.alias.net"), ns("example.com", "ns1.example.com"),
			address("ns1.example.com", nsOne)}, unknown(dnscheck.ReasonServerAlias)},
		{"both", []dns.RR{ns("example.com", "ns.alias.net"), ns("example.com", "other.alias.net")},
			unknown(dnscheck.ReasonServerAlias)},
		{"one of three", append(twoServers(), ns("example.com", "ns.alias.net")), found},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			n := overTLD(t, test.servers...)
			n.hosts(cname("ns.alias.net", "real.alias.net"), cname("other.alias.net", "real.alias.net"),
				address("real.alias.net", nsTwo))
			for _, addr := range []string{nsOne, nsTwo} {
				n.at(addr, zoneOf(start("example.com"), txt(host, token)))
			}
			n.know(txt(host, token))
			v := prove(t, n.checker(dnscheck.Config{Mode: dnscheck.ModeAuthority}))
			want(t, v, test.want.state, test.want.reason)
			if test.want == found {
				return
			}
			for _, part := range []string{"a name server of the domain has an alias (CNAME) for a name", "alias.net."} {
				if !strings.Contains(v.Sentence(), part) {
					t.Errorf("sentence %q, want %q in it", v.Sentence(), part)
				}
			}
			const says = "its name is an alias (CNAME) of real.alias.net, which RFC 2181 section 10.3 forbids"
			for _, o := range v.Observations {
				if strings.HasSuffix(o.Resolver, "alias.net") && o.Err != says {
					t.Errorf("%s: error %q", o.Resolver, o.Err)
				}
			}
		})
	}
}
