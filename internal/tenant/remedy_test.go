package tenant_test

import (
	"strings"
	"testing"

	"orgops/apiclient"
	"orgops/internal/tenant"
)

// TestRemedyOfACredential checks that a person is told which file or variable to correct, whether
// the workers have to be started again, and nothing of the secret.
func TestRemedyOfACredential(t *testing.T) {
	secret := apiclient.NewSecret("hidden")
	for name, c := range map[string]struct {
		settings tenant.Settings
		has      []string
		restart  bool
	}{
		"a file": {tenant.Settings{ClientID: "abc", ClientSecretFile: "/run/secret"},
			[]string{"client abc", "/run/secret"}, false},
		"a key": {tenant.Settings{ClientID: "abc", ClientKeyFile: "/run/key"}, []string{"client abc", "/run/key"}, false},
		"a variable": {tenant.Settings{ClientID: "abc", ClientSecretEnv: "ACME_SECRET",
			Derived: tenant.Derived{Secret: secret}}, []string{"client abc", "ACME_SECRET"}, true},
		"a copy of systemd's": {tenant.Settings{ClientID: "abc", ClientSecretFile: "/run/credentials/x/secret"},
			[]string{"client abc", "/run/credentials/x/secret", "restart the worker"}, false},
		"a token file": {tenant.Settings{TokenFile: "/run/token"}, []string{"/run/token"}, false},
		"a token": {tenant.Settings{TokenEnv: "ACME_TOKEN", Derived: tenant.Derived{Token: secret}},
			[]string{"ACME_TOKEN"}, true},
	} {
		c.settings.Audience = "https://acme.example/api/v2/"
		got := c.settings.Remedy(apiclient.FaultOfToken)
		for _, part := range append(c.has, c.settings.Audience) {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q lacks %q", name, got, part)
			}
		}
		if restart := strings.Contains(got, "start the workers again"); restart != c.restart {
			t.Errorf("%s: %q, want a restart: %t", name, got, c.restart)
		}
		if strings.Contains(got, "hidden") {
			t.Errorf("%s: %q has the secret", name, got)
		}
	}
}

// TestRemedyOfEachFault checks that no fault that blocks has the general remedy.
func TestRemedyOfEachFault(t *testing.T) {
	settings := tenant.Settings{ClientID: "abc"}
	general := settings.Remedy(apiclient.FaultPassing)
	seen := map[string]apiclient.Fault{general: apiclient.FaultPassing}
	for _, fault := range []apiclient.Fault{
		apiclient.FaultOfToken, apiclient.FaultOfScope, apiclient.FaultOfOperation, apiclient.FaultOfTenant,
		apiclient.FaultOfEndpoint, apiclient.FaultOfCertificate, apiclient.FaultOfProxy,
	} {
		fix := settings.Remedy(fault)
		if other, known := seen[fix]; known {
			t.Errorf("%s and %s have the same remedy: %q", fault, other, fix)
		}
		seen[fix] = fault
	}
}
