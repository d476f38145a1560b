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
	return exact(t, "")
}

// exact returns an element for a time, with attributes.
func exact(t time.Time, attributes string) template.HTML {
	t = t.UTC()
	//nolint:gosec // only digits
	return template.HTML(fmt.Sprintf(`<time datetime="%s"%s>%s UTC</time>`, t.Format(time.RFC3339), attributes,
		t.Format(time.DateTime)))
}

// stamps are times in a text of package status.
var stamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\b`)

// timed returns a sentence with the times in it in the form of [stamp]. They remain exact, since
// "since 5 min ago" is no language.
func timed(text string) template.HTML {
	//nolint:gosec // it is escaped first
	return template.HTML(stamps.ReplaceAllStringFunc(template.HTMLEscapeString(text), func(found string) string {
		at, err := time.Parse(time.RFC3339, found)
		if err != nil {
			return found
		}
		return string(exact(at, " data-exact"))
	}))
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
