package intake_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/tasks"
)

// TestNameRows: a name is found in the hosts of rows by whole labels, and nowhere else.
func TestNameRows(t *testing.T) {
	ledger := runs.New(redistest.New(t))
	for i, host := range []string{"_v.shop.example", "shop.example.", "_v.workshop.example", "_v.shop.example.org", ""} {
		id := fmt.Sprintf("r%d", i)
		if _, _, err := ledger.Create(t.Context(), runs.Run{ID: id, Kind: tasks.TypeVerify, Tenant: "acme", Format: "jsonl"}); err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf(`{"organization_id":"org_%d","discovery_domain_id":"ord_%d","verification_host":%q,"verification_txt":"shop.example"}`, i, i, host)
		if err := ledger.StoreRows(t.Context(), id, 0, [][]byte{[]byte(row)}); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, want := range map[string]map[string]string{"acme": {"ord_0": "org_0", "ord_1": "org_1"}, "other": {}} {
		got := map[string]string{}
		for row, err := range intake.NameRows(t.Context(), ledger, tenant, "shop.example") {
			if err != nil {
				t.Fatal(err)
			}
			got[row.Domain] = row.Organization
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tenant %s (-want +got):\n%s", tenant, diff)
		}
	}
}
