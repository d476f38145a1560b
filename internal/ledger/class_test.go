package ledger_test

import (
	"testing"

	"orgops/internal/ledger"
)

func TestClassOf(t *testing.T) {
	run := func(priority string, rows int64, growing bool) ledger.Run {
		return ledger.Run{Rows: rows, Growing: growing, Description: ledger.Description{Priority: priority}}
	}
	for _, c := range []struct {
		run  ledger.Run
		want ledger.Class
	}{
		{run("", 1, false), ledger.Express},
		{run("", ledger.ExpressRows, false), ledger.Express},
		{run("", ledger.ExpressRows+1, false), ledger.Bulk},
		{run("", 1, true), ledger.Bulk},
		{run("high", 1_000_000, false), ledger.Express},
		{run("normal", 1, false), ledger.Bulk},
	} {
		if got := ledger.ClassOf(c.run); got != c.want {
			t.Errorf("%+v is of class %d", c.run, got)
		}
	}
}
