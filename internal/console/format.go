package console

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"orgops/internal/untrusted"
)

// stamp returns a time as pages show it. The script shows how long ago it was instead.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	//nolint:gosec // only digits
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s UTC</time>`, t.Format(time.RFC3339), t.Format(time.DateTime)))
}

// stamps are times in a text of package status.
var stamps = regexp.MustCompile(`\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z\b`)

// timed returns a sentence with the times in it in the form of [stamp]. They remain exact, since
// "since 5 min ago" is no language.
func timed(text string) template.HTML {
	//nolint:gosec // it is escaped first
	return template.HTML(stamps.ReplaceAllString(template.HTMLEscapeString(text),
		`<time datetime="$0" data-exact>$1 $2 UTC</time>`))
}

// capital returns a label with its first letter in upper case.
func capital(label string) string {
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}

// grouped returns a number with its digits in threes: 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// plural returns a number with the word for one or for several.
func plural(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + several
}

// mostPrintable is how many characters of a message are shown.
const mostPrintable = 500

// printable returns foreign text on one line: control characters escaped, its length bounded.
func printable(text string) string { return untrusted.Plain(text, mostPrintable) }

// unread describes an error of Redis, with its remedy.
func unread(err error) string {
	return "reading Redis failed: " + printable(err.Error()) + "; try again, and check /readyz"
}
