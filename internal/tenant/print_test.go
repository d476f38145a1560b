package tenant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/internal/cli"
	tenants "orgops/internal/tenant"
)

// TestPrint checks the forms of values: those of several kinds, empty ones, and secrets.
func TestPrint(t *testing.T) {
	s := tenants.Default()
	s.BaseURL = "https://acme.example/api/v2"
	s.AuthURL = "https://me:s3cret@acme.example"
	s.TokenURL = "https://acme.example/oauth/token/"
	s.ClientID = "id"
	s.ClientSecretEnv = "SECRET"
	s.Reserve = 12.5
	s.GiveUp = cli.Duration(36 * time.Hour)
	s.Protect = []string{"a.example", "org_1"}
	s.RefuseAliases = true
	if err := s.Complete(func(string) string { return "s3cret" }); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s.Print(&out)
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{
		"tenant default:", "  auth-url: https://me:xxxxx@acme.example", "  client-id: id",
		"  client secret: " + apiclient.Secret{}.String(), "  reserve: 12.5 %", "  give-up: 36h0m0s",
		"  protect: a.example, org_1", "  refuse-aliases: true", "  require-dnssec: false", "  resolver-quorum: 2",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q", want)
		}
	}
	for _, name := range []string{"s3cret", "  token:", "  ca-file:", "  webhooks:", "  sweeps:", "  :", "tenant: "} {
		if strings.Contains(out.String(), name) {
			t.Errorf("%q is printed", name)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
