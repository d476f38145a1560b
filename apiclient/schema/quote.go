package schema

import (
	"bytes"

	"orgops/internal/untrusted"
)

// Bounds of texts of others, in code points: a message, a value, a name.
const (
	maxMessage = 300
	maxValue   = 100
	maxName    = 128
)

// rawValue returns the beginning of JSON on one line.
func rawValue(raw []byte) string { return untrusted.Plain(string(bytes.TrimSpace(raw)), maxValue) }

func textValue(s string) string { return untrusted.Quote(s, maxValue) }
