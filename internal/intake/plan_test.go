package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/tasks"
)

func planOf(t *testing.T, in intake.Input, maxClients int) intake.Plan {
	t.Helper()
	plan, err := in.Plan(maxClients)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestPlanTellsTheLargestOrganizations(t *testing.T) {
	var b strings.Builder
	b.WriteString("organization_id,discovery_domain_id\n")
	for i := range 30 {
		for j := range i + 1 {
			fmt.Fprintf(&b, "org_%02d,dom_%d\n", i, j)
		}
	}
	plan := planOf(t, input(t, tasks.TypeVerify, b.String(), tasks.Defaults{}), 0)
	first := plan.Organizations[0]
	if len(plan.Organizations) != 20 || plan.More != 10 || first != (intake.OrganizationRows{ID: "org_29", Rows: 30}) {
		t.Errorf("%d told, %d more, the first %+v", len(plan.Organizations), plan.More, first)
	}
	plan.Organizations = nil
	if diff := cmp.Diff(intake.Plan{Found: intake.Found{Rows: 465}, Tasks: 465, Calls: 2 * 465, More: 10},
		plan); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlanEqualsSubmission compares a plan with its submission, of batches of clients above all.
func TestPlanEqualsSubmission(t *testing.T) {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range 25_000 {
		fmt.Fprintf(&b, "org_%d,c_%d\n", (i%13)%7, i)
	}
	plan := planOf(t, input(t, tasks.TypeRemove, b.String(), tasks.Defaults{}), 30)
	_, sum := submitAll(t, input(t, tasks.TypeRemove, b.String(), tasks.Defaults{}))
	if plan.Tasks != sum.Tasks || plan.Rows != sum.Rows {
		t.Errorf("planned %+v, came to %+v", plan, sum)
	}
	// Each full batch is 30 + 30 + 30 + 10; only the last ones of a window are shorter.
	if most := 4 * plan.Tasks; plan.Calls > most || plan.Calls < most-4*3*7 {
		t.Errorf("%d calls of %d tasks, want about %d", plan.Calls, plan.Tasks, most)
	}
}
