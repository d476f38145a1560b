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
func halfEnded(t *testing.T, items ...int64) ledger.Run {
	t.Helper()
	text := "organization_id,client_id\n"
	for i := range 5 {
		text += fmt.Sprintf("o%d,c%d\n", i, i)
	}
	run := handInAs(t, "a", tasks.TypeRemove, text)
	settleAs(t, run, "refused", "no", items...)
	return run
}

func row(n int) string { return fmt.Sprintf(`{"organization_id":"o%d","client_id":"c%d"}`, n, n) }

// TestRetryWhileRowsAreOpen retries the failed rows of a run twice while others are open, and the
// rest at its end: each row is submitted once.
func TestRetryWhileRowsAreOpen(t *testing.T) {
	parent := halfEnded(t, 0, 1)
	i := taker(t)
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
	settleAs(t, parent, "refused", "no", 3)
	again("c", row(3))
	again("b", row(0), row(1)) // is completed with its own rows
	settleAs(t, parent, "refused", "no", 2, 4)
	again("d", row(2), row(4))
	if all, err := i.Ledger.Runs(t.Context()); len(all) != 4 || err != nil {
		t.Errorf("%d runs, %v, want a and three retries", len(all), err)
	}
}

// TestRetryOfChosenRows retries rows by their numbers, of which only failed ones are taken.
func TestRetryOfChosenRows(t *testing.T) {
	parent := halfEnded(t, 0, 1, 3)
	i := taker(t)
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

// TestRetriesAtOnce has several processes retry the same rows: one submits them.
func TestRetriesAtOnce(t *testing.T) {
	for name, items := range map[string][]int64{"all failed rows": nil, "a chosen row": {1}} {
		t.Run(name, func(t *testing.T) {
			parent := halfEnded(t, 0, 1)
			var group sync.WaitGroup
			errs := make([]error, 8)
			for n := range errs {
				i := taker(t)
				group.Go(func() {
					_, errs[n] = i.Retry(t.Context(), parent, intake.RetryOptions{Items: items})
				})
			}
			group.Wait()
			made := 0
			for _, err := range errs {
				if _, refused := errors.AsType[*intake.RetriedError](err); err == nil {
					made++
				} else if !refused && items == nil {
					t.Error(err)
				}
			}
			all, err := taker(t).Ledger.Runs(t.Context())
			if made != 1 || len(all) != 2 || err != nil {
				t.Errorf("%d retries were made, %d runs are there, %v", made, len(all), err)
			}
		})
	}
}
