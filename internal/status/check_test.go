package status_test

import (
	"strings"
	"testing"

	"orgops/dnscheck/dnschecktest"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/status"
)

// TestCheckSaysHowToEnterTheRecord checks hosts in a zone of a known provider, and in none.
func TestCheckSaysHowToEnterTheRecord(t *testing.T) {
	checker := dnschecktest.ExampleCom(t)
	for _, test := range []struct {
		host, token string
		want        []string // lines; nil: none of them
	}{
		{"_v.org_1.example.com", "token-1", []string{
			"name to enter  _v.org_1 in the zone example.com",
			"at GoDaddy     Under DNS, choose Add New Record and TXT. Enter the name without the domain, which is appended to it."}},
		{"there.example.com", "another", []string{"name to enter  there in the zone example.com"}},
		{"there.example.com", "token-1", nil}, // unknown: one resolver proves nothing
		{"_v.example.net", "token-1", nil},    // its zone is not known
	} {
		found, err := status.Check(t.Context(), checker, discovery.Domain{Host: test.host, TXT: test.token})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := found.Write(&text); err != nil {
			t.Fatal(err)
		}
		for _, line := range test.want {
			if !strings.Contains(text.String(), line+"\n") {
				t.Errorf("%s: no line %q in\n%s", test.host, line, text.String())
			}
		}
		if test.want == nil && strings.Contains(text.String(), "name to enter") {
			t.Errorf("%s: how to enter it:\n%s", test.host, text.String())
		}
	}
}

func TestServerName(t *testing.T) {
	for want, o := range map[string]report.Observation{
		"name server ns1.example.com at 192.0.2.1:53": {Asked: "ns1.example.com", Authority: true,
			Address: "192.0.2.1:53"},
		"resolver https://1.1.1.1:443/dns-query#one.one.one.one (Cloudflare)": {
			Asked: "https://1.1.1.1:443/dns-query#one.one.one.one", Operator: "Cloudflare", Perspective: "default",
		},
		"resolver https://5.5.5.5:443/dns-query#dns.eu.example@eu (5.5.5.0/24)": {
			Asked: "https://5.5.5.5:443/dns-query#dns.eu.example@eu", Operator: "5.5.5.0/24", Perspective: "eu",
		},
		"resolver https://10.1.2.3:443/dns-query@eu": {Asked: "https://10.1.2.3:443/dns-query@eu",
			Operator: "10.1.2.3", Perspective: "eu"},
		"resolver ours (example.com, eu)": {Asked: "ours",
			Operator: "example.com", Perspective: "eu"},
		"resolver 127.0.0.1:53": {Asked: "127.0.0.1:53"},
	} {
		if got := status.ServerName(o); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
