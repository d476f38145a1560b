package pace_test

import (
	"testing"

	"orgops/internal/pace"
)

func TestClassOf(t *testing.T) {
	for _, tt := range []struct {
		small, looks, sweeps bool
		want                 pace.Class
	}{
		{false, false, false, pace.Finish},
		{false, true, false, pace.Look},
		{true, false, false, pace.FastFinish},
		{true, true, false, pace.FastLook},
		{false, false, true, pace.Sweep},
	} {
		if got := pace.ClassOf(tt.small, tt.looks, tt.sweeps); got != tt.want {
			t.Errorf("ClassOf(%v, %v, %v) is %d, want %d", tt.small, tt.looks, tt.sweeps, got, tt.want)
		}
	}
}
