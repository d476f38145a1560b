package pace

import (
	"strconv"
	"strings"
	"unicode"
)

// maxReason bounds the reason of a block, in runes: it quotes a message of the API, and is
// shown in logs and on pages.
const maxReason = 300

// quote returns s with unprintable runes escaped as in a Go string, cut after about most runes.
func quote(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// quoted returns the beginning of s within quotation marks, for errors.
func quoted(s string) string { return `"` + quote(s, 40) + `"` }
