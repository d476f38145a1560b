// Package untrusted shows text that comes from outside, such as values of files and messages of
// servers, in errors, logs and pages: cut, and with escapes for characters that could hide or
// imitate others. It also reports whether a host that somebody names is this machine.
package untrusted

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of texts from outside in messages, in code points.
const (
	// MaxValue is for a value that is refused: enough to recognize it, and a message with it remains
	// readable in a line of a log.
	MaxValue = 100
	// MaxName is for a name or an id, which has to be whole: the platform's have at most 128.
	MaxName = 128
	// MaxMessage is for the message of a server, which is a sentence or two.
	MaxMessage = 300
)

// Value returns a value that is refused, for the message that refuses it: the first [MaxValue]
// code points quoted as in Go, followed by an ellipsis if there are more.
func Value[T ~string](value T) string { return Quote(string(value), MaxValue) }

// JSON is [Value] of JSON text, which is not quoted.
func JSON[T ~string | ~[]byte](text T) string {
	return Plain(strings.TrimSpace(string(text)), MaxValue)
}

// Plain returns the first most code points of a text on one line, with control and invisible
// characters as escapes, and an ellipsis if there are more.
func Plain(s string, most int) string {
	var b strings.Builder
	for n := 0; s != ""; n++ {
		if n == most {
			b.WriteString("…")
			break
		}
		r, width := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[width:]
	}
	return b.String()
}

// Clip returns at most n bytes of a text, whole characters.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}

// Quote returns the first most code points of a text quoted as in Go, followed by an ellipsis
// if there are more.
func Quote(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return strconv.Quote(s[:i]) + "…"
		}
		n++
	}
	return strconv.Quote(s)
}

// QuoteASCII is Quote as printable ASCII, for values in which letters that look alike must
// differ; most is in bytes. No character is cut in two, since a part of one would be shown as bytes
// that are not UTF-8.
func QuoteASCII(s string, most int) string {
	if len(s) <= most {
		return strconv.QuoteToASCII(s)
	}
	end := 0
	for end < most {
		_, width := utf8.DecodeRuneInString(s[end:])
		if end+width > most {
			break
		}
		end += width
	}
	return strconv.QuoteToASCII(s[:end]) + "…"
}

// active are parts of text that terminals, mail programs, HTML or Markdown may take for links,
// addresses or markup.
var active = regexp.MustCompile("(?i)//|www\\.|\\]\\(|[<>@`]")

// QuoteFound is QuoteASCII for what was found in a stranger's zone: it also escapes a character of
// each link, address or mark of markup.
func QuoteFound(s string, most int) string {
	return active.ReplaceAllStringFunc(QuoteASCII(s, most), func(part string) string {
		last := len(part) - 1
		return fmt.Sprintf(`%s\x%02x`, part[:last], part[last])
	})
}

// Cut returns a text that has most code points at most, the last of them an ellipsis if it was
// longer, for storing it.
func Cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// IsLoopback reports whether a host can only be this machine. Of names only localhost counts,
// since others may be resolved to another address later.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && ip.Unmap().IsLoopback())
}
