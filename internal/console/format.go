package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
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

// timed returns a sentence with the times in it in the form of [stamp], and with places at which
// its names may be broken. The times remain exact, since "since 5 min ago" is no language.
func timed(text string) template.HTML {
	text = stamps.ReplaceAllString(template.HTMLEscapeString(text), `<time datetime="$0" data-exact>$1 $2 UTC</time>`)
	//nolint:gosec // it is escaped first
	return template.HTML(names.ReplaceAllStringFunc(text, breakable))
}

// advised returns a text of this program, such as a remedy, as [timed] does, with the commands in
// it as code that is copied. In a text from outside no command is marked: others have written it.
func advised(text string) template.HTML {
	var out strings.Builder
	for {
		before, command, after := cutCommand(text)
		out.WriteString(string(timed(before)))
		if command == "" {
			//nolint:gosec // each part is escaped
			return template.HTML(out.String())
		}
		out.WriteString(string(commandOf(command)))
		text = after
	}
}

// commandOf returns a command as code, with a button that copies it. A line ends only between its
// arguments.
func commandOf(command string) template.HTML {
	shown := template.HTMLEscapeString(command)
	var code strings.Builder
	for i, argument := range strings.Split(shown, " ") {
		if i > 0 {
			code.WriteString(" ")
		}
		code.WriteString(`<span class="unbroken">` + argument + `</span>`)
	}
	//nolint:gosec // it is escaped first
	return template.HTML(`<span class="command"><code>` + code.String() +
		`</code><button type="button" data-copy aria-label="Copy ` + shown + `" hidden>Copy</button></span>`)
}

var (
	commandStart = regexp.MustCompile(
		"(?:^|[ (`])((?:enqueue (?:domains|clients|templates|evidence|runs|tenant|access) [a-z]+|worker doctor)\\b)")
	// proseAfter are words of a sentence that follow a command.
	proseAfter = []string{"and", "or", "names", "prints", "read", "reads", "say", "says", "those", "which"}
)

// cutCommand cuts a text around its first command: its name, and the arguments up to a punctuation
// mark or to a word of the sentence. Backquotes around it are left out. command is empty if there
// is none.
func cutCommand(text string) (before, command, after string) {
	at := commandStart.FindStringSubmatchIndex(text)
	if at == nil {
		return text, "", ""
	}
	before = text[:at[2]]
	after = text[at[3]:]
	command = text[at[2]:at[3]]
	if quoted, isQuoted := strings.CutSuffix(before, "`"); isQuoted {
		arguments, rest, _ := strings.Cut(after, "`")
		return quoted, command + arguments, rest
	}
	for strings.HasPrefix(after, " ") {
		word, _, _ := strings.Cut(after[1:], " ")
		argument := strings.TrimRight(word, ".,;:)")
		if argument == "" || strings.HasPrefix(word, "(") || slices.Contains(proseAfter, argument) {
			break
		}
		command += " " + argument
		after = after[1+len(argument):]
	}
	return before, command, after
}

// names are names of hosts in a text.
var names = regexp.MustCompile(`[\w-]+(\.[\w-]+)+\.[A-Za-z][\w-]*`)

// breakable returns a name that is broken after its dots, and within a label only if the label is
// longer than a line: the hyphen of _ss-verification is not the end of a line.
func breakable(name string) string {
	labels := strings.SplitAfter(name, ".")
	for i, label := range labels {
		if strings.HasPrefix(label, "_") {
			labels[i] = `<span class="unbroken">` + label + `</span>`
		}
	}
	return strings.Join(labels, "<wbr>")
}

// capital returns a label with its first letter in upper case.
func capital(label string) string {
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}

// sentence returns a clause of package status with a capital letter and a full stop, unless it may
// end with a command, which is copied; "" of none.
func sentence(clause string) string {
	text := capital(clause)
	if text == "" || strings.HasSuffix(text, ".") || strings.Contains(text, ": enqueue ") {
		return text
	}
	return text + "."
}

// grouped returns a number of a template, whatever its type, as texts of package status have it.
func grouped(n any) string { return status.Grouped(reflect.ValueOf(n).Int()) }

// plural returns a number with the word for one or for several.
func plural(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return status.Grouped(n) + " " + several
}

// mostPrintable is how many characters of a message are shown.
const mostPrintable = 500

// printable returns foreign text on one line: control characters escaped, its length bounded.
func printable(text string) string { return untrusted.Plain(text, mostPrintable) }

// pageWithin bounds the time of a page.
const pageWithin = 10 * time.Second

// unread returns why something could not be read, and the remedy. A read that takes too long, and
// damaged data, are no faults of the connection to Redis.
func unread(err error) string {
	text := printable(err.Error())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("this page was not read within %s (%s). Reload it. If it stays so, Redis is slow, or what the page "+
			"shows is very large or damaged: the overview says whether Redis answers, and enqueue runs show and enqueue "+
			"domains show read without that limit.", pageWithin, text)
	case errors.Is(err, ledger.ErrDamaged):
		return "stored data is damaged: " + text + ". Redis answers. The page of the run, and enqueue runs show, say what to do."
	}
	fix := cmp.Or(redisconn.Remedy(err), "check that Redis runs and that this worker can reach it")
	return "reading Redis failed: " + text + ". " + sentence(fix) + " No rows are lost; workers resume once Redis is back."
}
