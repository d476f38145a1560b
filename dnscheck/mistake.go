package dnscheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"orgops/dnscheck/report"
	"orgops/internal/untrusted"
)

// maxFound bounds the stored characters of a value, quoted.
const maxFound = 64

func shownFound(text string) string {
	for n := min(len(text), maxFound); ; n-- {
		quoted := untrusted.QuoteFound(text[:n], n)
		switch {
		case len(quoted) > maxFound+len(`""`):
		case n < len(text):
			return quoted + "..."
		default:
			return quoted
		}
	}
}

const (
	// invisible are characters that copied text may have: blanks, no-break space, zero-width
	// ones, byte order mark, NUL.
	invisible = " \t\r\n\v\f\x00\u00a0\u00ad\u2007\u200b\u200c\u200d\u2060\u202f\u3000\ufeff"
	quotes    = "\"'`\\\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
	// minPart is the length from which a part of a token is recognized.
	minPart = 6
	// minWhole is the length from which a value may have the form of a token, and maxTyped the most
	// characters that differ in one that was mistyped.
	minWhole = 16
	maxTyped = 4
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
func similarity(value, token string) report.Mistake {
	given := normal(value)
	wanted := normal(token)
	switch {
	case wanted == "":
	case given == "":
		return report.MistakeEmpty
	case given == wanted && strings.ContainsAny(value, quotes) && !strings.ContainsAny(token, quotes):
		return report.MistakeQuoted
	case given == wanted && !strings.EqualFold(value, token):
		return report.MistakePadded
	case given == wanted:
		return report.MistakeLetters
	case len(value) < maxValueBytes && isCut(given, wanted):
		return report.MistakeCut
	case len(wanted) >= minPart && strings.Contains(given, wanted):
		return report.MistakeAlong
	case len(wanted) >= minWhole && len(value) < maxValueBytes && differing(given, wanted) <= maxTyped:
		return report.MistakeTyped
	case len(wanted) >= minWhole && form(value) == form(token):
		return report.MistakeOther
	}
	return ""
}

// differing returns the length of the part in which two texts differ.
func differing(a, b string) int {
	shorter := min(len(a), len(b))
	longer := max(len(a), len(b))
	begin := 0
	end := 0
	for begin < shorter && a[begin] == b[begin] {
		begin++
	}
	for end < shorter-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return longer - begin - end
}

// form returns the length of a value, and the kinds of its characters.
func form(value string) string {
	kinds := []byte(strings.Map(func(r rune) rune {
		switch {
		case '0' <= r && r <= '9':
			return '0'
		case 'a' <= r && r <= 'z':
			return 'a'
		case 'A' <= r && r <= 'Z':
			return 'A'
		}
		return r
	}, value))
	slices.Sort(kinds)
	return fmt.Sprint(len(value), string(slices.Compact(kinds)))
}

// The classes of values and mistakes, the nearest to the token first.
const (
	near = 1 + iota // a copy of the token, or its record elsewhere
	far             // perhaps neither
	none
)

func likenessOf(m report.Mistake) int {
	switch m {
	case "":
		return none
	case report.MistakeOther, report.MistakeEmpty:
		return far
	}
	return near
}

func likeness(value, token string) int { return likenessOf(similarity(value, token)) }

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
		distance[value] = likeness(value, token)
	}
	distance[token] = 0
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
}
