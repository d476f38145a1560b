package intake_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// halfEnded submits five rows as run "a", and settles some with the outcome "refused".
func halfEnded(t *testing.T, items ...ledger.Row) {
	t.Helper()
	text := "organization_id,client_id\n"
	for i := range 5 {
		text += fmt.Sprintf("o%d,c%d\n", i, i)
	}
	handInAs(t, "a", tasks.TypeRemove, text)
	refuse(t, items...)
}

// refuse settles rows of run "a" that are open.
func refuse(t *testing.T, items ...ledger.Row) {
	t.Helper()
	l := taker(t).Ledger
	run, err := l.Get(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	released, err := l.Release(t.Context(), seg, ledger.Quota{First: 5, Check: 5, Ready: 5})
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[ledger.Row]bool{}
	for _, item := range items {
		chosen[item] = true
	}
	for _, row := range released.Rows {
		if !chosen[row.Row] {
			if _, err := l.GiveBack(t.Context(), seg, released.Token, row.Row); err != nil {
				t.Fatal(err)
			}
		}
	}
	nonce := ledger.NewNonce()
	x := ledger.Execution{Token: released.Token, Nonce: nonce, Session: ledger.NewSessionID()}
	if _, err := l.Begin(t.Context(), seg, x, items...); err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if _, err := l.End(t.Context(), seg, nonce, ledger.RowEnd{Row: item,
			Ending: ledger.Result{Outcome: "refused", Detail: "no"}}); err != nil {
			t.Fatal(err)
		}
	}
}

func row(n int) string { return fmt.Sprintf(`{"organization_id":"o%d","client_id":"c%d"}`, n, n) }

// TestRetryWhileRowsAreOpen retries the failed rows of a run twice while others are open, and the
// rest at its end: each row is submitted once.
func TestRetryWhileRowsAreOpen(t *testing.T) {
	halfEnded(t, 0, 1)
	i := taker(t)
	parent := ledger.Run{Tenant: "default", ID: "a"}
	again := func(id ledger.RunID, want ...string) {
		t.Helper()
		if _, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: id}); err != nil {
			t.Fatalf("retry %s: %v", id, err)
		}
		if diff := cmp.Diff(want, storedOf(t, i.Ledger, string(id))); diff != "" {
			t.Errorf("retry %s (-want +got):\n%s", id, diff)
		}
	}
	again("b", row(0), row(1))
	_, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: "none"})
	if retried, ok := errors.AsType[*intake.RetriedError](err); !ok || retried.Child != "b" || retried.Ended {
		t.Errorf("the same rows once more: %v, want that run b has not ended", err)
	}
	refuse(t, 3)
	again("c", row(3))
	again("b", row(0), row(1)) // is completed with its own rows
	refuse(t, 2, 4)
	again("d", row(2), row(4))
	if all, err := i.Ledger.Runs(t.Context()); len(all) != 4 || err != nil {
		t.Errorf("%d runs, %v, want a and three retries", len(all), err)
	}
}

// TestRetryOfChosenRows retries rows by their numbers, of which only failed ones are taken.
func TestRetryOfChosenRows(t *testing.T) {
	halfEnded(t, 0, 1, 3)
	i := taker(t)
	parent := ledger.Run{Tenant: "default", ID: "a"}
	_, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: "b", Items: []int64{3, 2, 99}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{row(3)}, storedOf(t, i.Ledger, "b")); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	for _, items := range [][]int64{{2}, {3}} {
		if _, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: "none", Items: items}); err == nil {
			t.Errorf("rows %v are submitted, which are open, or were submitted before", items)
		}
	}
	if err := (intake.RetryOptions{Items: make([]int64, intake.MostItems+1)}).Check(); !errors.Is(err,
		intake.ErrTooManyItems) {
		t.Errorf("too many rows: %v", err)
	}
}

// TestRetriesOfChosenRowsAtOnce has several processes retry the same row: one submits it.
func TestRetriesOfChosenRowsAtOnce(t *testing.T) {
	halfEnded(t, 0, 1)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for n := range errs {
		i := taker(t)
		group.Go(func() {
			_, errs[n] = i.Retry(t.Context(), ledger.Run{Tenant: "default", ID: "a"}, intake.RetryOptions{Items: []int64{1}})
		})
	}
	group.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d retries were made, want 1: %v", made, errs)
	}
}
