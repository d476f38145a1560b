package cli

import (
	"fmt"
	"strings"
	"time"

	"orgops/internal/sweep"
	"orgops/internal/watch"
)

// ScheduleText says when the sweeps of the schedule are, the zero one being none.
func ScheduleText(c watch.Cron, now time.Time) string {
	if c.String() == "" {
		return "none: sweeps are started by hand"
	}
	return fmt.Sprintf("%s, next at %s", c, stamp(c.Next(now)))
}

// SweepText says what a sweep has come to.
func SweepText(j sweep.Summary) string {
	return fmt.Sprintf("%s (run %s): %d organizations, %d domains: %s", stamp(TickAt(j.Tick)), j.Run, j.Organizations, j.Present+j.Absent+j.Unknown, j)
}

// RulesText says what is done to domains whose token is gone, and when.
func RulesText(r sweep.Rules) string {
	text := fmt.Sprintf("%s, once %d sweeps have found the record gone over %s", r.Action, r.AbsentChecks, Span(r.Grace))
	if len(r.Protect) > 0 {
		text += "; never: " + strings.Join(r.Protect, ", ")
	}
	return text
}

// Span is a time that is counted in days where it is long, rounded down.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d >= day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d >= day:
		return fmt.Sprintf("%.1f days", float64(d/(day/10))/10)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return d.Truncate(time.Second).String()
}
