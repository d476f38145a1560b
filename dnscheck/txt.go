package dnscheck

import (
	"regexp"
	"strconv"
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

var (
	textEscapes = regexp.MustCompile(`\\(?:["\\]|[0-9]{3})`)
	nameEscapes = regexp.MustCompile(`\\(?:[^0-9]|[0-9]{3})`)
)

// unescape undoes how the codec writes the bytes of a character string in text: \" and \\ for those two, \DDD for
// bytes that do not print. A backslash that begins none of these stands for itself (the codec writes none such).
func unescape(s string) string { return textEscapes.ReplaceAllStringFunc(s, unescaped) }

// plainName undoes how the codec writes the bytes of a name in text: \. and the like, and \DDD.
func plainName(name string) string { return nameEscapes.ReplaceAllStringFunc(name, unescaped) }

func unescaped(escape string) string {
	octet, err := strconv.ParseUint(escape[1:], 10, 8)
	switch {
	case len(escape) != len(`\DDD`):
		return escape[1:]
	case err != nil: // no byte
		return escape
	}
	return string([]byte{byte(octet)})
}

// evidence is what is kept of the values that were found: the first ones, each capped, and how many more there were.
func evidence(values []string) (kept []string, more int) {
	for _, v := range values[:min(len(values), maxValues)] {
		kept = append(kept, strings.Clone(v[:min(len(v), maxValueOctet)]))
	}
	return kept, max(0, len(values)-maxValues)
}
