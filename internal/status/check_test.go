package status_test

import (
	"testing"

	"orgops/dnscheck/report"
	"orgops/internal/status"
)

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
