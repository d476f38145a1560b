package dnscheck

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// DomainError is the error of a domain that no organization can hold.
type DomainError struct {
	Domain  string // as it was given
	Problem string // with a remedy
}

// Error contains the domain, quoted and capped, and the problem.
func (e *DomainError) Error() string {
	return fmt.Sprintf("domain %s: %s", shown(e.Domain, maxName), e.Problem)
}

// CheckDomain returns the form in which the DNS holds a domain whose logins an organization
// may have: lower case, internationalized labels in their xn-- form (UTS 46, lookup), no
// final dot. It refuses:
//   - public suffixes run by registries (the ICANN part of publicsuffix.org, as built into
//     golang.org/x/net/publicsuffix), and the names above them
//   - IP addresses, single labels, and names that [CheckHost] refuses
//   - labels that no registry registers, for example with an underscore
//
// The error is a *DomainError.
func CheckDomain(domain string) (ascii string, err error) {
	refuse := func(problem string) (string, error) {
		return "", &DomainError{Domain: domain, Problem: problem}
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
		return refuse(fmt.Sprintf("has a label that domains do not have (%s): %s; give %s", shown(invalidLabel(domain), maxLabel), plainIDNA(err), wholeDomain))
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
	labels := strings.Split(strings.TrimSuffix(canonical(name), "."), ".")
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
