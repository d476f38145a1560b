package dnscheck

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// isRegistry reports whether a zone is a top-level domain or another public suffix.
func isRegistry(zone string) bool {
	return dns.CountLabel(zone) < 2 || dnsname.IsPublicSuffix(dnsname.Unrooted(zone))
}

// QuestionError is a permanent error: the host is not a name that the DNS could hold a verification
// record at, or the token is empty.
type QuestionError = dnsname.HostError

func randomLabel() string { return strings.ToLower(rand.Text()) }

// belowRegistry returns the domain of a name that its registry delegates: the label below the
// registry's zone, and that zone. Empty: the name is a registry's.
func belowRegistry(name string) string {
	name = dnsname.Canonical(name)
	offsets := dns.Split(name)
	for _, off := range slices.Backward(offsets) {
		if !isRegistry(name[off:]) {
			return name[off:]
		}
	}
	return ""
}

// notPublic lists unicast addresses to which foreign data must not lead: the author of a
// zone's delegation, or of a webhook's URL, could otherwise choose which host inside our
// network gets packets. It has the IANA special-purpose address registries (RFC 6890), and
// the addresses at which clouds serve only their own machines.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network: RFC 791 section 3.2
	netip.MustParsePrefix("10.0.0.0/8"),       // private: RFC 1918
	netip.MustParsePrefix("100.64.0.0/10"),    // shared behind carriers' NAT: RFC 6598; Alibaba Cloud's metadata
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback: RFC 1122 section 3.2.1.3
	netip.MustParsePrefix("161.26.0.0/16"),    // IBM Cloud's infrastructure services
	netip.MustParsePrefix("166.8.0.0/14"),     // IBM Cloud's private service endpoints
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform: configuration of machines, DNS, health probes
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local, most clouds' metadata among them: RFC 3927
	netip.MustParsePrefix("172.16.0.0/12"),    // private: RFC 1918
	// protocol assignments: RFC 6890 section 2.1; Oracle Cloud's former metadata
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation: RFC 5737
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112, anycast, which every network may run itself: RFC 7535
	netip.MustParsePrefix("192.52.193.0/24"),   // multicast tunnels' relays, anycast likewise: RFC 7450
	netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relays, given up: RFC 7526
	netip.MustParsePrefix("192.168.0.0/16"),    // private: RFC 1918
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112: RFC 7534
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarks: RFC 2544
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation: RFC 5737
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation: RFC 5737
	netip.MustParsePrefix("224.0.0.0/4"),       // multicast: RFC 5771
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, and broadcast: RFC 1112 section 4, RFC 919
	netip.MustParsePrefix("2001::/23"),         // protocol assignments, Teredo among them: RFC 2928, RFC 4380
	netip.MustParsePrefix("2001:db8::/32"),     // documentation: RFC 3849
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112: RFC 7534
	netip.MustParsePrefix("3fff::/20"),         // documentation: RFC 9637
}

var (
	// globalUnicast is the assigned public part of IPv6 (RFC 4291 section 2.4, RFC 3513).
	// Loopback, link-local, unique local (with the metadata of AWS and Google Cloud),
	// site-local, multicast, discard-only, segment routing and mapped addresses are outside.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in the last four bytes: RFC 6052
	sixToFour     = netip.MustParsePrefix("2002::/16")    // an IPv4 address in bytes 2 to 5: RFC 3056
)

// IsPublic reports whether the address is public unicast, so that foreign data may have us
// connect to it. For an IPv6 address that contains an IPv4 address, the latter decides.
func IsPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return false
	}
	raw := addr.AsSlice()
	switch {
	case nat64.Contains(addr):
		return IsPublic(netip.AddrFrom4([4]byte(raw[12:16])))
	case sixToFour.Contains(addr):
		return IsPublic(netip.AddrFrom4([4]byte(raw[2:6])))
	case addr.Is6() && !globalUnicast.Contains(addr):
		return false
	}
	return addr.IsValid() && !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}

const (
	maxValues     = 10  // values of an observation: evidence, not a copy of the zone
	maxValueBytes = 255 // of each value: one character string (RFC 1035 section 3.3)
)

// textOf returns the value of a TXT record: the bytes of its strings, joined.
func textOf(record *dns.TXT) string {
	var value strings.Builder
	for _, s := range record.Txt {
		value.WriteString(unescape(s))
	}
	return value.String()
}

var (
	textEscapes = regexp.MustCompile(`\\(?:["\\]|[0-9]{3})`)
	nameEscapes = regexp.MustCompile(`\\(?:[^0-9]|[0-9]{3})`)
)

// unescape reverts the escapes of the codec in a character string: \" and \\, and \DDD for
// bytes that are not printable. Any other backslash is literal.
func unescape(s string) string { return textEscapes.ReplaceAllStringFunc(s, unescapeOne) }

// plainName reverts the escapes of the codec in a name: \. and the like, and \DDD.
func plainName(name string) string { return nameEscapes.ReplaceAllStringFunc(name, unescapeOne) }

func unescapeOne(escape string) string {
	if len(escape) != len(`\DDD`) {
		return escape[1:]
	}
	value, err := strconv.ParseUint(escape[1:], 10, 8)
	if err != nil { // above 255
		return escape
	}
	return string([]byte{byte(value)})
}

// capValues returns the first values, each capped, and how many more there were.
func capValues(values []string) (capped []string, more int) {
	for _, v := range values[:min(len(values), maxValues)] {
		capped = append(capped, strings.Clone(v[:min(len(v), maxValueBytes)]))
	}
	return capped, max(0, len(values)-maxValues)
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}
