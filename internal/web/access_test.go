package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/logtest"
	"orgops/internal/web"
)

// tokenOf returns a token that has the form of one: letter, a hexadecimal digit, repeated.
func tokenOf(letter string) string { return "orgops_" + strings.Repeat(letter, 64) }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// accessFile writes an access file.
func accessFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func readAccess(t *testing.T, text string) *web.Access {
	t.Helper()
	access, err := web.ReadAccess(accessFile(t, text), quiet, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// TestNewEntry checks that the file may be made of the printed entries alone.
func TestNewEntry(t *testing.T) {
	users := []web.User{
		{Name: "alice@example.com", Role: web.Operator, Tenants: []string{"*"}},
		{Name: "desk", Role: web.Support, Tenants: []string{"default"}, Organizations: []string{"org_1"}},
		{Name: "crm", Role: web.Submitter, Tenants: []string{"default"}, Kinds: []string{"domain:verify"}, RowsADay: 10},
		{Name: "Jürgen", Role: web.Customer, Tenants: []string{"default"}, Organizations: []string{"org_1", "org_2"}},
	}
	var file strings.Builder
	tokens := map[string]web.User{}
	for _, u := range users {
		token, entry, err := web.NewEntry(u)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(entry, token) {
			t.Errorf("the token of %s is in its entry", u.Name)
		}
		file.WriteString(entry)
		tokens[token] = u
	}
	if len(tokens) != len(users) {
		t.Errorf("%d tokens, want one each", len(tokens))
	}
	access := readAccess(t, file.String())
	for token, want := range tokens {
		got, known := access.User(token)
		if diff := cmp.Diff(want, got); !known || diff != "" {
			t.Errorf("known %v (-want +got):\n%s", known, diff)
		}
		for name, wrong := range map[string]string{"cut": token[:70], "longer": token + "0",
			"in capitals": strings.ToUpper(token), "without its beginning": token[7:], "its hash": hashOf(token),
			"with a line end": token + "\n"} {
			if _, known := access.User(wrong); known {
				t.Errorf("a token %s gets in", name)
			}
		}
	}
	if access.Len() != len(users) {
		t.Errorf("%d entries, want %d", access.Len(), len(users))
	}
}

func TestAccessFile(t *testing.T) {
	entry := func(members string) string {
		return "- {name: a, sha256: " + hashOf(tokenOf("a")) + ", tenants: ['*'], " + members + "}"
	}
	tests := []struct{ name, text, want string }{
		{"nothing", "", "no entries: enqueue access new"},
		{"an empty list", "[]", "no entries"},
		{"an unknown member", entry("role: reader, kind: x"), "line 1: unknown member kind"},
		{"no YAML", "- {", "line 1"},
		{"a map", "access: []", "line 1"},
		{"a second document", entry("role: reader") + "\n---\n", "put all entries into one"},
		{"no name", "- {role: reader}", "line 1: name: want"},
		{"a name with blanks", "- {name: a b, role: reader}", "line 1: name: want"},
		{"the name of everybody", "- {name: anybody, role: reader}", "line 1: name: want"},
		{"no role", "# first\n" + entry(""), "line 2: role: want one of reader, support, operator, submitter, customer"},
		{"an unknown role", entry("role: admin"), `got "admin"`},
		{"the role of everybody", entry("role: anybody"), `role: want one of`},
		{"no tenants", "- {name: a, role: reader}", "tenants: want a list"},
		{"a tenant that is none", "- {name: a, role: reader, tenants: ['A B']}", "tenants: "},
		{"an organization that is none", entry("role: support, organizations: ['a b']"), "organizations: "},
		{"no kinds", entry("role: submitter"), "kinds: want a list"},
		{"an unknown kind", entry("role: submitter, kinds: [x]"), "known kinds: "},
		{"a kind that nobody submits", entry("role: submitter, kinds: [domain:recheck]"), "known kinds: "},
		{"kinds of a reader", entry("role: reader, kinds: [domain:verify]"), "kinds: is only for the roles submitter"},
		{"organizations of an operator", entry("role: operator, organizations: [org_1]"),
			"organizations: is only for the roles"},
		{"rows of an operator", entry("role: operator, rows_a_day: 1"), "rows_a_day: is only for"},
		{"rows below nothing", entry("role: submitter, kinds: ['*'], rows_a_day: -1"), "rows_a_day: want 1 or more"},
		{"a customer of all", entry("role: customer, organizations: ['*']"), "organizations: a customer needs"},
		{"a customer of none", entry("role: customer"), "organizations: a customer needs"},
		{"no hash", "- {name: a, role: reader, tenants: ['*']}", "sha256: want"},
		{"a hash too short", "- {name: a, role: reader, tenants: ['*'], sha256: abcd}", "sha256: want"},
		{"a hash too long", "- {name: a, role: reader, tenants: ['*'], sha256: " + hashOf("x") + "00}", "sha256: want"},
		{"two of a hash", entry("role: reader") + "\n" + entry("role: operator"), "line 2: sha256: another entry"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := accessFile(t, test.text)
			_, err := web.ReadAccess(file, quiet, time.Now)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) ||
				strings.Contains(err.Error(), hashOf(tokenOf("a"))) {
				t.Errorf("error %v, want one with the file and %q, without the hash", err, test.want)
			}
		})
	}
	readAccess(t, `[{"name": "a", "role": "reader", "tenants": ["*"], "sha256": "`+hashOf(tokenOf("a"))+`"}]`) // JSON
}

