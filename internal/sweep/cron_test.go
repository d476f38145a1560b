package sweep_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

func mustCron(t testing.TB, text string) sweep.Cron {
	t.Helper()
	c, err := sweep.ParseCron(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCronTextsThatAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"":                           "it is empty",
		"  ":                         "it is empty",
		"0 3 * *":                    "expected exactly 5 fields",
		"0 0 3 * * *":                "expected exactly 5 fields",
		"60 3 * * *":                 "above maximum (59)",
		"*/0 * * * *":                "positive number",
		"soon":                       "expected exactly 5 fields",
		"@every 1h":                  "@every counts from when a worker starts",
		"@reboot":                    "unrecognized descriptor",
		"TZ=Europe/Berlin 0 3 * * *": "the times are in UTC",
		"CRON_TZ=UTC":                "the times are in UTC",
		"0 0 31 2 *":                 "there is no such day in any year",
		"0 0 30 2 *":                 "there is no such day in any year",
		"0 0 31 4,6,9,11 *":          "there is no such day in any year",
		"0 3 * * *\x1b[2J":           "characters that are not part of a cron expression",
		"0 3 * *\n*":                 "characters that are not part of a cron expression",
		strings.Repeat("0,", 120):    "more than 200 bytes",
	} {
		_, err := sweep.ParseCron(text)
		if err == nil || !strings.Contains(err.Error(), why) || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%.40q: %v, want %q", text, err, why)
		}
	}
}

// TestCronLatest compares the last tick with the sequence of ticks.
func TestCronLatest(t *testing.T) {
	start := time.Date(2026, 2, 27, 22, 0, 0, 0, time.UTC)
	for _, text := range []string{"* * * * *", "0 3 * * *", "@daily", "@hourly", "*/7 1-3,22 * * 1-5", "30 23 28,29 2 *",
		"0 0 1 * 0", "59 23 31 12 *"} {
		c := mustCron(t, text)
		latest, ok := c.Latest(start)
		if !ok || latest.After(start) || !c.Next(latest.Add(-time.Second)).Equal(latest) || !c.Next(latest).After(start) {
			t.Errorf("%s: the last before %v is %v, %v", text, start, latest, ok)
		}
		next := c.Next(start)
		for at := start; at.Before(start.Add(50 * time.Hour)); at = at.Add(
			61 * time.Second * time.Duration(redistest.Stride(7))) {
			for !next.After(at) {
				latest, next = next, c.Next(next)
			}
			if got, ok := c.Latest(at); !ok || !got.Equal(latest) {
				t.Fatalf("%s: at %v the last is %v, %v, want %v", text, at, got, ok, latest)
			}
		}
	}
}

// TestCronIsInUTC checks that a cron expression is in UTC: the days on which daylight saving
// time starts and ends do not affect it.
func TestCronIsInUTC(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	c := mustCron(t, "30 1 * * *")
	for _, day := range []time.Time{time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)} {
		want := day.Add(90 * time.Minute)
		if got := c.Next(day.In(zone)); !got.Equal(want) {
			t.Errorf("next of %v: %v, want %v", day, got, want)
		}
		if got, ok := c.Latest(day.Add(23 * time.Hour).In(zone)); !ok || !got.Equal(want) {
			t.Errorf("last of %v: %v, %v, want %v", day, got, ok, want)
		}
	}
}

func TestCronWithoutALastTick(t *testing.T) {
	c := mustCron(t, "0 0 29 2 *")
	at := time.Date(2104, 2, 28, 0, 0, 0, 0, time.UTC) // 2100 was no leap year
	if got, ok := c.Latest(at); ok {
		t.Errorf("the last of five years is %v, and there was none", got)
	}
}

func TestCronShortest(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want time.Duration
	}{
		{"@daily", 2, 48 * time.Hour},
		{"*/90 * * * *", 1, time.Hour}, // the field begins anew each hour
		{"0 3 * * 1-5", 1, 24 * time.Hour},
		{"0 3 * * 1-5", 5, 7 * 24 * time.Hour},
		{"0 0 1 * *", 1, 28 * 24 * time.Hour},
		{"* * * * *", 999, 999 * time.Minute},
	} {
		if got, ok := mustCron(t, tc.text).Shortest(tc.n); !ok || got != tc.want {
			t.Errorf("%s, %d: %v, %v, want %v", tc.text, tc.n, got, ok, tc.want)
		}
	}
	if got, ok := mustCron(t, "0 0 29 2 *").Shortest(30); ok {
		t.Errorf("29th of February, 30 times: %v", got)
	}
}

func FuzzParseCron(f *testing.F) {
	for _, text := range []string{"0 3 * * *", "@daily", "*/5 1-3 1,15 jan-mar MON", "TZ=",
		"CRON_TZ=UTC 0 3 * * *", "0 0 31 2 *"} {
		f.Add(text)
	}
	at := time.Date(2026, 11, 22, 0, 40, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := sweep.ParseCron(text)
		if err != nil {
			return
		}
		if next := c.Next(at); !next.IsZero() && (!next.After(at) || next.Second() != 0) {
			t.Errorf("%q: next of %v is %v", text, at, next)
		}
		if latest, ok := c.Latest(at); ok && (latest.After(at) || !c.Next(latest.Add(-time.Second)).Equal(latest)) {
			t.Errorf("%q: last of %v is %v", text, at, latest)
		}
	})
}
