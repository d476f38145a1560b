package intake_test

import (
	"errors"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/tasks"
)

// TestBeginPendingAgain: the same again is one run with one scan; for something else its id
// is taken. A run that is paused, or has ended, is returned as it is.
func TestBeginPendingAgain(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	taker := intake.New(rdb, l)
	begin := func() (run ledger.Run, created bool) {
		t.Helper()
		run, created, err := taker.BeginPending(t.Context(), "", ledger.NewRun{ID: "a", Tenant: "default"})
		if err != nil {
			t.Fatal(err)
		}
		return run, created
	}
	if run, created := begin(); !created || !run.Scanning() || run.Kind != tasks.TypeVerify {
		t.Errorf("created %v, run %+v", created, run)
	}
	if run, created := begin(); created || !run.Scanning() {
		t.Errorf("created %v, run %+v", created, run)
	}
	_, _, err := taker.BeginPending(t.Context(), "org_1", ledger.NewRun{ID: "a", Tenant: "default"})
	if mismatch, ok := errors.AsType[*ledger.MismatchError](err); !ok || mismatch.Member != "content" {
		t.Errorf("%v, want the content refused", err)
	}
	if err := ledgertest.Control(t.Context(), l, (*ledger.Ledger).Pause, "a"); err != nil {
		t.Fatal(err)
	}
	if run, created := begin(); created || !run.Paused {
		t.Errorf("paused: created %v, run %+v", created, run)
	}
	if err := ledgertest.Control(t.Context(), l, (*ledger.Ledger).Resume, "a"); err != nil {
		t.Error(err)
	}
	if err := l.Cancel(t.Context(), "default", "a"); err != nil {
		t.Fatal(err)
	}
	if run, created := begin(); created || run.CancelledAt.IsZero() {
		t.Errorf("cancelled: created %v, run %+v", created, run)
	}
}
