package ledger_test

import (
	"testing"

	"orgops/internal/ledger"
)

// TestRunIsListedAgain loses the lists of runs and of tenants after a commit. Verify,
// Sync and each control restore them.
func TestRunIsListedAgain(t *testing.T) {
	for _, by := range []string{"verify", "sync", "pause"} {
		t.Run(by, func(t *testing.T) {
			w := newWorker(t)
			saved := remember(t, w.rdb)
			s := w.fill(w.create("a"), content(0, 3))
			w.commit(s)
			saved.restore(t, w.rdb, "tenant")
			switch by {
			case "verify":
				if err := s.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
			case "sync":
				w.sync("a")
			default:
				w.must(w.Pause, "a")
			}
			open, err := w.OpenRuns(t.Context(), tenant)
			if err != nil || len(open) != 1 {
				t.Errorf("open runs %v, %v: want the run", open, err)
			}
			tenants, err := w.Tenants(t.Context())
			if err != nil || len(tenants) != 1 || tenants[0] != tenant {
				t.Errorf("tenants %v, %v: want %s", tenants, err, tenant)
			}
		})
	}
}

// TestFinishedRunIsNotListedAsOpen adds a run to the lists that was finished meanwhile.
func TestFinishedRunIsNotListedAsOpen(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1)
	w.settleAll(segment(run, 0))
	early := remember(t, w.rdb)
	w.must(w.Finish, "a")
	early.restore(t, w.rdb, "{run:a}") // as Create has read it
	if _, _, err := w.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind}); err != nil {
		t.Fatal(err)
	}
	open, err := w.OpenRuns(t.Context(), tenant)
	if err != nil || len(open) != 0 {
		t.Errorf("open runs %v, %v: want none", open, err)
	}
}

// TestCommitKeepsControl commits a run again whose header was lost back to before the
// commit. The pause that its segments have wins.
func TestCommitKeepsControl(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	saved := remember(t, w.rdb)
	run := w.commit(s)
	w.must(w.Pause, "a")
	saved.restore(t, w.rdb, "{run:a}")
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.get("a").Control.Paused {
		t.Error("the run is not paused any more")
	}
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) != 0 {
		t.Errorf("released %v, want none", rows)
	}
}
