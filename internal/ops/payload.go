package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"orgops/apiclient"
)

const (
	// mostShown is the longest payload that is shown: tasks of ours stay far
	// below it, and a page shows many.
	mostShown = 256 << 10
	// partlyShown names the members that are shown only in part. A token proves
	// a domain to whoever knows where to put it, and a screenshot goes far.
	partlyShown = "verification_txt"
	// shownOfToken is how much of a token stays: enough to compare two.
	shownOfToken = 4
)

// formatted writes a task's payload, or its result, for people: JSON indented,
// tokens in part. What is not JSON is not shown, since nothing can be left out of
// it with certainty.
func formatted(_ string, data []byte) string {
	switch {
	case len(data) == 0:
		return ""
	case len(data) > mostShown:
		return fmt.Sprintf("%d bytes, too long to show", len(data))
	case !utf8.Valid(data) || !json.Valid(data):
		return fmt.Sprintf("%d bytes, not JSON", len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out bytes.Buffer
	_ = json.Indent(&out, appendMasked(nil, d, false), "", "  ") // it is JSON
	return out.String()
}

// appendMasked copies the next JSON value of d, token by token, which keeps the order of
// members and the text of numbers. Names are compared as encoding/json does, in any case.
// If partly is set all strings inside are shown in part.
func appendMasked(out []byte, d *json.Decoder, partly bool) []byte {
	token := nextToken(d)
	opening, nested := token.(json.Delim)
	if !nested {
		if text, ok := token.(string); ok && partly {
			token = inPart(text)
		}
		return appendJSON(out, token)
	}
	out = fmt.Append(out, opening)
	for first := true; d.More(); first = false {
		if !first {
			out = append(out, ',')
		}
		inside := partly
		if opening == '{' {
			name, _ := nextToken(d).(string)
			out = append(appendJSON(out, name), ':')
			inside = partly || strings.EqualFold(name, partlyShown)
		}
		out = appendMasked(out, d, inside)
	}
	return fmt.Append(out, nextToken(d))
}

// nextToken returns the next token of what was found to be JSON.
func nextToken(d *json.Decoder) json.Token {
	token, err := d.Token()
	if err != nil {
		panic(fmt.Sprintf("ops: token of valid JSON: %v", err))
	}
	return token
}

func appendJSON(out []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // names, strings, numbers, booleans and null have a JSON form
		panic(fmt.Sprintf("ops: JSON of %T: %v", value, err))
	}
	return append(out, text...)
}

func inPart(token string) string {
	runes := []rune(token)
	if len(runes) < 4*shownOfToken { // too little would be left out
		return fmt.Sprintf("… (%d characters)", len(runes))
	}
	return fmt.Sprintf("%s… (%d characters)", string(runes[:shownOfToken]), len(runes))
}

// mostPrintable is how many runes of a message are shown.
const mostPrintable = 500

// printable returns the beginning of a text of others on one line, with control characters
// escaped.
func printable(text string) string { return apiclient.Plain(text, mostPrintable) }
