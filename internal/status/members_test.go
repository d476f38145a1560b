package status_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/status"
)

// membersOf returns the members of the JSON of a type, those of embedded types too.
func membersOf(of reflect.Type) (names []string) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, membersOf(f.Type)...)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}

// TestMembersOfEachRole lists what a submitter sees of a run, and what readers and operators see
// besides. A member that is added has to be added here too, by somebody who has thought of who
// may see it.
func TestMembersOfEachRole(t *testing.T) {
	submitters := []string{
		"run", "kind", "tenant", "label", "priority", "parent", "caller", "state", "state_text", "rows", "settled", "counts",
		"created_at", "ended_at", "cancelled_at", "not_before", "scan", "idle_since", "undo",
	}
	if diff := cmp.Diff(submitters, membersOf(reflect.TypeFor[status.Run]())); diff != "" {
		t.Errorf("submitters (-want +got):\n%s", diff)
	}
	operators := slices.Concat(submitters, []string{"stuck", "obstacles", "children", "activity", "waiting_for",
		"open_rows", "failed_rows", "failed_by_reason"})
	if diff := cmp.Diff(operators, membersOf(reflect.TypeFor[status.RunDetails]())); diff != "" {
		t.Errorf("operators (-want +got):\n%s", diff)
	}
}
