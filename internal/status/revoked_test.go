package status_test

import (
	"encoding/json"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/sweep"
)

// TestReadRevoked checks that of a sweep's rows those are marked whose domain was found lost and is
// revoked by now: not one whose request has had no answer, nor one that was restored.
func TestReadRevoked(t *testing.T) {
	rdb := redistest.New(t)
	store := sweep.NewStore(rdb, "acme")
	at := time.Unix(1_900_000_000, 0).UTC()
	revoked := &sweep.Revocation{Set: sweep.SetPending, Run: "lost", At: at, DoneAt: at}
	asked := &sweep.Revocation{Set: sweep.SetPending, Run: "lost", At: at}
	for id, of := range map[string]*sweep.Revocation{"ord_1": revoked, "ord_2": asked, "ord_3": nil, "ord_4": revoked} {
		value, err := json.Marshal(sweep.DomainState{V: 1, OrganizationID: "org_1", Revoked: of})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: value, Watched: true}); err != nil {
			t.Fatal(err)
		}
	}

	rows := []status.Row{
		{Domain: "ord_1", Outcome: ledger.Lost, Reason: "gone"}, {Domain: "ord_2", Outcome: ledger.Lost},
		{Domain: "ord_3", Outcome: ledger.Lost}, {Domain: "ord_none", Outcome: ledger.Lost},
		{Domain: "ord_4", Outcome: ledger.AtRisk},
	}
	if err := status.ReadRevoked(t.Context(), rdb, ledger.Run{Tenant: "acme"}, rows); err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if want := i == 0; (row.RevokedBy == "lost") != want {
			t.Errorf("row of %s is revoked by %q", row.Domain, row.RevokedBy)
		}
	}
	if got := rows[0].Text(); got != "lost (revoked since by run lost): gone" {
		t.Errorf("the row is shown as %q", got)
	}
}
