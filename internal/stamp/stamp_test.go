package stamp_test

import (
	"testing"
	"time"

	"orgops/internal/stamp"
)

func TestUTC(t *testing.T) {
	at := time.Date(2026, 12, 1, 4, 0, 0, 999_999_999, time.FixedZone("", 2*60*60))
	for at, want := range map[time.Time]string{at: "2026-12-01T02:00:00Z", {}: ""} {
		if got := stamp.UTC(at); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}
