package dnscheck

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"orgops/dnscheck/dnsname"
	"orgops/internal/untrusted"
)

// QuestionError is a permanent error: the host is not a name that the DNS could hold a
// verification record at, or the token is empty.
type QuestionError struct {
	Host    string // as it was given
	Problem string // with a remedy
}

func (e *QuestionError) Error() string {
	return fmt.Sprintf("verification host %s: %s", untrusted.QuoteASCII(e.Host, maxName), e.Problem)
}

// CheckHost checks that host can be queried: at least two labels, each of 1 to 63 letters,
// digits, hyphens and underscores, at most 253 bytes, with or without a final dot. It refuses
// IP addresses, names that the public DNS does not serve (localhost, invalid and local:
// RFC 6761, 6762; onion: RFC 7686), and names of its infrastructure (arpa: RFC 3172). The
// error is a *QuestionError.
func CheckHost(host string) error {
	if problem := nameProblem(host, "the full name of the TXT record"); problem != "" {
		return &QuestionError{Host: host, Problem: problem}
	}
	return nil
}

// CheckDomain returns the form in which the DNS holds a domain whose logins an organization
// may have: lower case, internationalized labels in their xn-- form (UTS 46, lookup), no
// final dot. It refuses:
//   - public suffixes run by registries (the ICANN part of publicsuffix.org, as built into
//     golang.org/x/net/publicsuffix), and the names above them
//   - IP addresses, single labels, and names that [CheckHost] refuses
//   - labels that no registry registers, for example with an underscore
//
// The error quotes the domain, and has the remedy.
func CheckDomain(domain string) (ascii string, err error) {
	refuse := func(problem string) (string, error) {
		return "", fmt.Errorf("domain %s: %s", untrusted.QuoteASCII(domain, maxName), problem)
	}
	const longest = 4 * maxName // bytes, if each character had the most that UTF-8 has
	if len(domain) > longest {
		return refuse(fmt.Sprintf("has %d bytes; a name has at most %d", len(domain), maxName))
	}
	if !utf8.ValidString(domain) { // idna would accept it as U+FFFD
		return refuse("is not text in UTF-8; give " + wholeDomain)
	}
	ascii, err = idna.Lookup.ToASCII(domain)
	if err != nil {
		// First, since an address has no invalid label.
		if problem := addressProblem(domain, wholeDomain); problem != "" {
			return refuse(problem)
		}
		return refuse(fmt.Sprintf("has a label that domains do not have (%s): %s; give %s",
			untrusted.QuoteASCII(invalidLabel(domain), maxLabel), plainIDNA(err), wholeDomain))
	}
	if problem := nameProblem(ascii, wholeDomain); problem != "" {
		return refuse(problem)
	}
	ascii = strings.TrimSuffix(ascii, ".")
	switch {
	case isPublicSuffix(ascii):
		return refuse("is a public suffix: others have their domains beneath it; give " + wholeDomain)
	case isPublicSuffix("x." + ascii): // a rule with a wildcard, such as *.kawasaki.jp
		return refuse("has public suffixes beneath it, with domains of others; give " + wholeDomain)
	}
	return ascii, nil
}

const wholeDomain = "the organization's own domain"

// Within reports whether host is a subdomain of domain, which is not one of itself. It
// compares whole labels without regard to ASCII case, a final dot, or whether a label is in
// its xn-- form. A name with an escape or an empty label is within nothing.
func Within(host, domain string) bool {
	inner, outer := plainLabels(host), plainLabels(domain)
	if len(outer) == 0 || len(inner) <= len(outer) {
		return false
	}
	return slices.Equal(inner[len(inner)-len(outer):], outer)
}

