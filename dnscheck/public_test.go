package dnscheck_test

import (
	"net/netip"
	"testing"

	"orgops/dnscheck"
)

// TestIsPublic checks an address in each block of the IANA special-purpose address registries,
// the addresses of cloud platforms, their forms in IPv6, and public neighbors.
func TestIsPublic(t *testing.T) {
	groups := []struct {
		name      string
		public    bool
		addresses []string
	}{
		{"special-purpose registry of IPv4", false, []string{
			"0.0.0.0", "0.255.255.255", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.0.1", "172.16.0.1", "172.31.255.255",
			"192.0.0.1", "192.0.0.9", "192.0.0.170", "192.0.2.1",
			"192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1", "192.175.48.1", "198.18.0.1", "198.19.255.255",
			"198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.255",
		}},
		{"special-purpose registry of IPv6", false, []string{
			"::", "::1", "::ffff:0.0.0.1", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001::1", "2001:1::1", "2001:1::3",
			"2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
			"2001:20::1", "2001:30::1", "2001:db8::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fe80::1",
		}},
		{"multicast", false, []string{"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"}},
		{"platforms of clouds", false, []string{
			"168.63.129.16", "169.254.169.254", "169.254.169.253", "169.254.42.42", "100.100.100.200", "192.0.0.192",
			"161.26.0.0", "161.26.0.7", "161.26.255.255", "166.8.0.0", "166.11.255.255",
			"fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fe80::a9fe:a9fe",
		}},
		{"carried by IPv6", false, []string{"::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::1",
			"::ffff:161.26.0.7", "64:ff9b::a00:1", "2002:7f00:1::1", "::168.63.129.16"}},
		{"with a zone", false, []string{"fe80::1%eth0", "2606:4700::1%eth0"}},
		{"beside them", true, []string{
			"1.1.1.1", "9.255.255.255", "100.63.255.255", "100.128.0.0", "161.25.255.255", "161.27.0.0", "166.7.255.255",
			"166.12.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255",
			"172.32.0.0", "192.0.1.1", "192.31.197.0", "192.52.192.255", "192.175.47.255", "198.20.0.0", "223.255.255.255",
			"2001:200::1", "2606:4700::1", "2620:4f:7fff::1", "2a00::1", "64:ff9b::101:101", "2002:101:101::1",
		}},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, address := range g.addresses {
				if got := dnscheck.IsPublic(netip.MustParseAddr(address)); got != g.public {
					t.Errorf("%s: public %t, want %t", address, got, g.public)
				}
			}
		})
	}
	if dnscheck.IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}
