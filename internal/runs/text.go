package runs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What strangers wrote ends up in terminals, pages and spreadsheets; it is made
// harmless once, on its way in.
const (
	maxDetail = 500 // runes: room for a sentence and a quoted TXT value
	maxLabel  = 200 // runes: one line of a list
)

// quote returns s with whatever does not print escaped as in a Go string, cut to
// at most most runes. To quote twice is to quote once.
func quote(s string, most int) string {
	var b strings.Builder
	runes := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case !unicode.IsPrint(r):
			piece = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		n := utf8.RuneCountInString(piece)
		rest := 0 // one rune for the ellipsis, unless this is the last piece
		if i+size < len(s) {
			rest = 1
		}
		if runes+n+rest > most {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		runes += n
		i += size
	}
	return b.String()
}
