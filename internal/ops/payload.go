package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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
	}
	masked, err := masked(data)
	if err != nil {
		return fmt.Sprintf("%d bytes, not JSON", len(data))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, masked, "", "  "); err != nil {
		return fmt.Sprintf("%d bytes, not JSON", len(data))
	}
	return out.String()
}

// container is an object or array that the walk is in.
type container struct {
	object bool
	partly bool // everything inside is shown in part
	tokens int  // names and values so far
}

// masked copies one JSON value token by token, which keeps the order of members
// and the text of numbers. Names are compared as encoding/json does, in any case.
func masked(data []byte) ([]byte, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	var out []byte
	stack := []container{{}}
	nextPartly := false
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if stack[0].tokens != 1 || len(stack) != 1 {
				return nil, errors.New("not one value")
			}
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			out = fmt.Append(out, token)
			stack = stack[:len(stack)-1]
			continue
		}
		top := &stack[len(stack)-1]
		out = append(out, separator(*top)...)
		isName := top.object && top.tokens%2 == 0
		top.tokens++
		partly := top.partly || nextPartly
		nextPartly = false
		switch token := token.(type) {
		case json.Delim:
			stack = append(stack, container{object: token == '{', partly: partly})
			out = fmt.Append(out, token)
			continue
		case string:
			if isName {
				nextPartly = strings.EqualFold(token, partlyShown)
				break
			}
			if partly {
				out = appendJSON(out, inPart(token))
				continue
			}
		}
		out = appendJSON(out, token)
	}
}

// separator is what stands before the next token in a container.
func separator(c container) string {
	switch {
	case c.tokens == 0:
		return ""
	case c.object && c.tokens%2 == 1:
		return ":"
	}
	return ","
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

// printable makes one line of text that may have come from a stranger: control
// characters escaped, the length bounded.
func printable(text string) string {
	var out strings.Builder
	runes := 0
	for _, r := range text {
		if runes++; runes > mostPrintable {
			out.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRune(r)
		out.WriteString(escaped[1 : len(escaped)-1])
	}
	return out.String()
}
