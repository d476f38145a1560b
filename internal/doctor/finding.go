// Package doctor tests a worker's settings against the real world, once: Redis,
// the tenants' credentials and APIs, resolvers, and the machine. What is asked is in
// functions that ask; what it means is in functions of what was answered.
package doctor

import (
	"fmt"
	"io"

	"orgops/apiclient"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, and is hardly meant
	Wrong   Level = "wrong"   // something does not work, or will be lost
)

// Finding is one thing that was looked at.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"` // "redis", "tenant acme", "machine"
	Text    string `json:"text"`    // what was found; no secret is in it
	Mend    string `json:"mend,omitempty"`
}

func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Text: fmt.Sprintf(format, args...)}
}

// warn and wrong begin with what to do about it.
func warn(mend, format string, args ...any) Finding {
	return Finding{Level: Warning, Text: fmt.Sprintf(format, args...), Mend: mend}
}

func wrong(mend, format string, args ...any) Finding {
	return Finding{Level: Wrong, Text: fmt.Sprintf(format, args...), Mend: mend}
}

// about gives all findings their subject.
func about(subject string, all []Finding) []Finding {
	for i := range all {
		all[i].Subject = subject
	}
	return all
}

// maxLine is how much of a finding is shown: what others wrote may be in it.
const maxLine = 600

// String is one line: "wrong    redis: what it is -> what to do".
func (f Finding) String() string {
	text := f.Text
	if f.Mend != "" {
		text += " -> " + f.Mend
	}
	return fmt.Sprintf("%-8s %s: %s", f.Level, apiclient.Plain(f.Subject, maxLine), apiclient.Plain(text, maxLine))
}

// Write writes a line for each.
func Write(out io.Writer, all []Finding) {
	for _, f := range all {
		fmt.Fprintln(out, f)
	}
}
