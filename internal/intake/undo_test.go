package intake_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/tasks"
)

// TestUndoOfARun undoes a run whose rows have replaced several values. A row undoes no more than
// its row has changed, and a domain is verified again by a verification alone.
func TestUndoOfARun(t *testing.T) {
	const text = "organization_id,discovery_domain_id,status,use_for_organization_discovery\n" +
		"o,d0,pending,\no,d1,pending,false\no,d2,,false\no,d3,pending,false\no,d4,,false\no,d5,pending,\no,d6,verified,\n"
	handInAs(t, "a", tasks.TypeUpdate, text)
	i := taker(t)
	before := []*evidence.Before{
		{Status: schema.StatusVerified, UseForOrganizationDiscovery: new(true)},
		{Status: schema.StatusVerified, UseForOrganizationDiscovery: new(true)},
		{Status: schema.StatusVerified, UseForOrganizationDiscovery: new(true)},
		{Status: schema.StatusPending, UseForOrganizationDiscovery: new(true)},
		{Status: schema.StatusPending, UseForOrganizationDiscovery: nil},
		nil, // refused
		{Status: schema.StatusPending, UseForOrganizationDiscovery: nil},
	}
	segment, nonce, rows := ledgertest.Begin(t, i.Ledger, "a", len(before))
	var ends []ledger.RowEnd
	for n, b := range before {
		result := ledger.Result{Outcome: "refused"}
		if b != nil {
			packed, err := evidence.Evidence{Before: b}.Pack()
			if err != nil {
				t.Fatal(err)
			}
			result = ledger.Result{Outcome: ledger.Done, Evidence: packed}
		}
		ends = append(ends, ledger.RowEnd{Row: rows[n], Ending: result})
	}
	if _, err := i.Ledger.End(t.Context(), segment, nonce, ends...); err != nil {
		t.Fatal(err)
	}

	undo, err := i.Undo(t.Context(), ledgertest.Find(t, i.Ledger, "a"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"verify": {
			`{"organization_id":"o","discovery_domain_id":"d0","orgops_undo":{"run":"a","status":"pending"}}`,
			`{"organization_id":"o","discovery_domain_id":"d1","use_for_organization_discovery":true,` +
				`"orgops_undo":{"run":"a","status":"pending","use_for_organization_discovery":false}}`,
		},
		"update": {
			`{"organization_id":"o","discovery_domain_id":"d2","use_for_organization_discovery":true,` +
				`"orgops_undo":{"run":"a","use_for_organization_discovery":false}}`,
			`{"organization_id":"o","discovery_domain_id":"d3","use_for_organization_discovery":true,` +
				`"orgops_undo":{"run":"a","use_for_organization_discovery":false}}`,
			`{"organization_id":"o","discovery_domain_id":"d6","status":"pending","orgops_undo":{"run":"a","status":"verified"}}`,
		},
	}
	have := map[string][]string{}
	for _, row := range undo.Verify {
		have["verify"] = append(have["verify"], string(row))
	}
	for _, row := range undo.Update {
		have["update"] = append(have["update"], string(row))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
