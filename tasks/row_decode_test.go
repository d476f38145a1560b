package tasks_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/tasks"
)

func TestRowsThatAreDecodedTheShortWay(t *testing.T) {
	tests := []struct {
		name, object string
		plain        bool
	}{
		{"two ids", `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`, true},
		{"everything", `{"organization_id":"org|1","discovery_domain_id":"o","verification_host":"h.example","verification_txt":"v=<&>","use_for_organization_discovery":false}`, true},
		{"empty text", `{"organization_id":"","use_for_organization_discovery":true}`, true},
		{"a member twice", `{"organization_id":"a","organization_id":"b"}`, true},
		{"no member", `{}`, false},
		{"blanks", `{ "organization_id":"a"}`, false},
		{"an escape", `{"organization_id":"\u0061"}`, false},
		{"beyond ASCII", `{"organization_id":"é"}`, false},
		{"a control character", "{\"organization_id\":\"\t\"}", false},
		{"a name in capitals", `{"ORGANIZATION_ID":"a"}`, false},
		{"an unknown name", `{"other":"a"}`, false},
		{"null", `{"use_for_organization_discovery":null}`, false},
		{"another type", `{"organization_id":1}`, false},
		{"text for a boolean", `{"use_for_organization_discovery":"true"}`, false},
		{"a comma too many", `{"organization_id":"a",}`, false},
		{"more after the object", `{"organization_id":"a"}}`, false},
		{"no object", `}`, false},
		{"cut short", `{"organization_id":"a"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, plain := tasks.PlainRow(tt.object); plain != tt.plain {
				t.Errorf("decoded the short way: %t, want %t", plain, tt.plain)
			}
			sameBothWays(t, tt.object)
		})
	}
}

// sameBothWays holds that what is decoded the short way is what encoding/json
// makes of it.
func sameBothWays(t *testing.T, object string) {
	t.Helper()
	got, plain := tasks.PlainRow(object)
	if !plain {
		return
	}
	want, err := tasks.StrictRow(object)
	if err != nil {
		t.Fatalf("%q was decoded, though %v", object, err)
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", object, diff)
	}
}

func FuzzRowsDecodeTheSameBothWays(f *testing.F) {
	f.Add(`{"organization_id":"org_1","discovery_domain_id":"ord_1","use_for_organization_discovery":true}`)
	f.Add(`{"verification_txt":"v=\"1\"","organization_id":"a","organization_id":"b"}`)
	f.Fuzz(func(t *testing.T, object string) { sameBothWays(t, object) })
}