// TestLimitsOfUsers checks which tenants, organizations and kinds a user may use.
func TestLimitsOfUsers(t *testing.T) {
	limited := web.User{Tenants: []string{"acme"}, Organizations: []string{"org_1"}, Kinds: []string{"domain:verify"}}
	ofATenant := web.User{Tenants: []string{"acme"}}
	ofAnOrganization := web.User{Tenants: []string{"*"}, Organizations: []string{"org_1"}}
	unlimited := web.User{Tenants: []string{"*"}, Kinds: []string{"*"}}
	for _, test := range []struct {
		name string
		may  bool
		want bool
	}{
		{"their tenant", limited.MayTenant("acme"), true},
		{"another tenant", limited.MayTenant("other"), false},
		{"a tenant, with none", web.User{}.MayTenant("acme"), false},
		{"any tenant, with all", unlimited.MayTenant("other"), true},
		{"their organization", limited.MayOrganization("org_1"), true},
		{"another organization", limited.MayOrganization("org_2"), false},
		{"rows without an organization", limited.MayOrganization(""), false},
		{"any organization, without a list", unlimited.MayOrganization("org_2"), true},
		{"their kind", limited.MayKind("domain:verify"), true},
		{"another kind", limited.MayKind("client:remove"), false},
		{"any kind, with all", unlimited.MayKind("client:remove"), true},
		{"everywhere", unlimited.Everywhere(), true},
		{"everywhere, of a tenant", ofATenant.Everywhere(), false},
		{"everywhere, of an organization", ofAnOrganization.Everywhere(), false},
	} {
		if test.may != test.want {
			t.Errorf("%s: %v, want %v", test.name, test.may, test.want)
		}
	}
}

// TestAccessFileChanges checks that a mistake keeps the former entries in force, and that nobody
// gets in by a file that is gone, empty, or anybody's to write.
func TestAccessFileChanges(t *testing.T) {
	now := time.Now()
	changed := now
	line := func(letter string) string {
		return "- {name: " + letter + ", role: reader, tenants: ['*'], sha256: " + hashOf(tokenOf(letter)) + "}\n"
	}
	file := accessFile(t, line("a"))
	var log logtest.Buffer
	access, err := web.ReadAccess(file, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		changed = changed.Add(time.Second)
		if err := os.Chtimes(file, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	later := func() { now = now.Add(time.Second) }
	steps := []struct {
		name string
		do   func()
		want string // the letters of the tokens that get in
	}{
		{"at first", func() {}, "a"},
		{"changed just now", func() { write(line("a") + line("b")) }, "a"},
		{"a while after", later, "ab"},
		{"a mistake", func() { write("- {name: a}"); later() }, "ab"},
		{"no YAML", func() { write("- {"); later() }, "ab"},
		{"another user", func() { write(line("b")); later() }, "b"},
		{"gone", func() { _ = os.Remove(file); later() }, ""},
		{"there again", func() { write(line("a")); later() }, "a"},
		{"nobody in it", func() { write("# nobody\n"); later() }, ""},
		{"then a mistake", func() { write("- {name: a}"); later() }, ""},
		{"there once more", func() { write(line("a")); later() }, "a"},
		{"for everybody to write to", func() { _ = os.Chmod(file, 0o666); later() }, ""},
	}
	for _, step := range steps {
		step.do()
		got := ""
		for _, letter := range []string{"a", "b"} {
			if u, known := access.User(tokenOf(letter)); known && u.Name == letter {
				got += letter
			}
		}
		if got != step.want {
			t.Errorf("%s: %q get in, want %q", step.name, got, step.want)
		}
	}
	if n := strings.Count(log.String(), "nobody has access"); n != 3 {
		t.Errorf("logged %d times that nobody has access, want 3:\n%s", n, log.String())
	}
	if _, err := web.ReadAccess(file, quiet, time.Now); err == nil ||
		!strings.Contains(err.Error(), "every user of this machine can write to it") {
		t.Errorf("a start with a file that everybody may write to: %v", err)
	}
}

// FuzzAccess reads any file.
func FuzzAccess(f *testing.F) {
	for _, text := range []string{"", entries(), "- {", "- {name: a, role: reader, sha256: b}\n", "&a [*a]",
		"a: b", `[{"name":"a"}]`} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "access.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if access, err := web.ReadAccess(file, quiet, time.Now); err == nil && access.Len() == 0 {
			t.Error("no entries, and no error")
		}
	})
}
