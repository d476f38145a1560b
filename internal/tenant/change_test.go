package tenant_test

import (
	"os"
	"path/filepath"
	"testing"

	tenants "orgops/internal/tenant"
)

// TestSame: settings that are read again are the same unless a member or a file that is read only
// once has changed.
func TestSame(t *testing.T) {
	hooks, secret := filepath.Join(t.TempDir(), "hooks.yaml"), filepath.Join(t.TempDir(), "secret")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(string) string { return "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" }
	read := func(change func(*tenants.Settings)) tenants.Settings {
		t.Helper()
		s := tenants.Default()
		s.BaseURL, s.ClientID, s.ClientSecretFile, s.Webhooks, s.Sweep = "https://acme.example/api/v2",
			"id", secret, hooks, "@daily"
		if change != nil {
			change(&s)
		}
		if err := s.Complete(env); err != nil {
			t.Fatal(err)
		}
		return s
	}
	const endpoints = "endpoints:\n  - {name: crm, url: \"https://crm.example/\", secret_env: HOOK}\n"
	write(hooks, endpoints)
	write(secret, "one")
	first := read(nil)
	for name, tt := range map[string]struct {
		change func(*tenants.Settings)
		files  func()
		want   bool
	}{
		"nothing":                {want: true},
		"the secret":             {files: func() { write(secret, "two") }, want: true},
		"a default, spelled out": {change: func(s *tenants.Settings) { s.AuthURL = "https://acme.example" }, want: true},
		"the rate":               {change: func(s *tenants.Settings) { s.Rate = "3/s" }},
		"a list":                 {change: func(s *tenants.Settings) { s.Protect = []string{"acme.example"} }},
		"the endpoints":          {files: func() { write(hooks, endpoints+"# a comment") }},
	} {
		if tt.files != nil {
			tt.files()
		}
		if got := first.Same(read(tt.change)); got != tt.want {
			t.Errorf("%s has changed: the same is %t, want %t", name, got, tt.want)
		}
		write(hooks, endpoints)
	}
}
