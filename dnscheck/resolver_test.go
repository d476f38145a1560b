package dnscheck_test

import (
	"strings"
	"testing"

	"orgops/dnscheck"
)

func TestParseResolver(t *testing.T) {
	tests := []struct{ text, addr, transport, name string }{
		{"fe80::1%eth0", "[fe80::1%eth0]:53", "udp", "[fe80::1%eth0]:53"},
		{"[fe80::1%eth0]:54", "[fe80::1%eth0]:54", "udp", "[fe80::1%eth0]:54"},
		{"https://1.1.1.1", "1.1.1.1:443", "https", "https://1.1.1.1:443/dns-query"},
		{"https://1.1.1.1/", "1.1.1.1:443", "https", "https://1.1.1.1:443/dns-query"},
		{"https://8.8.8.8/dns-query#dns.google", "8.8.8.8:443", "https", "https://8.8.8.8:443/dns-query#dns.google"},
		{"https://[2606:4700:4700::1111]:8443/a/b", "[2606:4700:4700::1111]:8443", "https",
			"https://[2606:4700:4700::1111]:8443/a/b"},
		{"1.1.1.1", "1.1.1.1:53", "udp", "1.1.1.1:53"},
		{"1.1.1.1:5353", "1.1.1.1:5353", "udp", "1.1.1.1:5353"},
		{"udp://1.1.1.1", "1.1.1.1:53", "udp", "1.1.1.1:53"},
		{"tcp://1.1.1.1", "1.1.1.1:53", "tcp", "tcp://1.1.1.1:53"},
		{"TCP://1.1.1.1:54", "1.1.1.1:54", "tcp", "tcp://1.1.1.1:54"},
		{"::1", "[::1]:53", "udp", "[::1]:53"},
		{"[::1]", "[::1]:53", "udp", "[::1]:53"},
		{"[::1]:5353", "[::1]:5353", "udp", "[::1]:5353"},
		{"tcp://[2606:4700:4700::1111]:53", "[2606:4700:4700::1111]:53", "tcp", "tcp://[2606:4700:4700::1111]:53"},
		{"::ffff:9.9.9.9", "9.9.9.9:53", "udp", "9.9.9.9:53"},
		{"10.1.2.3@eu", "10.1.2.3:53", "udp", "10.1.2.3:53@eu"},
		{"10.1.2.3:54@eu", "10.1.2.3:54", "udp", "10.1.2.3:54@eu"},
		{"tcp://[fd00::1]@eu-west-1", "[fd00::1]:53", "tcp", "tcp://[fd00::1]:53@eu-west-1"},
		{"https://10.1.2.3@eu", "10.1.2.3:443", "https", "https://10.1.2.3:443/dns-query@eu"},
		{"https://10.1.2.3/dns-query#dns.eu.example@eu", "10.1.2.3:443", "https",
			"https://10.1.2.3:443/dns-query#dns.eu.example@eu"},
		{"10.1.2.3@default", "10.1.2.3:53", "udp", "10.1.2.3:53"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			r, err := dnscheck.ParseResolver(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if r.Addr.String() != test.addr || r.Transport != test.transport || r.Name != test.name {
				t.Errorf("%+v, want %+v", r, test)
			}
			again, err := dnscheck.ParseResolver(r.String())
			if err != nil || again != r {
				t.Errorf("read again: %+v, %v", again, err)
			}
		})
	}
}

func TestParseResolverRefuses(t *testing.T) {
	tests := []struct{ text, part string }{
		{"", "want an IP address"},
		{"dns.google", "a host name will not do"},
		{"dns.google:53", "a host name will not do"},
		{"tcp://dns.google", "a host name will not do"},
		{"1.1.1.1:dns", "want an IP address"},
		{"1.1.1.1:65536", "want an IP address"},
		{"1.1.1.1:0", "invalid port 0"},
		{"1.1.1", "want an IP address"},
		{"fe80::1%eth0]:53", "want an IP address"},
		{"fe80::1%\x1b[31m", "want an IP address"},
		{" 1.1.1.1", "want an IP address"},
		{"0.0.0.0", "is not the address of one server"},
		{"[::]:53", "is not the address of one server"},
		{"224.0.0.251", "is not the address of one server"},
		{"https://dns.google", "https://8.8.8.8/dns-query#dns.google"},
		{"tls://8.8.8.8#dns.google", `unknown scheme "tls"`},
		{"https://dns.google/dns-query", "a host name will not do"},
		{"https://1.1.1.1#", "no name after the #"},
		{"https://1.1.1.1#1.1.1.1", "the name after the # is an IP address"},
		{"https://1.1.1.1#a b.example", "the name after the # has ' ' in a label"},
		{"1.1.1.1#one.one.one.one", "want an IP address"},
		{"https://1.1.1.1/dns-query{?dns}", "want a plain path"},
		{"https://1.1.1.1/dns-query?x=y", "want a plain path"},
		{"https://1.1.1.1//elsewhere.example/", "want a plain path"},
		{"https://1.1.1.1/%41", "want a plain path"},
		{"https://who:why@1.1.1.1/", "want an IP address"},
		{"https://1.1.1.1:0", "invalid port 0"},
		{"quic://1.1.1.1", `unknown scheme "quic"`},
		{"\x1b[31m", `"\x1b[31m"`},
		{"10.1.2.3@", "no name after the @"},
		{
			"10.1.2.3@EU",
			"the perspective after the @ must have at most 20 characters, each a lower-case letter, a digit or a hyphen",
		},
		{"10.1.2.3@eu west", "the perspective after the @"},
		{"10.1.2.3@a23456789012345678901", "the perspective after the @"},
		{"10.1.2.3@eu\x1b[31m", `@eu\x1b[31m": the perspective after the @`},
		{"10.1.2.3@eu@us", "the perspective after the @"},
		{"https://10.1.2.3@eu#dns.eu.example", "the perspective after the @"},
		{"https://@eu", "want an IP address"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			_, err := dnscheck.ParseResolver(test.text)
			if err == nil || !strings.Contains(err.Error(), test.part) {
				t.Errorf("error %v, want one with %q", err, test.part)
			}
		})
	}
}

// TestDefaultResolvers checks that the default resolvers use HTTPS with a server name.
func TestDefaultResolvers(t *testing.T) {
	for _, text := range dnscheck.DefaultResolvers() {
		r, err := dnscheck.ParseResolver(text)
		if err != nil || r.Transport != "https" || r.ServerName == "" || r.InTheClear() {
			t.Errorf("%s: %+v, %v; want one over HTTPS with the name of its certificate", text, r, err)
		}
	}
}

func TestInTheClear(t *testing.T) {
	for text, want := range map[string]bool{
		"9.9.9.9": true, "tcp://9.9.9.9": true, "2620:fe::fe": true,
		"https://9.9.9.9/dns-query": false,
		// this machine, or a private network
		"127.0.0.1:5353": false, "10.0.0.53": false, "[::1]": false, "fd00::53": false,
	} {
		r, err := dnscheck.ParseResolver(text)
		if err != nil || r.InTheClear() != want {
			t.Errorf("%s: %v, %v; want %v", text, r.InTheClear(), err, want)
		}
	}
}
