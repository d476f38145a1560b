package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// mostShown is the longest payload that is shown: tasks of orgops are far shorter, and a page
// shows many.
const mostShown = 256 << 10

// formatted returns a task's payload, or its result, for people: JSON indented, and only the
// length of other data.
func formatted(_ string, data []byte) string {
	var text bytes.Buffer
	switch {
	case len(data) == 0:
		return ""
	case len(data) > mostShown:
		return fmt.Sprintf("%d bytes, too long to show", len(data))
	case !utf8.Valid(data) || json.Indent(&text, data, "", "  ") != nil:
		return fmt.Sprintf("%d bytes, not JSON", len(data))
	}
	return text.String()
}
