package dnscheck

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// DomainError tells that a domain cannot be any organization's, whatever the DNS holds.
type DomainError struct {
	Domain  string // as it was given
	Problem string // what is wrong, and what to do about it
}

// Error names the domain, quoted and capped, and what is wrong with it.
func (e *DomainError) Error() string {
	return fmt.Sprintf("domain %s: %s", shown(e.Domain, maxName), e.Problem)
}

// CheckDomain gives the form in which the DNS holds a domain whose logins an organization may have: lower case, each
// internationalized label in its xn-- form (UTS 46, lookup), no dot at the end. Refused are names
// that no organization can hold alone: public suffixes run by registries (the ICANN part of publicsuffix.org, as
// golang.org/x/net/publicsuffix was built with it), and what lies above them; IP addresses, single labels, and what
// the public DNS does not serve, as by [CheckHost]; and labels that no registry registers, with an underscore for one.
// The error is a *DomainError.
func CheckDomain(domain string) (ascii string, err error) {
	refuse := func(problem string) (string, error) {
		return "", &DomainError{Domain: domain, Problem: problem}
	}
	const longest = 4 * maxName // bytes, if each character had the most that UTF-8 has
	if len(domain) > longest {
		return refuse(fmt.Sprintf("has %d bytes; a name has at most %d", len(domain), maxName))
	}
	if !utf8.ValidString(domain) { // the package would read what is broken as U+FFFD, and take that
		return refuse("is not text in UTF-8; give " + wholeDomain)
	}
	ascii, err = idna.Lookup.ToASCII(domain)
	if err != nil {
		// Before anything else is said: an address has no label that could be named.
		if problem := addressProblem(domain, wholeDomain); problem != "" {
			return refuse(problem)
		}
		return refuse(fmt.Sprintf("has a label that domains do not have (%s): %s; give %s", shown(culprit(domain), maxLabel), plainIDNA(err), wholeDomain))
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

// isPublicSuffix tells whether a registry lets others register beneath exactly this name. Suffixes from the list's private
// part (github.io) have one owner all the same.
func isPublicSuffix(ascii string) bool {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	return icann && suffix == ascii
}

// culprit is the first label that is refused by itself; the whole name where only the labels together are.
func culprit(domain string) string {
	dot := func(r rune) bool { return strings.ContainsRune(".\u3002\uff0e\uff61", r) } // UTS 46 section 4.5
	for _, label := range strings.FieldsFunc(domain, dot) {
		if _, err := idna.Lookup.ToASCII(label); err != nil {
			return label
		}
	}
	return domain
}

// plainIDNA is the package's word without its name and without a label, which it does not cap.
func plainIDNA(err error) string {
	text := strings.TrimPrefix(err.Error(), "idna: ")
	if strings.HasPrefix(text, "disallowed rune ") {
		return strings.Replace(text, "disallowed rune", "no domain has", 1)
	}
	return "not valid by IDNA"
}

// aLabel is the xn-- form of an internationalized label; any other label stays as it is. One that only maps to ASCII (the Kelvin
// sign to k) is none, however it looks: names are not taken to be equal by likeness.
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
