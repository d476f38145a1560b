// Package stamp shows times.
package stamp

import "time"

// UTC returns a time in UTC to the second, in the form of RFC 3339: 2026-12-01T02:00:00Z. It is
// empty for the zero time, which stands for an unknown one. The operators' pages find times in
// sentences by this form.
func UTC(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
