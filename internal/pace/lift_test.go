package pace_test

import (
	"net/http"
	"testing"
	"time"

	"orgops/internal/pace"
)

// TestAPersonEndsAPause: one 429 with a far Retry-After pauses the tenant, or an operation, for an
// hour. A person ends that. One request tries then, in any process: if it gets another 429, the
// next pause begins.
func TestAPersonEndsAPause(t *testing.T) {
	const read = "get_discovery_domain"
	for name, headers := range map[string]http.Header{
		"of the tenant":   {},
		"of an operation": {"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, perSecond(10, 10))
			one, two, person := f.process(), f.process(), f.process()
			for _, l := range []*pace.Limiter{one, two} {
				if err := l.Wait(t.Context(), pace.Request{Operation: read}); err != nil {
					t.Fatal(err)
				}
				l.Answered(t.Context(), read, http.StatusOK, http.Header{"X-Ratelimit-Limit": {"10"},
					"X-Ratelimit-Remaining": {"9"}}, 0)
			}
			limit := func() {
				t.Helper()
				if err := one.Wait(t.Context(), pace.Request{Operation: op}); err != nil {
					t.Fatal(err)
				}
				one.Answered(t.Context(), op, http.StatusTooManyRequests, headers, time.Hour)
			}
			paused := func(want bool) {
				t.Helper()
				for _, l := range []*pace.Limiter{one, two} {
					s, err := l.State(t.Context())
					if err != nil || s.Paused() != want {
						t.Errorf("paused until %v, operations %v, %v; want a pause: %v", s.PausedUntil, s.Pauses, err, want)
					}
				}
			}
			limit()
			paused(true)
			if ended, err := person.Start(t.Context()); err != nil || !ended.Paused || ended.Stop != nil {
				t.Errorf("start ended %+v, %v; want a pause", ended, err)
			}
			paused(false)
			for _, l := range []*pace.Limiter{one, two} {
				if ahead := l.Ahead(pace.Finish); ahead > time.Second {
					t.Errorf("a request would wait for %v after the pause was ended", ahead)
				}
			}
			limit()
			paused(true)
			if _, err := person.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			wait(t, two, op)
			wait(t, one, op)
			paused(false)
			if ended, err := person.Start(t.Context()); err != nil || ended.Paused {
				t.Errorf("start ended %+v, %v; want nothing", ended, err)
			}
		})
	}
}

// TestRefusedSince: one pause after the other, of the tenant or an operation, has the time of the
// first 429, until a request is accepted.
func TestRefusedSince(t *testing.T) {
	for name, headers := range map[string]http.Header{
		"the tenant":   {},
		"an operation": {"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}},
	} {
		bubble(t, name, func(t *testing.T) {
			l := newFleet(t, perSecond(10, 10)).process()
			wait(t, l, op)
			l.Answered(t.Context(), op, http.StatusOK,
				http.Header{"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"9"}}, 0)
			refuse := func() time.Time {
				t.Helper()
				if err := l.Wait(t.Context(), pace.Request{Operation: op}); err != nil {
					t.Fatal(err)
				}
				l.Answered(t.Context(), op, http.StatusTooManyRequests, headers, 20*time.Second)
				s, err := l.State(t.Context())
				if err != nil || !s.Paused() {
					t.Fatalf("%+v, %v; want a pause", s, err)
				}
				if len(s.Pauses) > 0 {
					return s.Pauses[0].RefusedSince
				}
				return s.RefusedSince
			}
			began := refuse()
			if ago := time.Since(began); ago < 0 || ago > time.Second {
				t.Errorf("refused since %s, %s ago", began, ago)
			}
			for range 3 {
				time.Sleep(20 * time.Second)
				if since := refuse(); !since.Equal(began) {
					t.Errorf("refused since %s, want %s", since, began)
				}
			}
			time.Sleep(20 * time.Second)
			wait(t, l, op)
			l.Answered(t.Context(), op, http.StatusOK, http.Header{}, 0)
			time.Sleep(time.Minute)
			if since := refuse(); !since.After(began.Add(time.Minute)) {
				t.Errorf("refused since %s after a request was accepted, want a later time than %s", since, began)
			}
		})
	}
}
