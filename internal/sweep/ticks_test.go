package sweep_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// TestTicksAreReplacedOnce checks that of two writers that have read the same ticks one
// succeeds.
func TestTicksAreReplacedOnce(t *testing.T) {
	s := sweep.NewStore(redistest.New(t), "default")
	read := func() sweep.Ticks {
		t.Helper()
		ticks, err := s.Ticks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ticks
	}
	set := func(ticks *sweep.Ticks, want bool) {
		t.Helper()
		if ok, err := s.SetTicks(t.Context(), ticks); err != nil || ok != want {
			t.Errorf("tick %d: %v, %v, want %v", ticks.Tick, ok, err, want)
		}
	}
	one, other := read(), read()
	one.Tick, other.Tick = 60, 120
	one.Sweep = sweep.TenantSweep{Run: "sweep-default-60", Tick: 60, At: time.Unix(61, 0).UTC(), Pending: true}
	set(&one, true)
	set(&other, false)
	one.Skipped = sweep.SkippedTick{Tick: 120, Why: "because", InRow: 1}
	set(&one, true) // one equals the stored value
	if diff := cmp.Diff(one, read(), cmpopts.IgnoreUnexported(sweep.Ticks{})); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}
