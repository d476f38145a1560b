package ledger_test

import (
	"errors"
	"fmt"
	"maps"
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
	if _, err := w.Adopt(w.t.Context(), w.get(parent), child); err != nil {
		w.t.Fatal(err)
	}
}

// childrenOf returns the ids of the children of a run, by their numbers.
func (w *worker) childrenOf(id ledger.RunID) map[int]ledger.RunID {
	all := map[int]ledger.RunID{}
	for _, child := range w.get(id).Children {
		all[child.Number] = child.ID
	}
	return all
}

func TestAdopt(t *testing.T) {
	w := newWorker(t)
	before := w.ended("a", "")
	w.adopt("a", "b")
	w.adopt("a", "c")
	w.adopt("a", "b")
	if children := w.childrenOf("a"); !maps.Equal(children, map[int]ledger.RunID{1: "b", 2: "c"}) {
		t.Errorf("children %v", children)
	}
	if _, err := w.Adopt(t.Context(), before, "d"); !errors.Is(err, ledger.ErrRaced) {
		t.Errorf("adopt by a run as it was before: %v, want %v", err, ledger.ErrRaced)
	}
	if _, err := w.Adopt(t.Context(), w.get("a"), "d e"); err == nil {
		t.Error("adopted a run without an id")
	}
	w.submit("open", 1)
	if _, err := w.Adopt(t.Context(), w.get("open"), "d"); err != nil {
		t.Errorf("adopt by an open run: %v", err)
	}
	had := w.get("a")
	w.rdb.HDel(t.Context(), ledger.HeaderKey(tenant, "a"), "ended_at")
	if _, err := w.Adopt(t.Context(), had, "d"); !errors.Is(err, ledger.ErrOpen) {
		t.Errorf("adopt by a run whose end is lost: %v, want %v", err, ledger.ErrOpen)
	}
	w.must(w.Cancel, "a") // ends it
	w.must(w.Delete, "a")
	if _, err := w.Adopt(t.Context(), before, "d"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("adopt by a deleted run: %v, want %v", err, ledger.ErrNotFound)
	}
}

