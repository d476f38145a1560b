package tasks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"orgops/tasks"
)

func TestKinds(t *testing.T) {
	var names []string
	for _, k := range tasks.Kinds() {
		names = append(names, k.Name)
		if got, ok := tasks.KindOf(k.Name); !ok || got.Name != k.Name {
			t.Errorf("kind %s is not found by its name", k.Name)
		}
		if k.WholeObject != (len(k.Columns) == 0) {
			t.Errorf("kind %s: %d columns, whole object %t", k.Name, len(k.Columns), k.WholeObject)
		}
	}
	if got := strings.Join(names, " "); got != "clients:remove domain:update domain:verify template:create" {
		t.Errorf("kinds %s", got)
	}
	if _, ok := tasks.KindOf("domain:confirm"); ok {
		t.Error("a kind that does not exist")
	}
}

func TestParse(t *testing.T) {
	pending := tasks.Defaults{Status: "pending", UseForDiscovery: new(false)}
	for _, test := range []struct {
		name, kind, row string
		defaults        tasks.Defaults
		says            string // of the error; empty: none
	}{
		{"verify", tasks.TypeVerify, domainRow(0), tasks.Defaults{}, ""},
		{"verify, unknown member", tasks.TypeVerify, verifyRow("domain", "x"), tasks.Defaults{}, "domain"},
		{"verify, no organization", tasks.TypeVerify, row("discovery_domain_id", "d"), tasks.Defaults{}, "organization_id"},
		{"verify, no domain", tasks.TypeVerify, row("organization_id", "o"), tasks.Defaults{}, "discovery_domain_id"},
		{"verify, host", tasks.TypeVerify, verifyRow("verification_host", "a b"), tasks.Defaults{}, "verification_host"},
		{"verify, long token", tasks.TypeVerify, verifyRow("verification_txt", strings.Repeat("x", 5000)), tasks.Defaults{}, "verification_txt"},
		{"verify, flag is a text", tasks.TypeVerify, verifyRow("use_for_organization_discovery", "yes"), tasks.Defaults{}, "use_for_organization_discovery"},
		{"update", tasks.TypeUpdate, verifyRow("status", "pending"), tasks.Defaults{}, ""},
		{"update of nothing", tasks.TypeUpdate, verifyRow(), tasks.Defaults{}, "status"},
		{"update by defaults", tasks.TypeUpdate, verifyRow(), pending, ""},
		{"update, unknown status", tasks.TypeUpdate, verifyRow("status", "done"), pending, "done"},
		{"remove", tasks.TypeRemove, clientRow(0), tasks.Defaults{}, ""},
		{"remove, no client", tasks.TypeRemove, row("organization_id", "o"), tasks.Defaults{}, "client_id"},
		{"remove, bad client", tasks.TypeRemove, row("organization_id", "o", "client_id", "a/b"), tasks.Defaults{}, "a/b"},
		{"create", tasks.TypeCreate, template, tasks.Defaults{}, ""},
		{"create, unknown claim", tasks.TypeCreate, strings.Replace(template, "portrait", "shoe_size", 1), tasks.Defaults{}, "shoe_size"},
		{"create, no object", tasks.TypeCreate, `[]`, tasks.Defaults{}, "object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, _ := tasks.KindOf(test.kind)
			_, err := k.Parse(json.RawMessage(test.row), test.defaults)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want it to say %q", err, test.says)
			}
		})
	}
}

// TestParseDefaults: what the row says comes before what the flags say.
func TestParseDefaults(t *testing.T) {
	for _, test := range []struct{ name, row, want string }{
		{"both from the flags", verifyRow(), `"status":"pending","use_for_organization_discovery":false`},
		{"status of the row", verifyRow("status", "verified"), `"status":"verified","use_for_organization_discovery":false`},
		{"flag of the row", verifyRow("use_for_organization_discovery", true), `"status":"pending","use_for_organization_discovery":true`},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, _ := tasks.KindOf(tasks.TypeUpdate)
			r, err := k.Parse(json.RawMessage(test.row), tasks.Defaults{Status: "pending", UseForDiscovery: new(false)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Content()
			if err != nil || !strings.Contains(string(got), test.want) {
				t.Errorf("content %s, %v; want it to have %s", got, err, test.want)
			}
		})
	}
}
