package dnscheck

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

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
		return fmt.Sprintf("has a label of %d bytes (%s); a label has at most %d", len(label), shown(label, 20), maxLabel)
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
	switch canonical(label) {
	case "localhost.", "local.", "onion.", "invalid.":
		return fmt.Sprintf("ends in .%s, which the public DNS does not serve", label)
	case "arpa.":
		return "ends in .arpa, where no organization has its domain"
	}
	return ""
}

// canonical is the form in which names are compared, never shown: in lower case, with the
// final dot (RFC 4343).
func canonical(name string) string { return dns.CanonicalName(name) }

func sameName(a, b string) bool { return canonical(a) == canonical(b) }

// unrooted removes the final dot of a name, for showing it.
func unrooted(name string) string { return strings.TrimSuffix(name, ".") }

// isOdd reports whether host names do not have the character.
func isOdd(r rune) bool { return r != '.' && !isHostRune(r) }

// shownHost returns a host name as it is, and quotes any other name.
func shownHost(name string) string {
	if name == "" || len(name) > maxName+1 || strings.ContainsFunc(name, isOdd) {
		return shown(name, maxName)
	}
	return name
}
