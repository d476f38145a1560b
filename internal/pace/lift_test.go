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
		"of the tenant":   {"Retry-After": {"3600"}},
		"of an operation": {"Retry-After": {"3600"}, "X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, perSecond(10, 10))
			one, two, person := f.process(), f.process(), f.process()
			for _, l := range []*pace.Limiter{one, two} {
				if err := l.Wait(t.Context(), read); err != nil {
					t.Fatal(err)
				}
				l.Answered(t.Context(), read, http.StatusOK, http.Header{"X-Ratelimit-Limit": {"10"},
					"X-Ratelimit-Remaining": {"9"}})
			}
			limit := func() {
				t.Helper()
				if err := one.Wait(t.Context(), op); err != nil {
					t.Fatal(err)
				}
				one.Answered(t.Context(), op, http.StatusTooManyRequests, headers)
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
				if ahead := l.Ahead(t.Context()); ahead > time.Second {
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
