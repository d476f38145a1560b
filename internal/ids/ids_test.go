package ids_test

import (
	"strings"
	"testing"

	"orgops/internal/ids"
)

// TestForms checks the forms at their bounds, and what an error says.
func TestForms(t *testing.T) {
	const (
		run    = `run: want 1 to 64 letters, digits, _ or -, got `
		tenant = `tenant: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got `
	)
	for _, tt := range []struct {
		name  string
		check func(string) error
		text  string
		want  string // empty: it has the form
	}{
		{"a run", ids.CheckRun, "Nightly_2026-11", ""},
		{"the shortest run", ids.CheckRun, "-", ""},
		{"the longest run", ids.CheckRun, strings.Repeat("Z", 64), ""},
		{"no run", ids.CheckRun, "", run + `""`},
		{"a run too long", ids.CheckRun, strings.Repeat("z", 65), run},
		{"a run of a book", ids.CheckRun, strings.Repeat("z", 5000), run},
		{"a run with a dot", ids.CheckRun, "a.b", run + `"a.b"`},
		{"a run with braces", ids.CheckRun, "{a}", run + `"{a}"`},
		{"a tenant with a dot", ids.CheckTenant, "a.b", tenant + `"a.b"`},
		{"a tenant with a line", ids.CheckTenant, "a\n", tenant + `"a\n"`},
		{"a run with a line", ids.CheckRun, "a\n", run + `"a\n"`},
		{"a run with a letter outside ASCII", ids.CheckRun, "ü", run},
		{"a tenant", ids.CheckTenant, "acme_2-eu", ""},
		{"the longest tenant", ids.CheckTenant, strings.Repeat("9", 32), ""},
		{"no tenant", ids.CheckTenant, "", tenant + `""`},
		{"a tenant too long", ids.CheckTenant, strings.Repeat("a", 33), tenant},
		{"a tenant in upper case", ids.CheckTenant, "Acme", tenant + `"Acme"`},
		{"a tenant that begins with a hyphen", ids.CheckTenant, "-acme", tenant + `"-acme"`},
		{"a tenant that begins with an underscore", ids.CheckTenant, "_acme", tenant + `"_acme"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.check(tt.text); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
			}
			if len(got) > 300 {
				t.Errorf("the error repeats %d bytes of what was given", len(got))
			}
		})
	}
}
