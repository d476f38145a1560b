package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/stamp"
	"orgops/internal/untrusted"
)

// Fact is a property of a detail view: commands print it, and pages show it. The text is safe to
// print.
type Fact struct {
	Name, Text string
	// Run is named before the text, and is a link on pages; empty: none is.
	Run ledger.RunID
	// Tone is how pages show the text as a badge: good, bad or wait; empty: they do not.
	Tone string
	// Copied says that pages offer a button that copies the text.
	Copied bool
	// Code says that the text is a command, which pages show as code.
	Code bool
}

// Value returns the text with the run before it.
func (f Fact) Value() string { return strings.TrimSpace(string(f.Run) + " " + f.Text) }

// String returns "NAME: VALUE".
func (f Fact) String() string { return f.Name + ": " + f.Value() }

// facts returns the facts that have a value.
func facts(all ...Fact) []Fact {
	return slices.DeleteFunc(all, func(f Fact) bool { return f.Value() == "" })
}

// longestShown and longestReason are the most characters that are shown of a row's identifier,
// and of a reason, which may quote the API.
const (
	longestShown  = 80
	longestReason = 500
)

// Shown caps text of a stranger.
func Shown(s string) string { return untrusted.Plain(s, longestShown) }

// Whole is [Shown] of a text that is copied, such as the value of a TXT record, and of no
// use if it is cut.
func Whole(s string) string { return untrusted.Plain(s, len(s)) }

// ShownReason caps a reason, which may quote a stranger.
func ShownReason(text string) string { return untrusted.Plain(text, longestReason) }

// TickAt returns when a sweep was due.
func TickAt(tick int64) time.Time { return time.Unix(tick, 0).UTC() }

// Span formats a duration, from a day on in days, rounded down.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d >= day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d >= day:
		return fmt.Sprintf("%.1f days", float64(d/(day/10))/10)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return d.Truncate(time.Second).String()
}

// nextAt returns " (next CHECK at TIME)"; "" if the time is not known.
func nextAt(what string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (next %s %s)", what, stamp.UTC(at))
}

// CountOf returns a number of things: "1 row", "2,000 rows".
func CountOf(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Grouped(n) + " " + what + "s"
}

// Grouped returns a number of a sentence, with its digits in threes: 1,234,567.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Joined joins the parts that are not empty by semicolons.
func Joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}
