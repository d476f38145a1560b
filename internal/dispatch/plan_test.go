package dispatch_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/dispatch"
	"orgops/internal/ledger"
)

func TestPlan(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		name string
		rows int
		rate float64 // 0: without a limit
		runs []dispatch.Candidate
		want []dispatch.Grant
	}{
		{name: "nothing to share", runs: []dispatch.Candidate{{Run: "a", Limit: -1}}},
		{name: "no runs", rows: 10},
		{name: "one run", rows: 10, runs: []dispatch.Candidate{{Run: "a", Limit: -1}},
			want: []dispatch.Grant{{Run: "a", Rows: 10, Turn: true}}},
		{name: "equal shares", rows: 8,
			runs: []dispatch.Candidate{{Run: "a", Limit: -1}, {Run: "b", ServedAt: at(-9), Limit: -1}},
			want: []dispatch.Grant{{Run: "a", Rows: 4}, {Run: "b", Rows: 4}}},
		{name: "the odd one to the run that waited longest", rows: 7,
			runs: []dispatch.Candidate{{Run: "a", ServedAt: at(5), Limit: -1}, {Run: "b", ServedAt: at(1), Limit: -1}},
			want: []dispatch.Grant{{Run: "b", Rows: 4}, {Run: "a", Rows: 3}}},
		{name: "one of nine to a bulk run", rows: 9,
			runs: []dispatch.Candidate{{Run: "bulk", Class: dispatch.Bulk, ServedAt: at(1), Limit: -1},
				{Run: "small", ServedAt: at(5), Limit: -1}},
			want: []dispatch.Grant{{Run: "small", Rows: 8}, {Run: "bulk", Rows: 1, Turn: true}}},
		{name: "the rest to bulk runs", rows: 9,
			runs: []dispatch.Candidate{{Run: "bulk", Class: dispatch.Bulk, ServedAt: at(5), Limit: -1},
				{Run: "small", ServedAt: at(5), Limit: 2}},
			want: []dispatch.Grant{{Run: "small", Rows: 2}, {Run: "bulk", Rows: 7, Turn: true}}},
		{name: "a long line holds bulk runs but for their turn", rows: 18,
			runs: []dispatch.Candidate{{Run: "bulk", Class: dispatch.Bulk, ServedAt: at(1), Limit: -1, Held: true},
				{Run: "small", ServedAt: at(5), Limit: -1}},
			want: []dispatch.Grant{{Run: "small", Rows: 16}, {Run: "bulk", Rows: 2, Turn: true}}},
		{name: "a long line holds bulk runs", rows: 8,
			runs: []dispatch.Candidate{{Run: "bulk", Class: dispatch.Bulk, Limit: -1, Held: true}}},
		{name: "a probe", rows: 100,
			runs: []dispatch.Candidate{{Run: "a", Limit: 1}, {Run: "b", Limit: 0}}, want: []dispatch.Grant{{Run: "a", Rows: 1}}},
		{name: "permits are shared too", rows: 100, rate: 8,
			runs: []dispatch.Candidate{{Run: "a", Limit: -1, Cost: 2}, {Run: "b", ServedAt: at(-9), Limit: -1, Cost: 2},
				{Run: "dns", ServedAt: at(-9), Class: dispatch.Bulk, Limit: 3}},
			want: []dispatch.Grant{{Run: "a", Rows: 2}, {Run: "b", Rows: 2}, {Run: "dns", Rows: 3}}},
		{name: "a limit below a portion", rows: 5000, runs: []dispatch.Candidate{{Run: "a", Limit: 10}},
			want: []dispatch.Grant{{Run: "a", Rows: 10}}},
		{name: "many", rows: 5000, runs: []dispatch.Candidate{{Run: "a", Limit: -1}},
			want: []dispatch.Grant{{Run: "a", Rows: 5000, Turn: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn := 0
			if diff := cmp.Diff(c.want, dispatch.Plan(c.rows, permits(c.rate), c.runs, &turn)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// permits returns the permits of one second.
func permits(rate float64) dispatch.Permits {
	if rate == 0 {
		rate = math.Inf(1)
	}
	var p dispatch.Permits
	p.Refill(time.Unix(1000, 0), rate)
	return p
}

// TestPlanStarvesNoRun plans one row at a time: the ninth goes to the bulk run.
func TestPlanStarvesNoRun(t *testing.T) {
	turn, bulk := 0, 0
	runs := []dispatch.Candidate{{Run: "bulk", Class: dispatch.Bulk, Limit: -1},
		{Run: "small", ServedAt: time.Unix(9, 0), Limit: -1}}
	for range 90 {
		if g := dispatch.Plan(1, permits(0), runs, &turn); g[0].Run == "bulk" {
			bulk++
		}
	}
	if bulk != 10 {
		t.Errorf("%d of 90 rows were released for the bulk run", bulk)
	}
}

func TestClassOf(t *testing.T) {
	run := func(priority string, rows int64, growing bool) ledger.Run {
		return ledger.Run{Rows: rows, Growing: growing, Description: ledger.Description{Priority: priority}}
	}
	for _, c := range []struct {
		run  ledger.Run
		want dispatch.Class
	}{
		{run("", 1, false), dispatch.Express},
		{run("", dispatch.ExpressRows, false), dispatch.Express},
		{run("", dispatch.ExpressRows+1, false), dispatch.Bulk},
		{run("", 1, true), dispatch.Bulk},
		{run("high", 1_000_000, false), dispatch.Express},
		{run("normal", 1, false), dispatch.Bulk},
	} {
		if got := dispatch.ClassOf(c.run); got != c.want {
			t.Errorf("%+v is of class %d", c.run, got)
		}
	}
}
