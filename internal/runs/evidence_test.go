package runs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
)

// TestEvidenceOfSettledRows is kept with the outcome, read back by row and by run, and
// forgotten with the run.
func TestEvidenceOfSettledRows(t *testing.T) {
	const rows = 2500 // more than one page
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", rows+1)
	want := map[int64]string{}
	for item := range int64(rows) {
		evidence := fmt.Sprintf("proof of %d\x00", item)
		if _, err := l.SettleRow(t.Context(), "a", kind, 0, item, "", nil, "done", "", []byte(evidence)); err != nil {
			t.Fatal(err)
		}
		want[item] = evidence
	}
	// What comes second changes nothing.
	if _, err := l.SettleRow(t.Context(), "a", kind, 0, 0, "", nil, "done", "", []byte("another")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.SettleRow(t.Context(), "a", kind, 0, rows, "", nil, "done", "", nil); err != nil {
		t.Fatal(err)
	}
	got := map[int64]string{}
	for row, err := range l.Evidence(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		got[row.Item] += string(row.Evidence)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	state, err := l.Row(t.Context(), "a", 7, "record")
	if err != nil || string(state.Evidence) != want[7] || state.Fate == nil || state.Fate.Outcome != "done" {
		t.Errorf("row 7 is %+v, %v", state, err)
	}
	if all := fates(t, l, "a"); len(all) != 0 {
		t.Errorf("rows that are plainly done have fates %v", all)
	}
	if err := l.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for row, err := range l.Evidence(t.Context(), "a") {
		t.Errorf("after the run was deleted: %+v, %v", row, err)
	}
}

// TestIDs are those of all runs, also of single rows that have ended.
func TestIDs(t *testing.T) {
	l, _ := newLedger(t)
	var want []string
	for i := range 20 {
		id := fmt.Sprint("run-", i)
		create(t, l, id)
		seal(t, l, id, 1)
		want = append(want, id)
	}
	submitRow(t, l, ledger.NewRun{ID: "single", Kind: updates, Tenant: "default"}, `{}`).end(0, done())
	want = append(want, "single")
	got, err := l.IDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
