package provider_test

import (
	"net/url"
	"strings"
	"testing"

	"orgops/internal/provider"
)

func TestOf(t *testing.T) {
	for _, test := range []struct {
		want    string // empty: not known
		servers []string
	}{
		{"GoDaddy", []string{"ns47.domaincontrol.com", "NS48.DOMAINCONTROL.COM."}},
		{"Cloudflare", []string{"adam.ns.cloudflare.com", "tess.ns.cloudflare.com"}},
		{"Namecheap", []string{"dns1.registrar-servers.com", "dns2.registrar-servers.com"}},
		{"Amazon Route 53", []string{"ns-123.awsdns-15.com", "ns-1536.awsdns-00.co.uk", "ns-600.awsdns-11.net",
			"ns-1400.awsdns-47.org"}},
		{"Squarespace", []string{"ns01.squarespacedns.com"}},
		{"Google Cloud DNS or Squarespace", []string{"ns-cloud-a1.googledomains.com", "ns-cloud-a2.googledomains.com"}},
		{"IONOS", []string{"ns1045.ui-dns.com", "ns1045.ui-dns.de", "ns1045.ui-dns.org", "ns1045.ui-dns.biz"}},
		{"OVHcloud", []string{"dns200.anycast.me", "ns200.anycast.me"}},
		{"OVHcloud", []string{"dns13.ovh.net", "ns13.ovh.net"}},
		{"Gandi", []string{"ns-17-a.gandi.net", "ns-53-b.gandi.net", "ns-64-c.gandi.net"}},
		{"Azure DNS", []string{"ns1-07.azure-dns.com", "ns2-07.azure-dns.net", "ns3-07.azure-dns.org",
			"ns4-07.azure-dns.info"}},
		{"DigitalOcean", []string{"ns1.digitalocean.com", "ns2.digitalocean.com"}},
		{"Hetzner", []string{"hydrogen.ns.hetzner.com", "oxygen.ns.hetzner.com", "helium.ns.hetzner.de"}},
		{"Hetzner", []string{"ns1.your-server.de", "ns.second-ns.com", "ns3.second-ns.de"}},
		{"Wix", []string{"ns0.wixdns.net", "ns1.wixdns.net"}},
		{"", nil},
		{"", []string{"ns1.example.com"}},
		{"", []string{"domaincontrol.com"}},
		{"", []string{"ns1.notdomaincontrol.com"}},
		{"", []string{"ns1.domaincontrol.com.example.net"}},
		{"", []string{"ns-1.awsdns.com"}},
		{"", []string{"ns47.domaincontrol.com", "adam.ns.cloudflare.com"}}, // the record has to be at both
	} {
		got, known := provider.Of(test.servers)
		if got.Name != test.want || known != (test.want != "") {
			t.Errorf("%q: %q, %t, want %q", test.servers, got.Name, known, test.want)
		}
		if !known {
			continue
		}
		if source, err := url.Parse(got.Source); err != nil || source.Scheme != "https" || source.Host == "" {
			t.Errorf("%s: source %q", got.Name, got.Source)
		}
		if !strings.HasSuffix(got.Hint, ".") {
			t.Errorf("%s: hint %q", got.Name, got.Hint)
		}
	}
}

func TestName(t *testing.T) {
	for _, test := range []struct{ host, zone, want string }{
		{"_v.org_1.Example.com", "example.com", "_v.org_1"},
		{"_v.org_1.example.com.", "example.com.", "_v.org_1"},
		{"_v.org_1.mail.example.com", "mail.example.com", "_v.org_1"},
		{"example.com", "Example.com", "@"},
		{"_v.example.com", "", "_v.example.com"},
		{"_v.example.com", "ample.com", "_v.example.com"},
		{"_v.example.com", "example.net", "_v.example.com"},
		{"example.com", "_v.example.com", "example.com"},
		{".example.com", "example.com", ".example.com"},
	} {
		if got := provider.Name(test.host, test.zone); got != test.want {
			t.Errorf("%q in %q: %q, want %q", test.host, test.zone, got, test.want)
		}
	}
}
