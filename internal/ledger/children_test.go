package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"orgops/internal/ledger"
)

// ended submits a run that ends at once.
func (w *worker) ended(id, parent ledger.RunID) ledger.Run {
	w.t.Helper()
	n := ledger.NewRun{ID: id, Tenant: tenant, Kind: kind, Description: ledger.Description{Parent: parent}}
	run, _, err := w.Create(w.t.Context(), n)
	if err == nil {
		run, err = w.Commit(w.t.Context(), run, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *worker) adopt(parent, child ledger.RunID) {
	w.t.Helper()
	if err := w.Adopt(w.t.Context(), w.get(parent), child); err != nil {
		w.t.Fatal(err)
	}
}

func TestAdopt(t *testing.T) {
	w := newWorker(t)
	before := w.ended("a", "")
	w.adopt("a", "b")
	w.adopt("a", "c")
	w.adopt("a", "b")
	if children := w.get("a").Children; !slices.Equal(children, []ledger.RunID{"b", "c"}) {
		t.Errorf("children %q", children)
	}
	if err := w.Adopt(t.Context(), before, "d"); !errors.Is(err, ledger.ErrRaced) {
		t.Errorf("adopt by a run as it was before: %v, want %v", err, ledger.ErrRaced)
	}
	if err := w.Adopt(t.Context(), w.get("a"), "d e"); err == nil {
		t.Error("adopted a run without an id")
	}
	w.submit("open", 1)
	if err := w.Adopt(t.Context(), w.get("open"), "d"); err != nil {
		t.Errorf("adopt by an open run: %v", err)
	}
	had := w.get("a")
	w.rdb.HDel(t.Context(), ledger.HeaderKey(tenant, "a"), "ended_at")
	if err := w.Adopt(t.Context(), had, "d"); !errors.Is(err, ledger.ErrOpen) {
		t.Errorf("adopt by a run whose end is lost: %v, want %v", err, ledger.ErrOpen)
	}
	w.must(w.Cancel, "a") // ends it
	w.must(w.Delete, "a")
	if err := w.Adopt(t.Context(), before, "d"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("adopt by a deleted run: %v, want %v", err, ledger.ErrNotFound)
	}
}

func TestAdoptRefusesMoreThanAThousand(t *testing.T) {
	w := newWorker(t)
	parent := w.ended("a", "")
	for i := range 1000 {
		parent.Children = append(parent.Children, ledger.RunID(fmt.Sprint("child-", i)))
	}
	if err := w.Adopt(t.Context(), parent, "b"); err == nil || errors.Is(err, ledger.ErrRaced) {
		t.Errorf("adopt: %v, want an error", err)
	}
}

// TestDeletedChildLeavesItsParent checks that a deleted child leaves its parent, also if Redis
// has lost the parent's end.
func TestDeletedChildLeavesItsParent(t *testing.T) {
	w := newWorker(t)
	w.ended("a", "")
	for _, id := range []ledger.RunID{"b", "c", "d"} {
		w.adopt("a", id)
		w.ended(id, "a")
	}
	w.must(w.Delete, "c")
	if children := w.get("a").Children; !slices.Equal(children, []ledger.RunID{"b", "d"}) {
		t.Errorf("children %q", children)
	}
	w.rdb.HDel(t.Context(), ledger.HeaderKey(tenant, "a"), "ended_at")
	w.must(w.Delete, "d")
	if children := w.get("a").Children; !slices.Equal(children, []ledger.RunID{"b"}) {
		t.Errorf("children %q", children)
	}
	w.must(w.Cancel, "a") // ends it
	w.must(w.Delete, "a")
	w.must(w.Delete, "b") // the child has no parent any more
}

// TestChildThatIsCreatedAgain interrupts the deletion of a child, and adopts and creates a run
// of the same ID. It remains a child.
func TestChildThatIsCreatedAgain(t *testing.T) {
	w := newWorker(t)
	w.ended("a", "")
	w.adopt("a", "b")
	w.ended("b", "a")
	w.store(ledger.HeaderKey(tenant, "b"), "deleting_at", "1")
	w.adopt("a", "b")
	w.ended("b", "a")
	if children := w.get("a").Children; !slices.Equal(children, []ledger.RunID{"b"}) {
		t.Errorf("children %q", children)
	}
}
