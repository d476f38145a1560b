package dnscheck

import (
	"cmp"
	"slices"
	"strings"
)

// Mistake is a possible mistake of a customer with a record. Its text is stable, for machines.
type Mistake string

// The mistakes.
const (
	MistakeApex       Mistake = "at_domain"       // the token is at the domain itself
	MistakeDoubled    Mistake = "domain_appended" // the token is at the host with the domain appended twice
	MistakeLeftOut    Mistake = "label_left_out"  // the token is at the host without one of its labels
	MistakeAbove      Mistake = "at_parent"       // the token is at another name above the host
	MistakeUnderscore Mistake = "no_underscore"   // the token is at the host without its underscores
	MistakeWWW        Mistake = "at_www"          // the token is at www, or below it
	MistakeAtWildcard Mistake = "at_wildcard"     // the token is at a wildcard that does not cover the host
	MistakeQuoted     Mistake = "quoted"          // with quotation marks or backslashes
	MistakePadded     Mistake = "padded"          // with blanks or invisible characters
	MistakeCut        Mistake = "cut"             // only a part of the token
	MistakeSplit      Mistake = "split"           // its parts are in two records
	MistakeLetters    Mistake = "letter_case"     // letters in another case
	MistakeAlong      Mistake = "more_along"      // the value has more than the token
	MistakeAsAlias    Mistake = "token_as_cname"  // the token is in a CNAME record
	MistakeWildcard   Mistake = "wildcard"        // the value comes from a wildcard, the host has no record
	MistakeAlias      Mistake = "cname"           // a CNAME leads to a name without the token

	MistakeOtherServers Mistake = "other_name_servers" // the token is at name servers to which the zone is not delegated
	// the zone names other name servers than its delegation, and no other mistake was found
	MistakeServersDiffer Mistake = "name_servers_differ"
)

const (
	// invisible are characters that copied text may have: blanks, no-break space, zero-width
	// ones, byte order mark, NUL.
	invisible = " \t\r\n\v\f\x00\u00a0\u00ad\u2007\u200b\u200c\u200d\u2060\u202f\u3000\ufeff"
	quotes    = "\"'`\\\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
	// minPart is the length from which a part of a token is recognized.
	minPart = 6
)

// normal returns a value as far as panels and copying leave it alone: without blanks, invisible
// characters, quotation marks and backslashes, in lower case.
func normal(value string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune(invisible+quotes, r) {
			return -1
		}
		return r
	}, value))
}

// similarity returns the mistake that made the token that value; empty: it is another value.
func similarity(value, token string) Mistake {
	given, wanted := normal(value), normal(token)
	switch {
	case given == "" || wanted == "":
	case given == wanted && strings.ContainsAny(value, quotes) && !strings.ContainsAny(token, quotes):
		return MistakeQuoted
	case given == wanted && !strings.EqualFold(value, token):
		return MistakePadded
	case given == wanted:
		return MistakeLetters
	case len(value) < maxValueBytes && isCut(given, wanted):
		return MistakeCut
	case len(wanted) >= minPart && strings.Contains(given, wanted):
		return MistakeAlong
	}
	return ""
}

// isCut reports whether a value is the token's beginning or end, or both with dots between. (A
// value that may have been capped as evidence is not.)
func isCut(given, wanted string) bool {
	for _, dots := range []string{"…", "..."} {
		head, tail, found := strings.Cut(given, dots)
		if length := len(head) + len(tail); found && length >= minPart/2 && length < len(wanted) &&
			strings.HasPrefix(wanted, head) && strings.HasSuffix(wanted, tail) {
			return true
		}
	}
	return len(given) >= minPart && (strings.HasPrefix(wanted, given) || strings.HasSuffix(wanted, given))
}

// nearestFirst sorts values by their likeness to the token, so that evidence with the first values
// has those that matter.
func nearestFirst(values []string, token string) {
	distance := make(map[string]int, len(values))
	for _, value := range values {
		if distance[value] = 1; similarity(value, token) == "" {
			distance[value] = 2
		}
	}
	distance[token] = 0
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
}
