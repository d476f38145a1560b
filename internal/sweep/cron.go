package sweep

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"orgops/internal/untrusted"
)

// Cron is a schedule of minutes, in UTC, so that no day has an hour twice or not at all. The
// zero value has none: make one with [ParseCron].
type Cron struct {
	text     string
	schedule cron.Schedule
}

var cronFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// longestCron is the most bytes of a cron text.
const longestCron = 200

// ParseCron reads five fields, minute hour day-of-month month day-of-week, as crontab(5)
// has them, or one of @hourly, @daily, @weekly, @monthly and @yearly. A text without
// fixed minutes (@every) or in another zone is refused, and so is one that never comes.
func ParseCron(text string) (Cron, error) {
	text = strings.TrimSpace(text)
	refuse := func(why string) (Cron, error) {
		return Cron{},
			fmt.Errorf(
				"want five fields (minute hour day month weekday, in UTC) such as 0 3 * * *, or @daily and the like, got %s: %s",
				untrusted.Value(text), why)
	}
	switch {
	case text == "":
		return refuse("it is empty")
	case len(text) > longestCron:
		return refuse(fmt.Sprintf("it has more than %d bytes", longestCron))
	case strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
		return refuse("it has characters that are not part of a cron expression")
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return refuse("the times are in UTC: leave the zone out")
	case strings.HasPrefix(text, "@every"):
		return refuse("@every counts from when a worker starts: name the minutes instead, such as 0 */6 * * *")
	}
	schedule, err := cronFields.Parse(text)
	if err != nil {
		return refuse(err.Error())
	}
	c := Cron{text: text, schedule: schedule}
	if c.Next(cronEpoch).IsZero() {
		return refuse("there is no such day in any year")
	}
	return c, nil
}

// cronEpoch is the time from which ticks are read if the present time does not matter. A leap
// year follows, so that each day of a year comes soon.
var cronEpoch = time.Date(2023, 12, 31, 23, 59, 0, 0, time.UTC)

// String returns the text that was parsed.
func (c Cron) String() string { return c.text }

// Next returns the first tick after at; the zero time if none comes within five years.
func (c Cron) Next(at time.Time) time.Time { return c.schedule.Next(at.UTC()) }

// Latest returns the last tick that is not after at. ok is false if there was none for five
// years.
func (c Cron) Latest(at time.Time) (tick time.Time, ok bool) {
	if c.schedule == nil {
		return time.Time{}, false
	}
	at = at.UTC()
	from := at.AddDate(-5, 0, 0).Truncate(time.Minute)
	// Ticks are at whole minutes, and the library only goes forward: the first minute after
	// which there is no tick until at is that of the last one.
	after := sort.Search(int(at.Sub(from)/time.Minute)+1, func(i int) bool {
		next := c.Next(from.Add(time.Duration(i) * time.Minute))
		return next.IsZero() || next.After(at)
	})
	if after == 0 {
		return time.Time{}, false
	}
	return from.Add(time.Duration(after) * time.Minute), true
}

// Shortest returns the shortest time from a tick to the n-th after it. ok is false if there
// are fewer ticks.
func (c Cron) Shortest(n int) (shortest time.Duration, ok bool) {
	const spans = 2000 // more than a day of minutes, more than five years of days
	ticks := make([]time.Time, 0, spans+n)
	for at := c.Next(cronEpoch); !at.IsZero() && len(ticks) < spans+n; at = c.Next(at) {
		if ticks = append(ticks, at); len(ticks) <= n {
			continue
		}
		if span := at.Sub(ticks[len(ticks)-1-n]); !ok || span < shortest {
			shortest = span
			ok = true
		}
	}
	return shortest, ok
}
