package tasks_test

import (
	"testing"

	"orgops/tasks"
)

func TestSettles(t *testing.T) {
	for _, test := range []struct {
		outcome       tasks.Outcome
		settles, well bool
	}{
		{tasks.Done, true, true}, {tasks.Unchanged, true, true},
		{tasks.Failed, true, false}, {tasks.Refused, true, false}, {tasks.Invalid, true, false}, {tasks.Expired, true, false}, {tasks.Cancelled, true, false},
		{tasks.NotYet, false, false}, {tasks.Paced, false, false}, {tasks.Blocked, false, false}, {tasks.Transient, false, false}, {tasks.Stopping, false, false},
	} {
		if test.outcome.Settles() != test.settles || test.outcome.Well() != test.well {
			t.Errorf("%s: settles %t, well %t; want %t, %t", test.outcome, test.outcome.Settles(), test.outcome.Well(), test.settles, test.well)
		}
	}
}
