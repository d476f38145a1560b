package dnscheck

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

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

// shown quotes at most so many bytes of foreign text as printable ASCII.
func shown(s string, most int) string {
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// capped returns at most so many bytes of a text, in whole characters.
func capped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
