package meters_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/meters"
	"orgops/internal/redistest"
)

func readRuns(t *testing.T, rdb redis.Cmdable) []meters.RunRequests {
	t.Helper()
	now := must[time.Time](t)(rdb.Time(t.Context()).Result())
	return must[[]meters.RunRequests](t)(meters.ReadRuns(t.Context(), rdb, "acme", now))
}

// TestRuns: the requests of a run are those of all workers in the last ten minutes, apart for each
// tenant, and are not lost while Redis fails.
func TestRuns(t *testing.T) {
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		redistest.Mini(t) // minutes pass
		rdb := redistest.New(t)
		a, b := meters.New(), meters.New()
		count := func(m *meters.Meters, tenant, run string, n int) {
			for range n {
				m.Requested(tenant, run)
			}
		}
		count(a, "acme", "nightly", 3)
		count(a, "other", "nightly", 7)
		away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		t.Cleanup(func() { _ = away.Close() })
		if err := a.Flush(t.Context(), away); err == nil {
			t.Error("no error without Redis")
		}
		count(b, "acme", "4711", 1)
		flush(t, a, rdb)
		flush(t, a, rdb) // adds nothing
		flush(t, b, rdb)
		want := []meters.RunRequests{{Run: "nightly", Requests: 3}, {Run: "4711", Requests: 1}}
		if diff := cmp.Diff(want, readRuns(t, rdb)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		// Five minutes later, and ten minutes later.
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		count(b, "acme", "nightly", 2)
		flush(t, b, rdb)
		want[0].Requests = 5
		if diff := cmp.Diff(want, readRuns(t, rdb)); diff != "" {
			t.Errorf("five minutes later (-want +got):\n%s", diff)
		}
		time.Sleep(5 * time.Minute)
		count(a, "acme", "later", 1) // in the field of the first minute
		flush(t, a, rdb)
		want = []meters.RunRequests{{Run: "nightly", Requests: 2}, {Run: "later", Requests: 1}}
		if diff := cmp.Diff(want, readRuns(t, rdb)); diff != "" {
			t.Errorf("ten minutes later (-want +got):\n%s", diff)
		}
	})
}

// TestManyRuns: twenty runs of a minute are counted by themselves, those with the most requests,
// and the others together.
func TestManyRuns(t *testing.T) {
	rdb, m := redistest.New(t), meters.New()
	for i := range 100 {
		for range i + 1 {
			m.Requested("acme", fmt.Sprintf("run-%02d", i))
		}
	}
	flush(t, m, rdb)
	all := readRuns(t, rdb)
	if len(all) != 21 || all[0] != (meters.RunRequests{Requests: 80 * 81 / 2}) ||
		all[1] != (meters.RunRequests{Run: "run-99", Requests: 100}) {
		t.Errorf("%d runs: %+v", len(all), all)
	}
}
