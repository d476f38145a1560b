package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// mostShown is the longest payload that is shown: tasks of orgops are far shorter, and
	// a page shows many.
	mostShown = 256 << 10
	// partlyShown names the members that are shown only in part. Anyone who knows where to
	// publish a token can prove a domain with it, and screenshots spread.
	partlyShown = "verification_txt"
	// shownOfToken is how much of a token is shown: enough to compare two.
	shownOfToken = 4
)

// formatted returns a task's payload, or its result, for people: JSON indented, tokens in
// part. Other data is not shown, since tokens in it cannot be found with certainty.
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
	d.UseNumber() // whose text stays
	var value any
	err := d.Decode(&value)
	text, marshalErr := json.MarshalIndent(masked(value, false), "", "  ")
	if err != nil || marshalErr != nil { // it is JSON
		return fmt.Sprintf("%d bytes, not readable", len(data))
	}
	return string(text)
}

// masked returns the value with tokens in part. Names are compared as encoding/json does, in
// any case. If partly is set all strings inside are shown in part.
func masked(value any, partly bool) any {
	switch v := value.(type) {
	case string:
		if partly {
			return inPart(v)
		}
	case []any:
		for i := range v {
			v[i] = masked(v[i], partly)
		}
	case map[string]any:
		for name := range v {
			v[name] = masked(v[name], partly || strings.EqualFold(name, partlyShown))
		}
	}
	return value
}

func inPart(token string) string {
	runes := []rune(token)
	if len(runes) < 4*shownOfToken { // too little would be left out
		return fmt.Sprintf("… (%d characters)", len(runes))
	}
	return fmt.Sprintf("%s… (%d characters)", string(runes[:shownOfToken]), len(runes))
}
