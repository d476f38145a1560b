package status_test

import (
	"fmt"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/internal/status"
)

// TestActs checks that the last acts are stored, each with its time, and that those on an earlier
// run of the same id are left out.
func TestActs(t *testing.T) {
	rdb := redistest.New(t)
	for i := range 60 {
		if err := status.AddAct(t.Context(), rdb, "run a", "ada", fmt.Sprint("pause ", i)); err != nil {
			t.Fatal(err)
		}
	}
	acts, err := status.Acts(t.Context(), rdb, "run a", time.Time{})
	if err != nil || len(acts) != 50 || acts[0].What != "pause 59" || acts[49].What != "pause 10" || acts[0].By != "ada" ||
		acts[0].At.IsZero() {
		t.Fatalf("acts %v, %v; want the last 50", acts, err)
	}
	for _, other := range []string{"run b", "tenant a"} {
		if acts, err := status.Acts(t.Context(), rdb, other, time.Time{}); err != nil || len(acts) > 0 {
			t.Errorf("%s: %v, %v; want none", other, acts, err)
		}
	}
	if since, err := status.Acts(t.Context(), rdb, "run a", acts[0].At.Add(time.Hour)); err != nil || len(since) > 0 {
		t.Errorf("acts %v, %v; want none of an earlier run", since, err)
	}
}
