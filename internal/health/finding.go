package health

import (
	"fmt"

	"orgops/internal/redisconn"
	"orgops/internal/untrusted"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, but is probably not intended
	Wrong   Level = "wrong"   // something does not work, or will be lost
)

// Finding is the result of a test.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"` // "redis", "tenant acme", "machine"
	Text    string `json:"text"`    // the result, without secrets; may be empty if it is OK
	Fix     string `json:"fix,omitempty"`
}

func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Text: fmt.Sprintf(format, args...)}
}

// warn and wrong begin with the way to fix it.
func warn(fix, format string, args ...any) Finding {
	return Finding{Level: Warning, Text: fmt.Sprintf(format, args...), Fix: fix}
}

func wrong(fix, format string, args ...any) Finding {
	return Finding{Level: Wrong, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// failed is wrong if there is an error, and OK if there is none.
func failed(err error) Finding {
	if err == nil {
		return Finding{Level: OK}
	}
	return wrong(redisconn.Remedy(err), "%v", err)
}

func about(subject string, all []Finding) []Finding {
	for i := range all {
		all[i].Subject = subject
	}
	return all
}

// maxLine bounds the text of a finding, which may contain foreign text.
const maxLine = 600

// String returns one line: "wrong    redis: the problem -> the fix".
func (f Finding) String() string {
	text := f.Text
	if f.Fix != "" {
		text += " -> " + f.Fix
	}
	return fmt.Sprintf("%-8s %s: %s", f.Level, untrusted.Plain(f.Subject, maxLine), untrusted.Plain(text, maxLine))
}
