package pace_test

import (
	"testing"

	"orgops/internal/pace"
)

func TestClassOf(t *testing.T) {
	for _, tt := range []struct {
		looks, sweeps bool
		want          pace.Class
	}{
		{false, false, pace.Finish},
		{true, false, pace.Look},
		{false, true, pace.Sweep},
		{true, true, pace.Sweep},
	} {
		if got := pace.ClassOf(tt.looks, tt.sweeps); got != tt.want {
			t.Errorf("ClassOf(%v, %v) is %d, want %d", tt.looks, tt.sweeps, got, tt.want)
		}
	}
}
