package meters_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/meters"
	"orgops/internal/redistest"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func sum(all []meters.Period, s meters.Series) (n int64) {
	for _, p := range all {
		n += p.Counts[s]
	}
	return n
}

func read(t *testing.T, rdb redis.Cmdable) (hour, day []meters.Period) {
	t.Helper()
	hour, day, err := meters.Read(t.Context(), rdb, "acme")
	if err != nil {
		t.Fatal(err)
	}
	return hour, day
}

func flush(t *testing.T, m *meters.Meters, rdb redis.Cmdable) {
	t.Helper()
	if err := m.Flush(t.Context(), rdb); err != nil {
		t.Fatal(err)
	}
}

// TestTwoWorkers checks that the events of all workers are added, each once, and apart for each
// tenant.
func TestTwoWorkers(t *testing.T) {
	rdb := redistest.New(t)
	a, b := meters.New(), meters.New()
	a.Add("acme", meters.Allowed, 720)
	for _, status := range []int{0, 200, 429} {
		a.Request("acme", status)
	}
	a.Add("acme", meters.Good, 40)
	a.Add("acme", meters.Failed, 2)
	a.Add("other", meters.Absent, 1)
	flush(t, a, rdb)
	flush(t, a, rdb) // adds nothing
	b.Add("acme", meters.Allowed, 720)
	b.Add("acme", meters.Good, 2)
	b.Request("acme", 429)
	flush(t, b, rdb)
	hour, day := read(t, rdb)
	if len(hour) != 60 || len(day) != 96 {
		t.Fatalf("%d minutes, %d quarters", len(hour), len(day))
	}
	var minutes, quarters int64
	for _, p := range hour {
		minutes = max(minutes, p.Counts[meters.Allowed])
	}
	for _, p := range day {
		quarters = max(quarters, p.Counts[meters.Allowed])
	}
	if minutes != 720 || quarters != 15*720 {
		t.Errorf("allowed: %d a minute, %d a quarter", minutes, quarters)
	}
	for _, all := range [][]meters.Period{hour, day} {
		got := fmt.Sprint(sum(all, meters.Good), sum(all, meters.Failed), sum(all, meters.Refused),
			sum(all, meters.Absent), sum(all, meters.Answered))
		if got != "42 2 2 0 2" {
			t.Errorf("good, failed, refused, absent, answered: %s", got)
		}
		for i, p := range all[1:] {
			if !p.At.After(all[i].At) {
				t.Errorf("period %d begins at %v, the one before at %v", i, p.At, all[i].At)
			}
		}
	}
}

// TestFailedFlush checks that events are kept while Redis fails, and added once.
func TestFailedFlush(t *testing.T) {
	rdb, m := redistest.New(t), meters.New()
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = away.Close() })
	m.Add("acme", meters.Present, 3)
	if err := m.Flush(t.Context(), away); err == nil {
		t.Error("no error without Redis")
	}
	flush(t, m, rdb)
	_, day := read(t, rdb)
	if n := sum(day, meters.Present); n != 3 {
		t.Errorf("%d proven, want 3", n)
	}
}

// TestRing fills both rings with large counts, and checks their size, that they expire, and that
// the counts of an older period with the same field are not shown and not added to.
func TestRing(t *testing.T) {
	rdb := redistest.New(t)
	now := must[time.Time](t)(rdb.Time(t.Context()).Result())
	key := func(ring string) string { return "orgops:v3:{tenant:acme}:meters:" + ring }
	for ring, of := range map[string]struct{ seconds, n int64 }{"minutes": {60, 60}, "quarters": {900, 96}} {
		last := now.Unix() / of.seconds
		for number := last - of.n + 1; number <= last; number++ {
			old := number
			if number == last {
				old -= of.n // of the former turn
			}
			err := rdb.HSet(t.Context(), key(ring), fmt.Sprint(number%of.n),
				fmt.Sprintf("%d,1200,99999,99999,18000,18000,9999,9999,9999", old)).Err()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	m := meters.New()
	m.Add("acme", meters.Good, 7)
	flush(t, m, rdb)
	hour, day := read(t, rdb)
	for name, all := range map[string][]meters.Period{"hour": hour, "day": day} {
		n := int64(len(all))
		if got, most := sum(all, meters.Good), (n-1)*99999+7; got > most || got < (n-3)*99999+7 {
			t.Errorf("%s: %d settled, want %d", name, got, most)
		}
	}
	var bytes int64
	for _, ring := range []string{"minutes", "quarters"} {
		size, err := rdb.MemoryUsage(t.Context(), key(ring), 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Skipf("no MEMORY USAGE: %v", err)
		}
		bytes += size
		if left := must[time.Duration](t)(rdb.TTL(t.Context(), key(ring)).Result()); left <= 0 {
			t.Errorf("%s never expires: %v", ring, left)
		}
	}
	t.Logf("%d bytes", bytes)
	if bytes > 10_000 {
		t.Errorf("%d bytes for a tenant, want 10,000 at most", bytes)
	}
}
