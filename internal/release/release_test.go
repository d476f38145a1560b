package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/obstacle"
	"orgops/internal/release"
)

// TestWork: the work of a scan has a cost, and no operations that are known.
func TestWork(t *testing.T) {
	for _, test := range []struct {
		name string
		kind release.Kind
		want []obstacle.Work // of rows that are ready, to be checked, and never released
	}{
		{"a scan", release.Kind{Cost: release.Cost{First: 1}}, []obstacle.Work{{}, {}, {Requests: true}}},
		{"a check by DNS", release.Kind{Operations: release.Operations{Ready: []string{"update"}}},
			[]obstacle.Work{{Operations: []string{"update"}, Requests: true}, {}, {}}},
		{"a change", release.Kind{Operations: release.Always("update")}, []obstacle.Work{
			{Operations: []string{"update"}, Requests: true},
			{Operations: []string{"update"}, Requests: true},
			{Operations: []string{"update"}, Requests: true},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.kind.Work()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
