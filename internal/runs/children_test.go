package runs_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/runs"
)

func TestChildren(t *testing.T) {
	l, rdb := newLedger(t)
	create(t, l, "parent")
	if err := l.Adopt(t.Context(), get(t, l, "parent"), "a"); !errors.Is(err, runs.ErrOpen) {
		t.Errorf("of a run that is open: %v", err)
	}
	seal(t, l, "parent", 0)
	before := get(t, l, "parent")
	for range 2 { // the second time it has it already
		if err := l.Adopt(t.Context(), get(t, l, "parent"), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Adopt(t.Context(), before, "b"); !errors.Is(err, runs.ErrRaced) {
		t.Errorf("of a run that has another child since: %v", err)
	}
	if err := l.Adopt(t.Context(), get(t, l, "parent"), "b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, get(t, l, "parent").Children); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	if err := l.Adopt(t.Context(), runs.Run{ID: "none"}, "a"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	if left := rdb.TTL(t.Context(), "orgops:v1:{run:parent}:run").Val(); left <= 0 || left > runs.Retention {
		t.Errorf("the parent is forgotten in %v", left)
	}

	// A child that is deleted is none any more, whether its parent is there or not.
	for _, id := range []string{"a", "b"} {
		if _, _, err := l.Create(t.Context(), runs.Run{ID: id, Kind: kind, Tenant: "default", Parent: "parent"}); err != nil {
			t.Fatal(err)
		}
		seal(t, l, id, 0)
	}
	if err := l.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, get(t, l, "parent").Children); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	for _, id := range []string{"parent", "b"} {
		if err := l.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
