package cli

import (
	"fmt"
	"time"

	"orgops/internal/untrusted"
)

// ParseTime reads a time that a person writes: one of RFC 3339, or a date, which is its beginning
// in UTC. The result is in UTC.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("want a time such as 2026-12-01T02:00:00Z, or a date such as 2026-12-01, got %s",
		untrusted.Value(text))
}

// ParseAgo reads a time as [ParseTime] does, or the age that it has now, such as 8h or 7d.
func ParseAgo(text string, now time.Time) (time.Time, error) { return parseTime(text, now, -1) }

// ParseAhead reads a time as [ParseTime] does, or how far it is ahead of now, such as 8h or 2d.
func ParseAhead(text string, now time.Time) (time.Time, error) { return parseTime(text, now, 1) }

// parseTime reads a time, or a duration of which sign times it is away from now.
func parseTime(text string, now time.Time, sign time.Duration) (time.Time, error) {
	if at, err := ParseTime(text); err == nil {
		return at, nil
	}
	if away, err := ParseDuration(text); err == nil && away >= 0 {
		return now.Add(sign * away).UTC(), nil
	}
	want := "an age such as 24h or 7d"
	if sign > 0 {
		want = "a duration from now on such as 8h or 2d"
	}
	return time.Time{}, fmt.Errorf("want a time such as 2026-12-01T02:00:00Z, a date such as 2026-12-01, or %s, got %s",
		want, untrusted.Value(text))
}
