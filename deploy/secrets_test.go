package deploy

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"orgops/internal/console"
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

// TestComposeSecrets: the worker reads the users that the script writes, by the
// password that is told; a second time nothing is made again.
func TestComposeSecrets(t *testing.T) {
	for _, tool := range []string{"openssl", "htpasswd", "sha256sum"} {
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
		made[i] = read(t, filepath.Join(dir, "secrets/pages_users"))
	}
	if made[0] != made[1] {
		t.Error("what was there is made again")
	}
	users, err := console.ReadUsers(filepath.Join(dir, "secrets/pages_users"), slog.New(slog.DiscardHandler), time.Now)
	if err != nil || users.Len() != 1 {
		t.Fatalf("the worker does not take the users: %v", err)
	}
	_, hash, _ := strings.Cut(strings.TrimSpace(made[0]), ":")
	password := strings.TrimSpace(read(t, filepath.Join(dir, "secrets/pages_password")))
	if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)); err != nil {
		t.Errorf("the password is not the user's: %v", err)
	}
}

// TestComposeSecretsNeedsItsTools: one that is missing is named, and nothing is made.
func TestComposeSecretsNeedsItsTools(t *testing.T) {
	some := t.TempDir()
	for _, tool := range []string{"dirname", "mkdir", "openssl", "sha256sum", "tr", "cut", "cat", "chmod"} {
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
	if err == nil || !strings.Contains(out, "htpasswd is missing") {
		t.Errorf("error %v, output %q; want htpasswd named", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "secrets")); err == nil {
		t.Error("secrets were made without it")
	}
}
