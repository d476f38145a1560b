package tasks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"orgops/tasks"
)

// TestKinds checks what commands, pages and the intake read of each kind.
func TestKinds(t *testing.T) {
	commands, open := map[string]bool{}, tasks.Kinds()
	for _, k := range tasks.All() {
		if got, ok := tasks.KindOf(k.Name); !ok || got.Command != k.Command {
			t.Errorf("kind %s is not found by its name", k.Name)
		}
		ofItsOwn := k.Name != tasks.TypeRead // an option of that of domain:verify
		if commands[k.Command] || ofItsOwn != (k.Command != "") || k.Label == "" {
			t.Errorf("kind %s: command %q, label %q", k.Name, k.Command, k.Label)
		}
		commands[k.Command] = true
		if k.WholeObject != (len(k.Columns) == 0) ||
			!k.WholeObject && (k.Columns[0].Name != "organization_id" || !k.Columns[1].Required) {
			t.Errorf("kind %s: columns %v, whole object %t", k.Name, k.Columns, k.WholeObject)
		}
		isOpen := slices.ContainsFunc(open, func(o tasks.Kind) bool { return o.Name == k.Name })
		if isOpen != (k.Submitter == tasks.Anyone) || isOpen && ofItsOwn && (k.Help == "" || k.Scopes == nil) {
			t.Errorf("kind %s: %+v", k.Name, k)
		}
	}
	for _, name := range []string{tasks.TypeRecheck, tasks.TypeRevoke} {
		if k, _ := tasks.KindOf(name); k.Submitter == tasks.Anyone {
			t.Errorf("anyone may submit rows of kind %s", name)
		}
	}
	if k, ok := tasks.KindOf("domain:confirm"); ok {
		t.Errorf("kind %s, which does not exist", k.Name)
	}
}

// parse checks a row that is written as JSON.
func parse(t *testing.T, k tasks.Kind, row string, d tasks.Defaults) (tasks.Row, error) {
	t.Helper()
	if k.WholeObject {
		return k.ParseObject(json.RawMessage(row))
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(row), &members); err != nil {
		t.Fatal(err)
	}
	values := make([]string, len(k.Columns))
	for i, column := range k.Columns {
		if value, ok := members[column.Name]; ok {
			values[i] = fmt.Sprint(value)
		}
	}
	return k.Parse(values, d)
}

