// Package dnsname compares names of the DNS, and knows no messages of it.
package dnsname

import (
	"strings"

	"golang.org/x/net/idna"
)

// Canonical returns the form in which names are compared, which is never shown: with ASCII letters
// in lower case (RFC 4343) and with the final dot. Other characters remain as they are, since the
// DNS compares bytes: U+212A, the Kelvin sign, is no k.
func Canonical(name string) string {
	if !isRooted(name) {
		name += "."
	}
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// isRooted reports whether the name ends with a dot that no backslash makes a part of its label.
func isRooted(name string) bool {
	label, ok := strings.CutSuffix(name, ".")
	if !ok {
		return false
	}
	escapes := len(label) - len(strings.TrimRight(label, `\`))
	return escapes%2 == 0
}

// Same reports whether two names are the same, with and without a final dot. It does not convert
// internationalized labels: see [Key].
func Same(a, b string) bool { return Canonical(a) == Canonical(b) }

// Key returns the form in which a domain's name is looked up that a person has written: in lower
// case, with internationalized labels in their xn-- form, without a final dot.
func Key(domain string) string {
	domain = strings.TrimSuffix(domain, ".")
	if ascii, err := idna.Lookup.ToASCII(domain); err == nil {
		return ascii
	}
	return strings.ToLower(domain)
}
