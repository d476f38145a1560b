package apiclient

import (
	"bytes"
	"encoding/json"

	"orgops/internal/untrusted"
)

// Bounds of texts of others, in code points: a message, a value, a name.
const (
	maxMessage = 300
	maxValue   = 100
	maxName    = 128
)

// jsonText returns s as it is between the quotes of a JSON string.
func jsonText(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

// rawValue returns the beginning of JSON on one line.
func rawValue(raw []byte) string { return untrusted.Plain(string(bytes.TrimSpace(raw)), maxValue) }

func textValue(s string) string { return untrusted.Quote(s, maxValue) }
