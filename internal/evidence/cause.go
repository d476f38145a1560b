package evidence

import (
	"cmp"
	"regexp"
	"strings"

	"orgops/dnscheck/report"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// Cause is what rows that failed in the same way have in common. Lists count rows by it, and it
// selects the rows of a retry.
type Cause struct {
	Outcome ledger.Outcome
	// Mistake is the customer's mistake with the record, by the last check; empty: none was found.
	Mistake report.Mistake
	// Reason is that of rows without a mistake, with … for the values that differ.
	Reason string
}

// CauseOf returns the cause of a result.
func CauseOf(r ledger.Result) Cause {
	c := Cause{Outcome: r.Outcome}
	if len(r.Evidence) > 0 {
		if e, err := Read(r.Evidence); err == nil { // else it is of a newer version
			c.Mistake = e.Mistake()
		}
	}
	if c.Mistake == "" {
		c.Reason = Common(untrusted.Plain(r.Detail, maxReason))
	}
	return c
}

// Text returns the name of the mistake, or the reason; "": the result has neither, as that of a
// cancelled row.
func (c Cause) Text() string { return cmp.Or(string(c.Mistake), c.Reason) }

// Is reports whether a text is that of the cause, or the reason as a row has it.
func (c Cause) Is(text string) bool {
	if c.Mistake != "" {
		return text == string(c.Mistake)
	}
	return c.Reason == Common(untrusted.Plain(text, maxReason))
}

var (
	quotedPart = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)
	andMore    = regexp.MustCompile(`: "…"…?(?: \(and \d+ more\))?`)
	httpStatus = regexp.MustCompile(`^[45]\d\d$`)
)

// Common returns a reason without the parts that differ from row to row: quoted text, names of
// hosts, addresses and numbers.
func Common(reason string) string {
	words := strings.Split(andMore.ReplaceAllString(quotedPart.ReplaceAllString(reason, `"…"`), ""), " ")
	for i, word := range words {
		core := strings.TrimRight(word, ".,:;)")
		if strings.ContainsAny(core, "./0123456789") && !httpStatus.MatchString(core) {
			words[i] = "…" + word[len(core):]
		}
	}
	return strings.Join(words, " ")
}
