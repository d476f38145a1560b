package intake_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
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

// TestEachFailedRowOnce retries rows of a run again and again, by calls that are killed anywhere,
// for chosen rows and outcomes, while more of its rows fail and children are cancelled and deleted.
// No row is ever in two children, and in the end each failed row is in one.
func TestEachFailedRowOnce(t *testing.T) {
	for seed := range uint64(redistest.Amount(20, 200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1))
			const rows = 30
			text := "organization_id,client_id\n"
			for n := range rows {
				text += fmt.Sprintf("o%d,c%d\n", n, n)
			}
			parent := handInAs(t, "a", tasks.TypeRemove, text)
			order := dice.Perm(rows) // in which the rows are settled
			fail := func(n int) {
				for range min(n, len(order)) {
					settleAs(t, parent, []string{"failed", "refused", "done"}[order[0]%3], "no", int64(order[0]))
					order = order[1:]
				}
			}
			i := taker(t)
			for range 12 {
				fail(dice.IntN(6))
				o := intake.RetryOptions{ID: ledger.RunID(fmt.Sprint("b", dice.IntN(6)))}
				for range dice.IntN(2) * 8 {
					o.Items = append(o.Items, dice.Int64N(rows))
				}
				if dice.IntN(3) == 0 {
					o.Outcomes = []string{"refused"}
				}
				_, err := dyingTaker(t, dice.Int64N(8)).Retry(t.Context(), parent, o)
				t.Logf("retry as %s of %v %v: %v", o.ID, o.Items, o.Outcomes, err)
				id := ledger.RunID(fmt.Sprint("b", dice.IntN(6)))
				switch dice.IntN(4) {
				case 0:
					t.Logf("cancel %s: %v", id, i.Ledger.Cancel(t.Context(), "default", id))
				case 1:
					t.Logf("delete %s: %v", id, i.Ledger.Delete(t.Context(), "default", id))
				}
				repeated(t, i.Ledger)
			}

			// Interrupted retries remain as they are: no call completes them.
			fail(rows)
			all, err := i.Ledger.Runs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, child := range all {
				if child.Staged() {
					if err := i.Ledger.Cancel(t.Context(), "default", child.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: "last"}); err != nil &&
				!errors.Is(err, intake.ErrNothingToRetry) {
				if _, retried := errors.AsType[*intake.RetriedError](err); !retried {
					t.Fatal(err)
				}
			}
			if has := repeated(t, i.Ledger); len(has) != rows*2/3 {
				t.Errorf("%d rows are repeated, want %d", len(has), rows*2/3)
			}
		})
	}
}

// repeated returns the rows of all children by the child that has them, each of which is in one.
func repeated(t *testing.T, l *ledger.Ledger) map[string]ledger.RunID {
	t.Helper()
	all, err := l.Runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]ledger.RunID{}
	for _, child := range all {
		if child.Parent == "" || !child.HasAllRows() {
			continue
		}
		for row, err := range l.Each(t.Context(), child, ledger.Every, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if other, twice := has[string(row.Content)]; twice {
				t.Errorf("row %s is in %s and %s", row.Content, other, child.ID)
			}
			has[string(row.Content)] = child.ID
		}
	}
	return has
}

// TestRetryOfManyChosenRows retries 50,000 rows by their numbers, while others of the run are open.
func TestRetryOfManyChosenRows(t *testing.T) {
	rows := redistest.Amount(10_000, 60_000)
	chosen := rows * 5 / 6
	var text strings.Builder
	text.WriteString("organization_id,client_id\n")
	for n := range rows {
		fmt.Fprintf(&text, "o%d,c%d\n", n, n)
	}
	parent := handInAs(t, "a", tasks.TypeRemove, text.String())
	var failed []int64
	for n := range int64(rows - 1) { // the last one stays open
		failed = append(failed, n)
	}
	settleAs(t, parent, "refused", "no", failed...)
	i := taker(t)
	sub, err := i.Retry(t.Context(), parent, intake.RetryOptions{ID: "b", Items: failed[:chosen]})
	if err != nil || sub.Rows != int64(chosen) {
		t.Fatalf("%d rows, %v, want %d", sub.Rows, err, chosen)
	}
	sub, err = i.Retry(t.Context(), parent, intake.RetryOptions{ID: "c"})
	if want := int64(rows - 1 - chosen); err != nil || sub.Rows != want {
		t.Errorf("the others: %d rows, %v, want %d", sub.Rows, err, want)
	}
	if has := repeated(t, i.Ledger); len(has) != rows-1 {
		t.Errorf("%d rows are repeated, want %d", len(has), rows-1)
	}
}
