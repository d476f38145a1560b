package tasks_test

import (
	"testing"
	"time"

	"orgops/tasks"
)

// TestAwaited checks from when until when a row waits: for the give-up of its run rather than its
// tenant's, and anew from its first begin if its time was up before it began.
func TestAwaited(t *testing.T) {
	const day = 24 * time.Hour
	submitted := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	never := time.Time{}
	for name, c := range map[string]struct {
		first            time.Time
		ofRun, ofTenant  time.Duration
		starts, isOpenTo time.Duration // after the submission
	}{
		"by its tenant":              {never, 0, 3 * day, 0, 3 * day},
		"by its run":                 {never, day, 3 * day, 0, day},
		"by its run, longer":         {never, 5 * day, 3 * day, 0, 5 * day},
		"begun in time":              {submitted.Add(2 * day), 0, 3 * day, 0, 3 * day},
		"begun when its time was up": {submitted.Add(3 * day), 0, 3 * day, 3 * day, 6 * day},
		"begun late, by its run":     {submitted.Add(2 * day), day, 3 * day, 2 * day, 3 * day},
	} {
		start, end := tasks.Awaited(submitted, c.first, c.ofRun, c.ofTenant)
		if start.Sub(submitted) != c.starts || end.Sub(submitted) != c.isOpenTo {
			t.Errorf("%s: from %s to %s, want %s to %s", name, start.Sub(submitted), end.Sub(submitted), c.starts, c.isOpenTo)
		}
	}
}
