package results_test

import (
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/tasks"
)

// TestCanRetry checks that pages offer a retry of no row that would end in the same way again, or
// that was chosen by what was true then.
func TestCanRetry(t *testing.T) {
	verified := ledger.Run{ID: "a", Kind: tasks.TypeVerify, CommittedAt: time.Now()}
	swept := verified
	swept.Kind = tasks.TypeRecheck
	if results.CanRetry(swept, ledger.Refused) || !results.CanRetry(verified, ledger.Refused) {
		t.Error("a page offers a retry of refused records of a sweep, or none of other refused rows")
	}
	undoing := verified
	undoing.Undoes = "earlier"
	if results.CanRetry(undoing, ledger.Failed) || results.NotRetried(undoing, ledger.Failed) == nil {
		t.Error("a page offers a retry of a run that undoes another")
	}
}

// TestMayRetryClaimed checks that a row which a child has claimed is left to that child, also if
// the child was adopted after the run was read.
func TestMayRetryClaimed(t *testing.T) {
	run := ledger.Run{ID: "a", Kind: tasks.TypeVerify, CommittedAt: time.Now()}
	row := ledger.RowState{Result: ledger.Result{Outcome: ledger.Failed}}
	if may, by := results.MayRetry(run, row); !may || by.ID != "" {
		t.Errorf("a failed row: %v, by %q; want that it may be", may, by.ID)
	}
	row.ClaimedBy = 1
	if may, _ := results.MayRetry(run, row); may {
		t.Error("a claimed row may be submitted again")
	}
}
