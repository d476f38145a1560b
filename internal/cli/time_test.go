package cli_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/cli"
)

// TestParseTimes reads each text as a time, as an age, and as a time ahead.
func TestParseTimes(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string][3]string{
		"2026-12-01":                {"2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		"2026-12-01T02:00:00Z":      {"2026-12-01T02:00:00Z", "2026-12-01T02:00:00Z", "2026-12-01T02:00:00Z"},
		"2026-12-01T02:00:00+01:00": {"2026-12-01T01:00:00Z", "2026-12-01T01:00:00Z", "2026-12-01T01:00:00Z"},
		"8h":                        {"", "2026-11-20T04:00:00Z", "2026-11-20T20:00:00Z"},
		"2d":                        {"", "2026-11-18T12:00:00Z", "2026-11-22T12:00:00Z"},
		"0s":                        {"", "2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"},
		"-8h":                       {"", "", ""},
		"yesterday":                 {"", "", ""},
		"":                          {"", "", ""},
	} {
		var got [3]string
		for i, read := range []func(string) (time.Time, error){
			cli.ParseTime,
			func(text string) (time.Time, error) { return cli.ParseAgo(text, now) },
			func(text string) (time.Time, error) { return cli.ParseAhead(text, now) },
		} {
			at, err := read(text)
			if err == nil {
				got[i] = at.Format(time.RFC3339)
			} else if !strings.HasPrefix(err.Error(), "want a time such as 2026-12-01T02:00:00Z") {
				t.Errorf("%q: %v", text, err)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