func TestAdoptRefusesMoreThanAThousand(t *testing.T) {
	w := newWorker(t)
	parent := w.ended("a", "")
	for i := range 1000 {
		parent.Children = append(parent.Children, ledger.Child{ID: ledger.RunID(fmt.Sprint("child-", i)), Number: i + 1})
	}
	if _, err := w.Adopt(t.Context(), parent, "b"); err == nil || errors.Is(err, ledger.ErrRaced) {
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
	if children := w.childrenOf("a"); !maps.Equal(children, map[int]ledger.RunID{1: "b", 3: "d"}) {
		t.Errorf("children %v", children)
	}
	w.rdb.HDel(t.Context(), ledger.HeaderKey(tenant, "a"), "ended_at")
	w.must(w.Delete, "d")
	w.adopt("a", "d") // is another run, with another number
	if children := w.childrenOf("a"); !maps.Equal(children, map[int]ledger.RunID{1: "b", 4: "d"}) {
		t.Errorf("children %v", children)
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
	if children := w.childrenOf("a"); !maps.Equal(children, map[int]ledger.RunID{1: "b"}) {
		t.Errorf("children %v", children)
	}
}

// claimant adopts and creates a child of a run, which may have rows.
func (w *worker) claimant(parent, id ledger.RunID) (child ledger.Run, number int) {
	w.t.Helper()
	from, err := w.Adopt(w.t.Context(), w.get(parent), id)
	if err == nil {
		child, _, err = w.Create(w.t.Context(), ledger.NewRun{ID: id, Tenant: tenant, Kind: kind,
			Description: ledger.Description{Parent: parent}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	adopted, _ := from.ChildOf(id)
	return child, adopted.Number
}

// claim has a child claim rows, and returns which of them it has.
func (w *worker) claim(parent ledger.RunID, child ledger.Run, number int, claims ...ledger.Claim) []bool {
	w.t.Helper()
	granted, err := w.Claim(w.t.Context(), segment(w.get(parent), 0), child, number, claims)
	if err != nil {
		w.t.Fatal(err)
	}
	return granted
}

// settledRows submits a run of so many rows, and settles all but the last one.
func (w *worker) settledRows(id ledger.RunID, n int) ledger.Run {
	w.t.Helper()
	run := w.submit(id, n)
	for range n - 1 {
		execution, row := w.take(segment(run, 0))
		w.settle(segment(run, 0), execution, row)
	}
	return run
}

// TestClaim has two children claim the rows of their parent: each row has one of them.
func TestClaim(t *testing.T) {
	w := newWorker(t)
	w.settledRows("a", 4)
	b, first := w.claimant("a", "b")
	c, second := w.claimant("a", "c")
	if got := w.claim("a", b, first, ledger.Claim{Row: 0}, ledger.Claim{Row: 1}); slices.Contains(got, false) {
		t.Errorf("b has %v, want both", got)
	}
	for range 2 { // the second is a repetition
		got := w.claim("a", c, second, ledger.Claim{Row: 1}, ledger.Claim{Row: 2}, ledger.Claim{Row: 3})
		if want := []bool{false, true, false}; !slices.Equal(got, want) { // row 3 is open
			t.Errorf("c has %v, want %v", got, want)
		}
	}
	var by []int
	for row, err := range w.Each(t.Context(), w.get("a"), ledger.Every, 0) {
		if err != nil {
			t.Fatal(err)
		}
		by = append(by, row.ClaimedBy)
	}
	if want := []int{first, first, second, 0}; !slices.Equal(by, want) {
		t.Errorf("rows are claimed by %v, want %v", by, want)
	}

	// Claims of a child that was deleted do not count for the next.
	w.must(w.Delete, "b")
	before := w.get("a")
	d, third := w.claimant("a", "d")
	got := w.claim("a", d, third,
		ledger.Claim{Row: 0, Former: first}, ledger.Claim{Row: 1}, ledger.Claim{Row: 2, Former: first})
	if want := []bool{true, false, false}; !slices.Equal(got, want) {
		t.Errorf("d has %v, want %v", got, want)
	}

	// A run knows its children as they were when it was read.
	for _, tt := range []struct {
		run     ledger.Run
		number  int
		by      ledger.RunID
		claimed bool
	}{
		{w.get("a"), 0, "", false},
		{w.get("a"), first, "", false},
		{w.get("a"), third, "d", true},
		{before, third, "", true},
	} {
		by, claimed := tt.run.Claimed(ledger.RowState{ClaimedBy: tt.number})
		if by.ID != tt.by || claimed != tt.claimed {
			t.Errorf("a row of %d is claimed by %v, %v, want %q, %v", tt.number, by, claimed, tt.by, tt.claimed)
		}
	}
}

// TestClaimOfManyRows claims rows of both bytes of a child's number, by more than one script.
func TestClaimOfManyRows(t *testing.T) {
	w := newWorker(t)
	const rows = 2500
	run := w.submit("a", rows)
	w.settleAll(segment(run, 0))
	child, _ := w.claimant("a", "b")
	var claims []ledger.Claim
	for row := range rows {
		claims = append(claims, ledger.Claim{Row: ledger.Row(row)})
	}
	if granted := w.claim("a", child, 0x1234, claims...); len(granted) != rows || slices.Contains(granted, false) {
		t.Errorf("%d rows, some of them not granted", len(granted))
	}
	for row, err := range w.Each(t.Context(), w.get("a"), ledger.Every, 0) {
		if err != nil || row.ClaimedBy != 0x1234 {
			t.Fatalf("row %d is claimed by %x, %v", row.Item, row.ClaimedBy, err)
		}
	}
}

// TestClaimIsRefused claims rows for a child that is deleted, cancelled, or committed, and of a run
// that was deleted: none leaves a key.
func TestClaimIsRefused(t *testing.T) {
	w := newWorker(t)
	w.settledRows("a", 2)
	claim := func(child ledger.Run, number int) error {
		_, err := w.Claim(t.Context(), segment(w.get("a"), 0), child, number, []ledger.Claim{{Row: 0}})
		return err
	}
	deleted, number := w.claimant("a", "b")
	w.must(w.Delete, "b")
	if err := claim(deleted, number); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("claim for a deleted child: %v, want %v", err, ledger.ErrNotFound)
	}
	cancelled, number := w.claimant("a", "c")
	w.must(w.Cancel, "c")
	if err := claim(cancelled, number); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("claim for a cancelled child: %v, want %v", err, ledger.ErrEnded)
	}
	for row, err := range w.Each(t.Context(), w.get("a"), ledger.Every, 0) {
		if err != nil || row.ClaimedBy != 0 {
			t.Errorf("row %d is claimed by %d, %v", row.Item, row.ClaimedBy, err)
		}
	}
	if children := w.childrenOf("a"); len(children) > 0 {
		t.Errorf("children %v, want none: they were deleted, or cancelled without rows", children)
	}
}

// TestChildHasAsManyRowsAsItClaimed commits a child whose claim Redis has lost.
func TestChildHasAsManyRowsAsItClaimed(t *testing.T) {
	w := newWorker(t)
	w.settledRows("a", 3)
	child, number := w.claimant("a", "b")
	w.claim("a", child, number, ledger.Claim{Row: 0})
	sum, err := w.Stage(t.Context(), child, 0, content(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), child, []ledger.Sum{sum}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("two rows of which one is claimed: %v, want %v", err, ledger.ErrLost)
	}
	w.claim("a", child, number, ledger.Claim{Row: 0}, ledger.Claim{Row: 1})
	if committed, err := w.Commit(t.Context(), child, []ledger.Sum{sum}); err != nil || committed.Rows != 2 {
		t.Errorf("committed %+v, %v", committed, err)
	}
}

// TestDeletedChildKeepsItsClaims deletes a child whose rows were carried out: no other child claims
// them, which would carry them out once more.
func TestDeletedChildKeepsItsClaims(t *testing.T) {
	w := newWorker(t)
	w.settledRows("a", 3)
	child, number := w.claimant("a", "b")
	w.claim("a", child, number, ledger.Claim{Row: 0})
	sum, err := w.Stage(t.Context(), child, 0, content(0, 1))
	if err == nil {
		child, err = w.Commit(t.Context(), child, []ledger.Sum{sum})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.settleAll(segment(child, 0))
	w.must(w.Delete, "b")
	parent := w.get("a")
	by, claimed := parent.Claimed(ledger.RowState{ClaimedBy: number})
	if by.ID != "" || !claimed || !parent.Knows(by.Number) || len(parent.Children) > 0 {
		t.Errorf("the row is claimed by %v, %v, and the children are %v", by, claimed, parent.Children)
	}
	c, second := w.claimant("a", "c")
	if second != 2 {
		t.Errorf("the next child has number %d, want 2", second)
	}
	if granted := w.claim("a", c, second, ledger.Claim{Row: 0}, ledger.Claim{Row: 1}); granted[0] || !granted[1] {
		t.Errorf("c has %v, want the row that b has not claimed", granted)
	}
}
