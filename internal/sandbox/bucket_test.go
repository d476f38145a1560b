package sandbox_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

func TestBucket(t *testing.T) {
	type step struct {
		after     time.Duration
		status    int
		remaining string
		reset     int // seconds after the start
	}
	tests := []struct {
		name    string
		options sandbox.Options
		limit   string
		steps   []step
	}{
		{
			"2 a second, 3 at once", sandbox.Options{Rate: 2, Burst: 3}, "3",
			[]step{
				{0, 200, "2", 1}, {0, 200, "1", 1}, {0, 200, "0", 1}, {0, 429, "0", 1},
				{499 * time.Millisecond, 429, "0", 1},
				{time.Millisecond, 200, "0", 1}, // one every half second
				{time.Second, 200, "1", 2},
				{time.Hour, 200, "2", 3602}, // never more than the bucket holds
				{0, 200, "1", 3602}, {0, 200, "0", 3602}, {0, 429, "0", 3602},
			},
		},
		{
			"thirds add up", sandbox.Options{Rate: 3, Burst: 1}, "1",
			[]step{
				{0, 200, "0", 1},
				{time.Second / 9, 429, "0", 1}, {time.Second / 9, 429, "0", 1}, {time.Second/9 + 1, 200, "0", 1},
			},
		},
		{
			"less than one a second", sandbox.Options{Rate: 0.5}, "1",
			[]step{{0, 200, "0", 2}, {time.Second, 429, "0", 2}, {time.Second, 200, "0", 4}},
		},
		{"the rate is the size", sandbox.Options{Rate: 50}, "50", []step{{0, 200, "49", 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := newClock()
			begin := now.Now().Unix()
			tt.options.Clock = now.Now
			s := start(t, tt.options)
			token := s.Token()
			for i, step := range tt.steps {
				now.Add(step.after)
				got := do(t, s, ask{method: "GET", path: "/organizations", token: token})
				want := map[string]string{
					"status": strconv.Itoa(step.status), "limit": tt.limit, "remaining": step.remaining,
					"reset": strconv.FormatInt(begin+int64(step.reset), 10),
				}
				have := map[string]string{
					"status": strconv.Itoa(got.status), "limit": got.header.Get("X-Ratelimit-Limit"),
					"remaining": got.header.Get("X-Ratelimit-Remaining"), "reset": got.header.Get("X-Ratelimit-Reset"),
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
				if step.status == 429 {
					wantError(t, got, 429, "too_many_requests", "Global limit has been reached")
				}
			}
		})
	}
}

func TestBucketCountsRefusals(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Rate: 1, Burst: 3, Clock: now.Now})
	do(t, s, ask{method: "GET", path: "/organizations", token: "none"}) // counts for no bucket
	do(t, s, ask{method: "PUT", path: "/organizations"})                // no operation
	for i, a := range []ask{
		{method: "GET", path: "/organizations?take=0"},
		{method: "GET", path: "/organizations", token: s.Token("read:vdcs_templates")},
		{method: "PATCH", path: domainPath("org_a", "ord_a"), contentType: asJSON, body: `{}`},
	} {
		if got := do(t, s, a); got.header.Get("X-Ratelimit-Remaining") != strconv.Itoa(2-i) {
			t.Errorf("%s %s: %d left, status %d", a.method, a.path, 2-i, got.status)
		}
	}
	if got := do(t, s, ask{method: "GET", path: "/organizations"}); got.status != 429 {
		t.Error(got.status)
	}
}

func TestNoBucketNoHeaders(t *testing.T) {
	s := start(t, sandbox.Options{})
	for range 20 {
		got := do(t, s, ask{method: "GET", path: "/organizations"})
		if got.status != 200 || got.header.Get("X-Ratelimit-Limit") != "" {
			t.Fatal(got.status, got.header)
		}
	}
}

// TestResetIsByTheDate checks that x-ratelimit-reset is relative to the response's Date, so
// that a client needs no clock, even if the server's is wrong.
func TestResetIsByTheDate(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Rate: 0.25, Burst: 1, Clock: now.Now})
	got := do(t, s, ask{method: "GET", path: "/organizations"})
	date, err := http.ParseTime(got.header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	if reset := got.header.Get("X-Ratelimit-Reset"); reset != strconv.FormatInt(date.Unix()+4, 10) {
		t.Errorf("reset %s at %d, want 4 s later", reset, date.Unix())
	}
}