// plainLabels returns the canonical labels of a name, or nil if dots do not separate them.
func plainLabels(name string) []string {
	if strings.Contains(name, `\`) {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(dnsname.Canonical(name), "."), ".")
	if slices.Contains(labels, "") {
		return nil
	}
	for i, label := range labels {
		labels[i] = aLabel(label)
	}
	return labels
}

// isPublicSuffix reports whether others can register names directly below this one at a
// registry. Suffixes of the list's private part (github.io) have one owner.
func isPublicSuffix(ascii string) bool {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	return icann && suffix == ascii
}

// isRegistry reports whether a zone is a top-level domain or another public suffix.
func isRegistry(zone string) bool {
	return dns.CountLabel(zone) < 2 || isPublicSuffix(unrooted(zone))
}

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

// registered returns the registered domain of a name: the label below the public suffix, and
// the suffix. Empty: there is none.
func registered(name string) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(name))
	if err != nil {
		return ""
	}
	return domain
}

// invalidLabel returns the first invalid label, or the whole name if each label is valid.
func invalidLabel(domain string) string {
	dot := func(r rune) bool { return strings.ContainsRune(".\u3002\uff0e\uff61", r) } // UTS 46 section 4.5
	for _, label := range strings.FieldsFunc(domain, dot) {
		if _, err := idna.Lookup.ToASCII(label); err != nil {
			return label
		}
	}
	return domain
}

// plainIDNA returns the error without the package's name and the label, which is not capped.
func plainIDNA(err error) string {
	text := strings.TrimPrefix(err.Error(), "idna: ")
	if strings.HasPrefix(text, "disallowed rune ") {
		return strings.Replace(text, "disallowed rune", "no domain has", 1)
	}
	return "not valid by IDNA"
}

// aLabel returns the xn-- form of an internationalized label, and any other label as it is.
// One that only maps to ASCII (the Kelvin sign to k) is not one: similar names are not equal.
func aLabel(label string) string {
	if !strings.ContainsFunc(label, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return label
	}
	ascii, err := idna.Lookup.ToASCII(label)
	if err != nil || !strings.HasPrefix(ascii, "xn--") || strings.Contains(ascii, ".") {
		return label
	}
	return ascii
}

const (
	maxName  = 253 // bytes of a name in text without the last dot: 255 on the wire (RFC 1035 section 2.3.4)
	maxLabel = 63  // bytes of a label, same place
)

// nameProblem describes why a name is invalid, and names the wanted one; empty: it is valid.
func nameProblem(name, wanted string) string {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return "is empty; give " + wanted
	}
	if problem := addressProblem(name, wanted); problem != "" {
		return problem
	}
	if len(name) > maxName {
		return fmt.Sprintf("has %d bytes; a name has at most %d", len(name), maxName)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if problem := labelProblem(label); problem != "" {
			return problem
		}
	}
	if len(labels) < 2 {
		return "has one label only; give the full name, with its domain"
	}
	return lastLabelProblem(labels[len(labels)-1], wanted)
}

func addressProblem(name, wanted string) string {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return "is an IP address; give " + wanted
	}
	return ""
}

func labelProblem(label string) string {
	if label == "" {
		return "has an empty label (a dot too many)"
	}
	if len(label) > maxLabel {
		return fmt.Sprintf("has a label of %d bytes (%s); a label has at most %d", len(label),
			untrusted.QuoteASCII(label, 20), maxLabel)
	}
	for _, r := range label {
		switch {
		case r >= 0x80:
			return "has characters outside ASCII; write an internationalized name in its xn-- form"
		case !isHostRune(r):
			return fmt.Sprintf("has %q in a label; letters, digits, hyphens and underscores are possible", r)
		}
	}
	return ""
}

func isHostRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

func lastLabelProblem(label, wanted string) string {
	if strings.Trim(label, "0123456789") == "" {
		return "ends in a number as IP addresses do; give " + wanted
	}
	switch dnsname.Canonical(label) {
	case "localhost.", "local.", "onion.", "invalid.":
		return fmt.Sprintf("ends in .%s, which the public DNS does not serve", label)
	case "arpa.":
		return "ends in .arpa, where no organization has its domain"
	}
	return ""
}

// unrooted removes the final dot of a name, for showing it.
func unrooted(name string) string { return strings.TrimSuffix(name, ".") }

// isOdd reports whether host names do not have the character.
func isOdd(r rune) bool { return r != '.' && !isHostRune(r) }

// shownHost returns a host name as it is, and quotes any other name.
func shownHost(name string) string {
	if name == "" || len(name) > maxName+1 || strings.ContainsFunc(name, isOdd) {
		return untrusted.QuoteASCII(name, maxName)
	}
	return name
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