// TestParse checks rows of each kind, good ones and bad ones.
func TestParse(t *testing.T) {
	good, bad := map[string]bool{}, map[string]bool{}
	pending := tasks.Defaults{"status": "pending", "use_for_organization_discovery": "false"}
	for _, test := range []struct {
		name, kind, row string
		defaults        tasks.Defaults
		says            string // of the error; empty: none
	}{
		{"verify", tasks.TypeVerify, domainRow(0), tasks.Defaults{}, ""},
		{"verify, no organization", tasks.TypeVerify, row("discovery_domain_id", "d"), tasks.Defaults{}, "organization_id"},
		{"verify, no domain", tasks.TypeVerify, row("organization_id", "o"), tasks.Defaults{}, "discovery_domain_id"},
		{"verify, host", tasks.TypeVerify, verifyRow("verification_host", "a b"), tasks.Defaults{}, "verification_host"},
		{"verify, long token", tasks.TypeVerify, verifyRow("verification_txt", strings.Repeat("x", 5000)),
			tasks.Defaults{}, "verification_txt"},
		{"verify, trailing blank", tasks.TypeVerify, verifyRow("verification_txt", "0f12 "), tasks.Defaults{},
			`verification_txt: "0f12 " has blanks or invisible characters around it: give the token without`},
		{"verify, no-break space", tasks.TypeVerify, verifyRow("verification_txt", "\u00a00f12"), tasks.Defaults{}, "blanks"},
		{"verify, byte order mark", tasks.TypeVerify, verifyRow("verification_txt", "\ufeff0f12"),
			tasks.Defaults{}, "blanks"},
		{"verify, only a blank", tasks.TypeVerify, verifyRow("verification_txt", " "), tasks.Defaults{}, "blanks"},
		{"verify, quoted", tasks.TypeVerify, verifyRow("verification_txt", `"0f12"`), tasks.Defaults{},
			"is in quotation marks: give the token without"},
		{"verify, in typographic quotes", tasks.TypeVerify, verifyRow("verification_txt", "“0f12”"), tasks.Defaults{},
			"quotation marks"},
		{"verify, number", tasks.TypeVerify, verifyRow("verification_txt", "1.23457E+31"), tasks.Defaults{},
			`"1.23457E+31" is a number as a spreadsheet shortens it: format the column as text`},
		{"verify, number with a comma", tasks.TypeVerify, verifyRow("verification_txt", "1,23457E+31"), tasks.Defaults{},
			"spreadsheet"},
		{"verify, digits", tasks.TypeVerify, verifyRow("verification_txt", "12345678901234567890123456789012"),
			tasks.Defaults{}, ""},
		{"verify, digits and an e", tasks.TypeVerify, verifyRow("verification_txt", "1e345678901234567890123456789012"),
			tasks.Defaults{}, ""},
		{"verify, name and value", tasks.TypeVerify, verifyRow("verification_txt", "name=a value+1e+3"),
			tasks.Defaults{}, ""},
		{"verify, one quotation mark", tasks.TypeVerify, verifyRow("verification_txt", `a"`), tasks.Defaults{}, ""},
		{"verify by name", tasks.TypeVerify, row("organization_id", "o", "domain", "Bücher.Example."),
			tasks.Defaults{}, ""},
		{"verify by name alone", tasks.TypeVerify, row("domain", "acme.example"), tasks.Defaults{}, ""},
		{"verify by name, in the id's place", tasks.TypeVerify,
			row("organization_id", "o", "discovery_domain_id", "acme.example"), tasks.Defaults{}, ""},
		{"verify by id and name", tasks.TypeVerify, verifyRow("domain", "acme.example"), tasks.Defaults{}, ""},
		{"verify by name, id without organization", tasks.TypeVerify,
			row("discovery_domain_id", "d", "domain", "acme.example"), tasks.Defaults{}, "organization_id"},
		{"verify, wildcard", tasks.TypeVerify, row("domain", "*.acme.example"), tasks.Defaults{}, `"*"`},
		{"verify, empty label", tasks.TypeVerify, row("domain", "acme..example"), tasks.Defaults{}, "acme..example"},
		{"verify, long label", tasks.TypeVerify, row("domain", strings.Repeat("a", 64)+".example"), tasks.Defaults{}, "aaaa"},
		{"verify, long name", tasks.TypeVerify, row("domain", strings.Repeat("a.", 130)+"example"), tasks.Defaults{}, "a.a."},
		{"verify, public suffix", tasks.TypeVerify, row("domain", "co.uk"), tasks.Defaults{}, "public suffix"},
		{"verify, address", tasks.TypeVerify, row("domain", "192.0.2.1"), tasks.Defaults{}, "192.0.2.1"},
		{"verify, URL", tasks.TypeVerify, row("domain", "https://acme.example/"), tasks.Defaults{}, "acme.example"},
		{"read", tasks.TypeRead, domainRow(0), tasks.Defaults{}, ""},
		{"read, no domain", tasks.TypeRead, row("organization_id", "o"), tasks.Defaults{}, "discovery_domain_id"},
		{"recheck", tasks.TypeRecheck, domainRow(0), tasks.Defaults{}, ""},
		{"recheck, no domain", tasks.TypeRecheck, row("organization_id", "o"), tasks.Defaults{}, "discovery_domain_id"},
		{"revoke", tasks.TypeRevoke, domainRow(0), tasks.Defaults{}, ""},
		{"revoke, no organization", tasks.TypeRevoke, row("discovery_domain_id", "d"), tasks.Defaults{}, "organization_id"},
		{"update", tasks.TypeUpdate, verifyRow("status", "pending"), tasks.Defaults{}, ""},
		{"update of nothing", tasks.TypeUpdate, verifyRow(), tasks.Defaults{}, "status"},
		{"update by defaults", tasks.TypeUpdate, verifyRow(), pending, ""},
		{"update, unknown status", tasks.TypeUpdate, verifyRow("status", "done"), pending, "done"},
		{"remove", tasks.TypeRemove, clientRow(0), tasks.Defaults{}, ""},
		{"remove, with the setting", tasks.TypeRemove, row("organization_id", "o", "client_id", "c", "use_for_member_access",
			"false"), tasks.Defaults{}, ""},
		{"remove, no client", tasks.TypeRemove, row("organization_id", "o"), tasks.Defaults{}, "client_id"},
		{"remove, bad client", tasks.TypeRemove, row("organization_id", "o", "client_id", "a/b"), tasks.Defaults{}, "a/b"},
		{"create", tasks.TypeCreate, template, tasks.Defaults{}, ""},
		{"create, unknown claim", tasks.TypeCreate, strings.Replace(template, "portrait", "shoe_size", 1),
			tasks.Defaults{}, "shoe_size"},
		{"create, no object", tasks.TypeCreate, `[]`, tasks.Defaults{}, "object"},
	} {
		good[test.kind] = good[test.kind] || test.says == ""
		bad[test.kind] = bad[test.kind] || test.says != ""
		t.Run(test.name, func(t *testing.T) {
			k, _ := tasks.KindOf(test.kind)
			_, err := parse(t, k, test.row, test.defaults)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want it to say %q", err, test.says)
			}
		})
	}
	for _, kind := range tasks.All() {
		if !good[kind.Name] || !bad[kind.Name] {
			t.Errorf("%s: a good row here: %t, a bad one: %t; add them", kind.Name, good[kind.Name], bad[kind.Name])
		}
	}
}

// TestContentAsJSON: what is written in the short way is what encoding/json writes, of every
// byte.
func TestContentAsJSON(t *testing.T) {
	texts := []string{"é", "a b", strings.Repeat("x", 300)}
	for c := byte(1); c < 128; c++ {
		texts = append(texts, "x"+string(rune(c))+"x")
	}
	k, _ := tasks.KindOf(tasks.TypeVerify)
	for _, txt := range texts {
		r, err := k.Parse([]string{"o", "d", "", "", txt, ""}, tasks.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(txt)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Content()
		if whole := `{"organization_id":"o","discovery_domain_id":"d","verification_txt":` + string(want) + `}`; err != nil ||
			string(got) != whole {
			t.Errorf("%s, %v, want %s", got, err, whole)
		}
	}
}
