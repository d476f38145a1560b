package deploy

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/web"
)

// secretsIn runs a copy of compose-secrets in an empty directory, with the commands
// that path has.
func secretsIn(t *testing.T, dir, path string) (output string, err error) {
	t.Helper()
	script := filepath.Join(dir, "compose-secrets")
	if err := os.WriteFile(script, []byte(read(t, "compose-secrets")), 0o600); err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	cmd := exec.CommandContext(t.Context(), sh, script)
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestComposeSecrets: worker and intake read the access file that the script writes, by the tokens
// that it made; a second time nothing is made again.
func TestComposeSecrets(t *testing.T) {
	for _, tool := range []string{"openssl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	var made [2]string
	for i := range made {
		if out, err := secretsIn(t, dir, os.Getenv("PATH")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		made[i] = read(t, filepath.Join(dir, "secrets/access"))
	}
	if made[0] != made[1] {
		t.Error("what was there is made again")
	}
	access, err := web.ReadAccess(filepath.Join(dir, "secrets/access"), slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatalf("the access file is not usable: %v", err)
	}
	for name, role := range map[string]web.Role{"operator_token": web.Operator, "intake_token": web.Submitter} {
		u, known := access.User(strings.TrimSpace(read(t, filepath.Join(dir, "secrets", name))))
		if !known || u.Role != role {
			t.Errorf("%s: known %v, role %s; want %s", name, known, u.Role, role)
		}
	}
}

// TestComposeSecretsNeedsItsTools: one that is missing is named, and nothing is made.
func TestComposeSecretsNeedsItsTools(t *testing.T) {
	some := t.TempDir()
	for _, tool := range []string{"dirname", "mkdir", "sha256sum", "tr", "cut", "cat", "chmod"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skip("needs " + tool)
		}
		if err := os.Symlink(path, filepath.Join(some, tool)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	out, err := secretsIn(t, dir, some)
	if err == nil || !strings.Contains(out, "openssl is missing") {
		t.Errorf("error %v, output %q; want openssl named", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "secrets")); err == nil {
		t.Error("secrets were made without it")
	}
}
