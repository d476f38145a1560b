package sweep_test

import (
	"fmt"
	"testing"

	"orgops/internal/sweep"
)

func TestComplete(t *testing.T) {
	for _, test := range []struct {
		p    sweep.Progress
		want bool
	}{
		{sweep.Progress{Read: 5, Gone: 1}, true}, {sweep.Progress{Read: 5, Missed: 1}, false},
		{sweep.Progress{Read: 5, Early: "x"}, false},
	} {
		if got := test.p.Complete(); got != test.want {
			t.Errorf("%+v: complete %t", test.p, got)
		}
	}
}

// TestDue checks that checks are spread evenly over an interval, each domain at the same
// offset in every interval.
func TestDue(t *testing.T) {
	const tick, hours, domains = 1_795_309_200, 20, 4000
	p := sweep.Progress{Tick: tick, SpreadUntil: tick + hours*3600}
	next := sweep.Progress{Tick: tick + 86400, SpreadUntil: tick + 86400 + hours*3600}
	var each [hours]int
	for i := range domains {
		id := fmt.Sprintf("ord_%d", i)
		due := p.Due(id)
		if due < p.Tick || due >= p.SpreadUntil {
			t.Fatalf("%s is due at %d, out of %d to %d", id, due, p.Tick, p.SpreadUntil)
		}
		if got := next.Due(id); got != due+86400 {
			t.Errorf("%s is due at %d, and a day later at %d", id, due, got)
		}
		each[(due-tick)/3600]++
	}
	for hour, n := range each {
		if n < domains/hours/2 || n > domains/hours*2 {
			t.Errorf("%d domains in hour %d", n, hour)
		}
	}
	for _, p := range []sweep.Progress{{Tick: tick}, {Tick: tick, SpreadUntil: tick},
		{Tick: tick, SpreadUntil: tick - 1}} {
		if got := p.Due("ord_1"); got != 0 {
			t.Errorf("%+v: due %d, want at once", p, got)
		}
	}
}
