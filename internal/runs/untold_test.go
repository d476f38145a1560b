package runs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

func everyTenant(string) bool { return true }

// TestUntoldOfOthers: the ends of other tenants' runs are none of ours, and wait.
func TestUntoldOfOthers(t *testing.T) {
	l, _ := newLedger(t)
	create(t, l, "a")
	seal(t, l, "a", 1)
	settle(t, l, "a", "done", "", 0)
	if all, err := l.Untold(t.Context(), func(tenant string) bool { return tenant != "default" }); err != nil || len(all) != 0 {
		t.Errorf("untold %v, %v, want none", all, err)
	}
	if got := untold(t, l); len(got) != 1 {
		t.Errorf("untold %v, want a still", got)
	}
}

// untold are the ids of the runs whose end is to be told.
func untold(t *testing.T, l *runs.Ledger) []string {
	t.Helper()
	all, err := l.Untold(t.Context(), everyTenant)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range all {
		if !r.Ended() {
			t.Errorf("run %s has not ended", r.ID)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func TestUntold(t *testing.T) {
	l, rdb := newLedger(t)
	want := func(when string, ids ...string) {
		t.Helper()
		if diff := cmp.Diff(ids, untold(t, l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	for _, id := range []string{"b", "a", "open", "gone", "cancelled"} {
		create(t, l, id)
		store(t, l, id, 0, "x")
	}
	want("while they are submitted")
	for _, id := range []string{"b", "a", "gone"} {
		if err := l.Seal(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
	}
	want("while their rows are open")
	for _, id := range []string{"b", "a", "gone"} {
		settle(t, l, id, "done", "", 0)
	}
	if _, err := l.Cancel(t.Context(), "cancelled"); err != nil {
		t.Fatal(err)
	}
	want("when they have ended", "a", "b", "cancelled", "gone")
	if err := l.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	want("of one that was deleted nothing is told", "a", "b", "cancelled")
	for range 2 {
		if err := l.Told(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	want("of one that was told", "a", "cancelled")
	if _, created, err := l.Create(t.Context(), runs.Run{ID: "b", Kind: kind, Tenant: "default"}); err != nil || created {
		t.Fatalf("created %t, %v", created, err)
	}
	want("of one whose producer comes back", "a", "cancelled")
	if n := rdb.SCard(t.Context(), "orgops:v1:runs:untold").Val(); n != 3 {
		t.Errorf("%d runs are kept for telling, want the two that have ended and the open one", n)
	}
}

// TestUntoldBesideAnUnreadable: the ends of the others are told.
func TestUntoldBesideAnUnreadable(t *testing.T) {
	l, rdb := newLedger(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		create(t, l, id)
		seal(t, l, id, 1)
		settle(t, l, id, "done", "", 0)
	}
	rdb.HSet(t.Context(), "orgops:v1:{run:b}:run", "total", "many")
	rdb.Del(t.Context(), "orgops:v1:{run:c}:run")
	rdb.Set(t.Context(), "orgops:v1:{run:c}:run", "of another type", 0)
	all, err := l.Untold(t.Context(), everyTenant)
	if len(all) != 2 || all[0].ID != "a" || all[1].ID != "d" {
		t.Errorf("untold %v, want a and d", all)
	}
	if err == nil || !strings.Contains(err.Error(), "run b: ") || !strings.Contains(err.Error(), "run c: ") {
		t.Errorf("error %v, want it to name b and c", err)
	}
}
