package health_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/health"
)

func shortly(all []health.Finding) (lines []string) {
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", f.Subject, f.Level, f.Text))
	}
	return lines
}

func TestReadinessChecksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		slow := func(takes time.Duration, f health.Finding) func(context.Context) health.Finding {
			return func(context.Context) health.Finding {
				checks.Add(1)
				time.Sleep(takes)
				return f
			}
		}
		r := health.NewReadiness(
			health.Check{Subject: "a", Test: slow(2*time.Second, health.Finding{Level: health.Wrong, Text: "bad"})},
			health.Check{Subject: "b", Test: slow(2*time.Second, health.Finding{Level: health.Warning, Text: "so so"})},
			health.Check{Subject: "hangs", Test: slow(20*time.Second, health.Finding{Level: health.OK})},
			health.Check{Subject: "obeys", Test: func(ctx context.Context) health.Finding {
				<-ctx.Done()
				return health.Finding{Level: health.Wrong, Text: fmt.Sprint("ping: ", ctx.Err())}
			}})
		want := func(hangs string) {
			t.Helper()
			want := []string{"a: wrong: bad", "b: warning: so so", "hangs: wrong: " + hangs, "obeys: wrong: this check has not answered for 2.5s"}
			if diff := cmp.Diff(want, shortly(r.Findings(t.Context()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		begun := time.Now()
		want("this check has not answered for 2.5s")
		if took := time.Since(begun); took != 2500*time.Millisecond {
			t.Errorf("it took %s, want 2.5s", took)
		}
		want("this check has not answered for 2.5s") // remembered
		if checks.Load() != 3 || time.Since(begun) != 2500*time.Millisecond {
			t.Errorf("%d checks by %s, want 3: the second result is shared", checks.Load(), time.Since(begun))
		}
		time.Sleep(2 * time.Second)
		want("this check has not answered for 4.5s")
		if checks.Load() != 5 { // the check that hangs is not started again
			t.Errorf("%d checks, want 5", checks.Load())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if checks.Load() != 5 {
			t.Errorf("%d checks, want 5: there was no request", checks.Load())
		}
	})
}

// The first caller may leave; the others still get the findings.
func TestReadinessOfACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := health.NewReadiness(health.Check{Subject: "a", Test: func(context.Context) health.Finding {
			time.Sleep(time.Second)
			return health.Finding{Level: health.OK}
		}})
		leaving, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if diff := cmp.Diff([]string{"a: wrong: this check has not answered for 0s"}, shortly(r.Findings(leaving))); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a: ok: "}, shortly(r.Findings(t.Context()))); diff != "" {
			t.Errorf("stayed (-want +got):\n%s", diff)
		}
	})
}
