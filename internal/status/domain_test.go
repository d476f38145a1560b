package status_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/evidence"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/tasks"
)

// TestDomainOfReadsFewKeys checks that the row of a domain that was executed last is found without
// a search, however many rows are stored, and that a search finds the others.
func TestDomainOfReadsFewKeys(t *testing.T) {
	took := map[int]int64{}
	for _, stored := range []int{2, 1000} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			rdb := redistest.New(t)
			l := ledger.New(rdb)
			var rows []string
			for i := range stored {
				rows = append(rows, fmt.Sprintf(`{"organization_id":"org_1","discovery_domain_id":"ord_%d"}`, i))
			}
			for _, id := range []ledger.RunID{"first", "second"} {
				ledgertest.Submit(t, l, ledger.NewRun{ID: id, Tenant: "acme", Kind: tasks.TypeVerify,
					Description: ledger.Description{Format: "jsonl"}}, rows...)
			}
			first := ledgertest.Find(t, l, "first")
			known := index.Entry{Domain: discovery.Domain{OrganizationID: "org_1", ID: "ord_1", Name: "acme.example",
				Host: "_v.acme.example", TXT: "t"}, At: time.Now(), Run: first.ID, Row: 1}
			if _, err := l.End(t.Context(),
				ledger.Segment{Tenant: first.Tenant, Run: first.ID, Incarnation: first.Incarnation}, ledger.NewNonce(),
				ledger.RowEnd{Ending: ledger.GiveBack{}, Subject: known.Subject()}); err != nil {
				t.Fatal(err)
			}
			count := new(redistest.RoundTrips)
			rdb.AddHook(count.Hook())
			read := func(most int, want ...ledger.RunID) int64 {
				before := count.Load()
				d, err := status.DomainOf(t.Context(), rdb, l,
					status.DomainName{Tenant: "acme", Organization: "org_1", ID: "ord_1"}, most)
				var runs []ledger.RunID
				for _, row := range d.Rows {
					runs = append(runs, row.Run)
				}
				if err != nil || !slices.Equal(runs, want) || d.Known == nil {
					t.Errorf("at most %d rows: of runs %v, want %v; %+v, %v", most, runs, want, d.Known, err)
				}
				return count.Load() - before
			}
			took[stored] = read(0, "first")
			if searched := read(5, "second", "first"); searched <= took[stored] {
				t.Errorf("a search took %d round trips, the row that was executed last %d", searched, took[stored])
			}
		})
	}
	if took[2] != took[1000] {
		t.Errorf("round trips by stored rows: %v", took)
	}
}

// TestDisproofIsNoProof: the check by which a domain was revoked compared its record, and found
// that the token is gone: it is not said to have proven the domain.
func TestDisproofIsNoProof(t *testing.T) {
	compared := &evidence.Record{DiscoveryDomainID: "ord_1", Domain: "acme.example"}
	for state, want := range map[string]string{"present": "proven at", "absent": "checked at"} {
		e := evidence.Evidence{Evidence: report.Evidence{State: state}, Compared: compared}
		if got := (status.Findings{Evidence: e}).When().Name; got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

// TestWhatToDoAboutARow checks the remedy of each row of a domain. It submits the domain alone
// again, and not all failed rows of its run, which may have those of other customers.
func TestWhatToDoAboutARow(t *testing.T) {
	const verify = "enqueue domains verify --tenant acme --org org_1 --domain ord_1"
	const row = `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`
	for _, tt := range []struct {
		name    string
		kind    ledger.Kind
		outcome string // "": open
		paused  bool
		want    string
	}{
		{"open", tasks.TypeVerify, "", false, ""},
		{"paused", tasks.TypeVerify, "", true, "to continue: enqueue runs resume job"},
		{"done", tasks.TypeVerify, "done", false, ""},
		{"expired", tasks.TypeVerify, "expired", false, "once the customer has corrected the record: " + verify},
		{"refused", tasks.TypeVerify, "refused", false, "once the cause is fixed: " + verify},
		{"cancelled", tasks.TypeVerify, "cancelled", false, "if it is still wanted: " + verify},
		{"invalid", tasks.TypeVerify, "invalid", false, "correct the rows that this command writes: enqueue runs failed job"},
		{"withdrawn", tasks.TypeVerify, "withdrawn", false, "look for a tool that manages domains, such as Terraform, " +
			"take what it shall not change out of its files, and verify again"},
		{"an update that failed", tasks.TypeUpdate, "failed", false,
			"once the cause is fixed: enqueue runs retry job --row 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rdb := redistest.New(t)
			l := ledger.New(rdb)
			ledgertest.Submit(t, l, ledger.NewRun{ID: "job", Tenant: "acme", Kind: tt.kind,
				Description: ledger.Description{Format: "jsonl"}}, row)
			if tt.paused {
				if err := l.Pause(t.Context(), "acme", "job"); err != nil {
					t.Fatal(err)
				}
			}
			if tt.outcome != "" {
				ledgertest.Settle(t, l, "job", tt.outcome, "", 0)
			}
			d, err := status.DomainOf(t.Context(), rdb, l,
				status.DomainName{Tenant: "acme", Organization: "org_1", ID: "ord_1"}, 1)
			if err != nil || len(d.Rows) != 1 {
				t.Fatalf("%d rows, %v", len(d.Rows), err)
			}
			if got := d.Rows[0].Fix; got.String() != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
