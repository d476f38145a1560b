package status_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

// minutes are requests of consecutive minutes, that are accepted and refused; the last one is now.
type minutes [][2]int

// TestRefused: a tenant is refused once two minutes have had more 429s than are normal, or none of
// its requests was accepted for ten; the warning names how many, and the runs that sent them. It is
// red, and the warning urgent, after ten minutes.
func TestRefused(t *testing.T) {
	repeated := func(n int, minute [2]int) (all minutes) {
		for range n {
			all = append(all, minute)
		}
		return all
	}
	quarter := [2]int{6, 2}
	for _, c := range []struct {
		name    string
		minutes minutes
		pause   time.Duration // that a 429 in the first minute asks for
		what    string        // the end of the warning; "": there is none
		early   bool          // for less than ten minutes
	}{
		{"no request", nil, 0, "", false},
		{"all accepted", repeated(30, [2]int{8, 0}), 0, "", false},
		{"a few at the limit", repeated(30, [2]int{100, 2}), 0, "", false},
		{name: "for a minute", minutes: append(repeated(20, [2]int{8, 0}), repeated(2, quarter)...)},
		{"for nine minutes", append(repeated(20, [2]int{8, 0}), repeated(9, quarter)...), 0,
			"refused 25 % of the requests since 2000-01-01T00:20:00Z (429): 18 of 72", true},
		{"for a quarter of an hour", append(repeated(20, [2]int{8, 0}), repeated(15, quarter)...), 0,
			"refused 25 % of the requests since 2000-01-01T00:20:00Z (429): 30 of 120", false},
		{"for more than an hour", repeated(80, [2]int{0, 8}), 0,
			"refused 100 % of the requests since 2000-01-01T00:20:00Z (429): 480 of 480", false},
		{"until a while ago", append(repeated(20, quarter), repeated(4, [2]int{})...), 0, "", false},
		{"until this minute, which has only begun", append(repeated(20, quarter), [2]int{8, 0}), 0,
			"refused 25 % of the requests since 2000-01-01T00:00:00Z (429): 40 of 160", false},
		{"until the minute before", append(repeated(20, quarter), repeated(2, [2]int{8, 0})...), 0, "", false},
		{"until a moment ago", append(repeated(20, quarter), repeated(1, [2]int{})...), 0,
			"refused 25 % of the requests since 2000-01-01T00:00:00Z (429): 40 of 160", false},
		{"with minutes without requests", append(append(repeated(12, quarter), repeated(3, [2]int{})...), quarter), 0,
			"refused 25 % of the requests since 2000-01-01T00:00:00Z (429): 26 of 104", false},
		{name: "after an hour without requests",
			minutes: append(append(repeated(12, quarter), repeated(40, [2]int{})...), quarter)},
		{"a pause of half an hour", append(minutes{{200, 1}}, repeated(20, [2]int{})...), 30 * time.Minute,
			"accepted no request since 2000-01-01T00:00:00Z (429)", false},
		{"a pause that began a moment ago", append(minutes{{200, 1}}, repeated(5, [2]int{})...), 30 * time.Minute, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
				redistest.Mini(t) // an hour passes
				rdb := redistest.New(t)
				m := meters.New()
				limiter := pace.New(pace.Config{Redis: rdb, Tenant: "acme",
					Limit: pace.Limit{Rate: pace.Rate{Count: 2, Per: time.Second}, Burst: 2}})
				_, err := tenant.Announce(t.Context(), rdb, tenant.Announced{Tenant: "acme", Rate: "2/s", Burst: 2})
				if err != nil {
					t.Fatal(err)
				}
				if c.pause > 0 {
					limiter.Answered(t.Context(), schema.OpGetDiscoveryDomain, http.StatusTooManyRequests, nil, c.pause)
				}
				for i, minute := range c.minutes {
					if i > 0 {
						time.Sleep(time.Minute)
					}
					send(m, minute)
					if err := m.Flush(t.Context(), rdb); err != nil {
						t.Fatal(err)
					}
				}
				one, err := status.ReadDetails(t.Context(), rdb, "acme", status.Fleet{ledger.Tenant("acme"): 1})
				if err != nil {
					t.Fatal(err)
				}
				all := one.Warnings()
				if (one.Refused != nil) != (c.what != "") || one.Red() != (c.what != "" && !c.early) {
					t.Fatalf("refused %+v, warnings %+v; want %q", one.Refused, all, c.what)
				}
				if c.what == "" {
					return
				}
				if len(all) != 1 || all[0].Urgent == c.early || !strings.HasSuffix(all[0].What, c.what) ||
					one.State() != "refused by the API" {
					t.Errorf("state %s, warnings %+v; want %q", one.State(), all, c.what)
				}
				if c.pause == 0 && !strings.Contains(all[0].Fix, "0 of 120 permits used in the last minute (0 %); requests in the last "+
					"ten minutes: ") || (c.pause == 0 && !strings.HasSuffix(all[0].Fix, " of run nightly")) {
					t.Errorf("remedy %q: it does not name our share", all[0].Fix)
				}
			})
		})
	}
}

// send counts the requests of a minute, all of one run.
func send(m *meters.Meters, minute [2]int) {
	for range minute[0] {
		m.Request("acme", http.StatusOK)
	}
	for range minute[1] {
		m.Request("acme", http.StatusTooManyRequests)
	}
	for range minute[0] + minute[1] {
		m.Requested("acme", "nightly")
	}
}
