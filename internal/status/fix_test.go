package status

import (
	"testing"

	"orgops/internal/ledger"
	"orgops/tasks"
)

// TestFixWhileItsScanGoesOn checks the remedy of failed rows of runs whose failed rows cannot be
// retried yet.
func TestFixWhileItsScanGoesOn(t *testing.T) {
	d := Domain{DomainName: DomainName{Tenant: "acme", Organization: "org_1", ID: "ord_1"}}
	for _, c := range []struct {
		kind    ledger.Kind
		outcome ledger.Outcome
		want    string
	}{
		{tasks.TypeVerify, ledger.Expired, "once the customer has corrected the record: " +
			"enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{tasks.TypeUpdate, ledger.Failed, "once the cause is fixed, submit it again"},
		{tasks.TypeVerify, ledger.InvalidRow, "correct the rows that this command writes: enqueue runs failed found"},
	} {
		row := DomainRow{Run: "found", Kind: c.kind, Row: Row{Outcome: c.outcome},
			Ledger: ledger.Run{ID: "found", Kind: c.kind, Scan: &ledger.Scan{}}}
		if got := d.fix(row); got.String() != c.want {
			t.Errorf("%s row of %s: %s, want %s", c.outcome, c.kind, got, c.want)
		}
	}
}
