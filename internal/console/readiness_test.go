package console_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/console"
)

func shortly(checks []console.Check) (lines []string) {
	for _, c := range checks {
		lines = append(lines, fmt.Sprintf("%s: %v %s", c.Name, c.Err, c.Note))
	}
	return lines
}

func TestReadinessLooksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		slow := func(takes time.Duration, f console.Finding) func(context.Context) console.Finding {
			return func(context.Context) console.Finding {
				looks.Add(1)
				time.Sleep(takes)
				return f
			}
		}
		r := console.NewReadiness(
			console.Probe{Name: "a", Look: slow(2*time.Second, console.Finding{Err: errors.New("bad")})},
			console.Probe{Name: "b", Look: slow(2*time.Second, console.Finding{Note: "so so"})},
			console.Probe{Name: "hangs", Look: slow(20*time.Second, console.Finding{})},
			console.Probe{Name: "obeys", Look: func(ctx context.Context) console.Finding {
				<-ctx.Done()
				return console.Finding{Err: fmt.Errorf("ping: %w", ctx.Err())}
			}})
		want := func(hangs string) {
			t.Helper()
			want := []string{"a: bad ", "b: <nil> so so", "hangs: " + hangs, "obeys: this check has not answered for 2.5s "}
			if diff := cmp.Diff(want, shortly(r.Checks(t.Context()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		begun := time.Now()
		want("this check has not answered for 2.5s ")
		if took := time.Since(begun); took != 2500*time.Millisecond {
			t.Errorf("it took %s, want 2.5s", took)
		}
		want("this check has not answered for 2.5s ") // remembered
		if looks.Load() != 3 || time.Since(begun) != 2500*time.Millisecond {
			t.Errorf("%d looks by %s, want 3: a second one looks at nothing", looks.Load(), time.Since(begun))
		}
		time.Sleep(2 * time.Second)
		want("this check has not answered for 4.5s ")
		if looks.Load() != 5 { // of the one that hangs no second look is begun
			t.Errorf("%d looks, want 5", looks.Load())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if looks.Load() != 5 {
			t.Errorf("%d looks, want 5: nobody has asked", looks.Load())
		}
	})
}

// Whoever comes first and leaves takes nothing away from those who stay.
func TestReadinessIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := console.NewReadiness(console.Probe{Name: "a", Look: func(context.Context) console.Finding {
			time.Sleep(time.Second)
			return console.Finding{}
		}})
		leaving, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if diff := cmp.Diff([]string{"a: this check has not answered for 0s "}, shortly(r.Checks(leaving))); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a: <nil> "}, shortly(r.Checks(t.Context()))); diff != "" {
			t.Errorf("stayed (-want +got):\n%s", diff)
		}
	})
}
