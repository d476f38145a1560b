package activity_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/redistest"
)

const keyOfA = "orgops:v3:{tenant:a}:activity"

func author(rdb redis.Cmdable, name string) activity.Author {
	return activity.Author{Redis: rdb, Logger: slog.New(slog.DiscardHandler), Name: name}
}

// TestRecord checks what is read of an entry, and what is stored.
func TestRecord(t *testing.T) {
	rdb := redistest.New(t)
	by := author(rdb, "ada\x1b[2J")
	by.Claimed = true
	by.Record(t.Context(), activity.OfRun("a", "nightly", activity.Cancelled, strings.Repeat("x", 1000)))
	page, next, err := activity.Page(t.Context(), rdb, activity.Query{Tenants: []string{"a", "b"}, Limit: 10})
	if err != nil || next != "" || len(page) != 1 {
		t.Fatalf("%v, %q, %v; want one entry", page, next, err)
	}
	e := page[0]
	if e.Tenant != "a" || e.Run != "nightly" || e.Action != activity.Cancelled || !e.Claimed ||
		e.Who() != `ada\x1b[2J (claimed)` || len([]rune(e.Result)) != 300 || time.Since(e.At).Abs() > time.Hour {
		t.Errorf("read %+v by %s", e, e.Who())
	}
	stored, err := rdb.XRange(t.Context(), keyOfA, "-", "+").Result()
	if err != nil || strings.Contains(fmt.Sprint(stored), `"tenant"`) {
		t.Errorf("stored %v, %v; want no tenant, which the key has", stored, err)
	}
	if ttl := rdb.TTL(t.Context(), keyOfA).Val(); ttl <= 89*24*time.Hour || ttl > 90*24*time.Hour {
		t.Errorf("expires after %s, want 90 days", ttl)
	}
	activity.Author{}.Record(t.Context(), e) // records nothing
}

// TestOldEntries checks that entries are deleted after 90 days, and the oldest beyond 10,000.
func TestOldEntries(t *testing.T) {
	rdb := redistest.New(t)
	now := redisTime(t, rdb)
	pipe := rdb.Pipeline()
	add := func(at time.Time, n int) {
		for i := range n {
			pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: keyOfA, ID: fmt.Sprintf("%d-%d", at.UnixMilli(), i),
				Values: []string{"entry", `{"by":"old","action":"paused"}`}})
		}
	}
	add(now.Add(-91*24*time.Hour), 300)
	add(now.Add(-89*24*time.Hour), 1000)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	author(rdb, "ada").Record(t.Context(), activity.Entry{Tenant: "a", Action: activity.Started})
	// Redis deletes whole nodes of 100 entries.
	if n := rdb.XLen(t.Context(), keyOfA).Val(); n < 1001 || n > 1101 {
		t.Errorf("%d entries, want the 1,001 of the last 90 days", n)
	}
	add(now.Add(-time.Hour), 10_500)
	if _, err := pipe.Exec(t.Context()); err == nil {
		t.Fatal("entries before the newest were added")
	}
	pipe = rdb.Pipeline()
	add(now.Add(time.Hour), 10_500)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	author(rdb, "ada").Record(t.Context(), activity.Entry{Tenant: "a", Action: activity.Started})
	if n := rdb.XLen(t.Context(), keyOfA).Val(); n < 10_000 || n > 10_200 {
		t.Errorf("%d entries, want 10,000", n)
	}
}

func redisTime(t *testing.T, rdb redis.Cmdable) time.Time {
	t.Helper()
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// TestPages walks through the entries of several tenants, some of which have the same id, with
// pages of each size, and filters: none is missing or twice, and the newest are first.
func TestPages(t *testing.T) {
	rdb := redistest.New(t)
	tenants := []string{"a", "b", "c", "empty"}
	for i := range 60 {
		for n, tenant := range tenants[:3] {
			if i%(n+1) != 0 {
				continue
			}
			text := fmt.Sprintf(`{"by":"user%d","action":"paused","run":"run-%d"}`, i%2, i)
			if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "orgops:v3:{tenant:" + tenant + "}:activity",
				ID: fmt.Sprintf("%d-%d", 1700000000000+i/15, i%15), Values: []string{"entry", text}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		query activity.Query
		want  func(e activity.Entry) bool
	}{
		{activity.Query{}, func(activity.Entry) bool { return true }},
		{activity.Query{By: "USER1"}, func(e activity.Entry) bool { return e.By == "user1" }},
		{activity.Query{Run: "run-12"}, func(e activity.Entry) bool { return e.Run == "run-12" }},
		{activity.Query{Text: "N-1"}, func(e activity.Entry) bool { return strings.HasPrefix(e.Run, "run-1") }},
		{activity.Query{Text: "nothing"}, func(activity.Entry) bool { return false }},
		{activity.Query{Since: time.UnixMilli(1700000000002)}, func(e activity.Entry) bool {
			return e.At.UnixMilli() >= 1700000000002
		}},
	} {
		whole := walk(t, rdb, tenants, c.query, 1000)
		var want []string
		for _, e := range walk(t, rdb, tenants, activity.Query{}, 1000) {
			if c.want(e) {
				want = append(want, e.ID+" "+e.Tenant)
			}
		}
		if diff := cmp.Diff(want, ids(whole)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.query, diff)
		}
		for _, limit := range []int{1, 2, 7, 50} {
			if diff := cmp.Diff(want, ids(walk(t, rdb, tenants, c.query, limit))); diff != "" {
				t.Errorf("%+v, %d a page (-want +got):\n%s", c.query, limit, diff)
			}
		}
	}
	all := ids(walk(t, rdb, tenants, activity.Query{}, 1000))
	if len(all) != 60+30+20 || all[0] != "1700000000003-14 a" {
		t.Errorf("%d entries, first %s; want all, the newest first", len(all), all[0])
	}
}

func walk(t *testing.T, rdb redis.Cmdable, tenants []string, q activity.Query,
	limit int) (all []activity.Entry) {
	t.Helper()
	q.Tenants, q.Limit = tenants, limit
	for range 200 {
		page, next, err := activity.Page(t.Context(), rdb, q)
		if err != nil || len(page) > limit+2 || (next != "" && len(page) < limit) {
			t.Fatalf("page of %d, then %q, %v", len(page), next, err)
		}
		all = append(all, page...)
		if q.After = next; next == "" {
			return all
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

func ids(all []activity.Entry) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ID+" "+e.Tenant)
	}
	return ids
}

// TestFullRedis checks that an entry which is not stored is a line in the log, and nothing else.
func TestFullRedis(t *testing.T) {
	rdb := redistest.New(t)
	var log bytes.Buffer
	by := author(rdb, "ada")
	by.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := rdb.Set(t.Context(), keyOfA, "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	by.Record(t.Context(), activity.Entry{Tenant: "a", Action: activity.Stopped})
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "activity not recorded") {
		t.Errorf("log %q, want one line", text)
	}
}
