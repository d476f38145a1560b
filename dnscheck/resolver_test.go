package dnscheck_test

import (
	"strings"
	"testing"

	"orgops/dnscheck"
)

func TestParseResolver(t *testing.T) {
	tests := []struct{ text, addr, transport, name string }{
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
		{"1.1.1.1:0", "port 0 cannot be asked"},
		{"1.1.1", "want an IP address"},
		{" 1.1.1.1", "want an IP address"},
		{"0.0.0.0", "is not the address of one server"},
		{"[::]:53", "is not the address of one server"},
		{"224.0.0.251", "is not the address of one server"},
		{"tls://1.1.1.1", "tls:// is not supported yet"},
		{"https://1.1.1.1/dns-query", "https:// is not supported yet"},
		{"quic://1.1.1.1", `unknown scheme "quic"`},
		{"\x1b[31m", `"\x1b[31m"`},
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
