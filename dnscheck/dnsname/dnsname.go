// Package dnsname checks, compares and shows the names of domains and hosts. It sends no query.
package dnsname

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"orgops/internal/untrusted"
)

// HostError is a permanent error: the host is not a name that the DNS could hold a verification
// record at.
type HostError struct {
	Host    string // as it was given
	Problem string // with a remedy
}

func (e *HostError) Error() string {
	return fmt.Sprintf("verification host %s: %s", untrusted.QuoteASCII(e.Host, MaxLength), e.Problem)
}

// CheckHost checks that host can be queried: at least two labels, each of 1 to 63 letters,
// digits, hyphens and underscores, at most 253 bytes, with or without a final dot. It refuses
// IP addresses, names that the public DNS does not serve (localhost, invalid and local:
// RFC 6761, 6762; onion: RFC 7686), and names of its infrastructure (arpa: RFC 3172). The
// error is a *HostError.
func CheckHost(host string) error {
	if problem := Problem(host, "the full name of the TXT record"); problem != "" {
		return &HostError{Host: host, Problem: problem}
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
		return "", fmt.Errorf("domain %s: %s", untrusted.QuoteASCII(domain, MaxLength), problem)
	}
	const longest = 4 * MaxLength // bytes, if each character had the most that UTF-8 has
	if len(domain) > longest {
		return refuse(fmt.Sprintf("has %d bytes; a name has at most %d", len(domain), MaxLength))
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
	if problem := Problem(ascii, wholeDomain); problem != "" {
		return refuse(problem)
	}
	ascii = strings.TrimSuffix(ascii, ".")
	switch {
	case IsPublicSuffix(ascii):
		return refuse("is a public suffix: others have their domains beneath it; give " + wholeDomain)
	case IsPublicSuffix("x." + ascii): // a rule with a wildcard, such as *.kawasaki.jp
		return refuse("has public suffixes beneath it, with domains of others; give " + wholeDomain)
	}
	return ascii, nil
}

const wholeDomain = "the organization's own domain"

// Within reports whether host is a subdomain of domain, which is not one of itself. It
// compares whole labels without regard to ASCII case, a final dot, or whether a label is in
// its xn-- form. A name with an escape or an empty label is within nothing.
func Within(host, domain string) bool {
	inner := plainLabels(host)
	outer := plainLabels(domain)
	if len(outer) == 0 || len(inner) <= len(outer) {
		return false
	}
	return slices.Equal(inner[len(inner)-len(outer):], outer)
}

// plainLabels returns the Canonical labels of a name, or nil if dots do not separate them.
func plainLabels(name string) []string {
	if strings.Contains(name, `\`) {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(Canonical(name), "."), ".")
	if slices.Contains(labels, "") {
		return nil
	}
	for i, label := range labels {
		labels[i] = aLabel(label)
	}
	return labels
}

// IsPublicSuffix reports whether others can register names directly below this one at a
// registry. Suffixes of the list's private part (github.io) have one owner.
func IsPublicSuffix(ascii string) bool {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	return icann && suffix == ascii
}

// Registered returns the registered domain of a name: the label below the public suffix, and
// the suffix. Empty: there is none.
func Registered(name string) string {
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
	// MaxLength is the most bytes of a name in text without the last dot: 255 on the wire (RFC 1035
	// section 2.3.4).
	MaxLength = 253
	maxLabel  = 63 // bytes of a label, same place
)

// Problem describes why a name is invalid, and names the wanted one; empty: it is valid.
func Problem(name, wanted string) string {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return "is empty; give " + wanted
	}
	if problem := addressProblem(name, wanted); problem != "" {
		return problem
	}
	if len(name) > MaxLength {
		return fmt.Sprintf("has %d bytes; a name has at most %d", len(name), MaxLength)
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
		case !IsHostRune(r):
			return fmt.Sprintf("has %q in a label; letters, digits, hyphens and underscores are possible", r)
		}
	}
	return ""
}

// IsHostRune reports whether labels of host names have the character.
func IsHostRune(r rune) bool {
	isLetter := ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z')
	isDigit := '0' <= r && r <= '9'
	return isLetter || isDigit || r == '-' || r == '_'
}

func lastLabelProblem(label, wanted string) string {
	if strings.Trim(label, "0123456789") == "" {
		return "ends in a number as IP addresses do; give " + wanted
	}
	switch Canonical(label) {
	case "localhost.", "local.", "onion.", "invalid.":
		return fmt.Sprintf("ends in .%s, which the public DNS does not serve", label)
	case "arpa.":
		return "ends in .arpa, where no organization has its domain"
	}
	return ""
}

// Canonical returns the form in which names are compared, never shown: in lower case, with the
// final dot (RFC 4343).
func Canonical(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, rooted(name))
}

// rooted returns the name with a final dot. An escaped dot is none.
func rooted(name string) string {
	bare, found := strings.CutSuffix(name, ".")
	escapes := len(bare) - len(strings.TrimRight(bare, `\`))
	if found && escapes%2 == 0 {
		return name
	}
	return name + "."
}

// Same reports whether two names are the same in DNS.
func Same(a, b string) bool { return Canonical(a) == Canonical(b) }

// Unrooted removes the final dot of a name, for showing it.
func Unrooted(name string) string { return strings.TrimSuffix(name, ".") }

// IsOdd reports whether host names do not have the character.
func IsOdd(r rune) bool { return r != '.' && !IsHostRune(r) }

// Shown returns a host name as it is, and quotes any other name.
func Shown(name string) string {
	if name == "" || len(name) > MaxLength+1 || strings.ContainsFunc(name, IsOdd) {
		return untrusted.QuoteASCII(name, MaxLength)
	}
	return name
}

// Unicode returns a domain's name as people write it, with its internationalized labels in
// characters, or the name itself if it has none, or if they are not valid (UTS 46).
func Unicode(domain string) string {
	if !strings.Contains(domain, "xn--") {
		return domain
	}
	name, err := idna.Lookup.ToUnicode(domain)
	if err != nil {
		return domain
	}
	return name
}

// Typed returns the [Key] of a domain that a person has typed or pasted, as its name or as the
// address of one of its pages, such as https://acme.example/login.
func Typed(text string) string {
	host := strings.TrimSpace(text)
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host = rest
	}

	// After the host an address has a port and a path, and before it a user.
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	host = host[strings.LastIndex(host, "@")+1:]
	host, _, _ = strings.Cut(host, ":")
	return Key(host)
}

// Key returns the form in which a domain's name is looked up: in lower case, with
// internationalized labels in their xn-- form, without a final dot.
func Key(domain string) string {
	domain = strings.TrimSuffix(domain, ".")
	if ascii, err := idna.Lookup.ToASCII(domain); err == nil {
		return ascii
	}
	return strings.ToLower(domain)
}
