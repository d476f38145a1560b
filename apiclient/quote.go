package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of texts of others, in code points: a message, a value, a name.
const (
	maxMessage = 300
	maxValue   = 100
	maxName    = 128
)

// Plain returns the first most code points of a foreign text on one line, with control and
// invisible characters as escapes.
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

// quoted returns the first most code points of s between quotes, followed by an ellipsis if
// there are more.
func quoted(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return strconv.Quote(s[:i]) + "…"
		}
		n++
	}
	return strconv.Quote(s)
}

// jsonText returns s as it is between the quotes of a JSON string.
func jsonText(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

// rawValue returns the beginning of JSON on one line.
func rawValue(raw []byte) string { return Plain(string(bytes.TrimSpace(raw)), maxValue) }

func textValue(s string) string { return quoted(s, maxValue) }
