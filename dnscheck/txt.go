package dnscheck

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	maxValues     = 10  // values kept of one look: evidence for a person, not a copy of the zone
	maxValueOctet = 255 // bytes kept of each value: one character string (RFC 1035 section 3.3)
)

// textOf gives the value of one TXT record: its strings joined with nothing between them, as bytes.
func textOf(record *dns.TXT) string {
	var value strings.Builder
	for _, s := range record.Txt {
		value.WriteString(unescape(s))
	}
	return value.String()
}

// unescape undoes how the codec writes the bytes of a character string in text: \" and \\ for those two, \DDD for
// bytes that do not print. A backslash that begins none of these stands for itself (the codec writes none such).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	octets := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			octets = append(octets, s[i])
			continue
		}
		octet, used := unescapeOne(s[i:])
		octets = append(octets, octet)
		i += used - 1
	}
	return string(octets)
}

// unescapeOne reads the escape that s begins with, and tells how much of s it takes.
func unescapeOne(s string) (octet byte, used int) {
	if len(s) >= 2 && (s[1] == '"' || s[1] == '\\') {
		return s[1], 2
	}
	if len(s) < 4 {
		return s[0], 1
	}
	n := 0
	for _, c := range []byte(s[1:4]) {
		if c < '0' || c > '9' {
			return s[0], 1
		}
		n = n*10 + int(c-'0')
	}
	if n > 255 {
		return s[0], 1
	}
	return byte(n), 4
}

// holds tells whether one of the values is the token, byte by byte. The token is no secret (it stands in a public
// record), so time may tell where they differ.
func holds(values []string, token string) bool {
	return slices.Contains(values, token)
}

// evidence is what is kept of the values that were found: the first ones, each capped, and how many more there were.
func evidence(values []string) (kept []string, more int) {
	for _, v := range values[:min(len(values), maxValues)] {
		kept = append(kept, strings.Clone(v[:min(len(v), maxValueOctet)]))
	}
	return kept, max(0, len(values)-maxValues)
}
