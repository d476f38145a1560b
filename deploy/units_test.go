package deploy

import (
	"bufio"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// variables returns the variables that a text sets, in the form of environment files, or of
// units if prefix is "Environment=".
func variables(text, prefix string) map[string]string {
	set := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line, ok := strings.CutPrefix(lines.Text(), prefix)
		if name, value, is := strings.Cut(line, "="); ok && is && strings.HasPrefix(name, "ORGOPS_") {
			set[name] = value
		}
	}
	return set
}

// TestUnitOfWorker checks that the example of the worker's settings and its unit agree: the URL of
// Redis has the user whose password the unit has, and nothing is set twice.
func TestUnitOfWorker(t *testing.T) {
	example, unit := variables(read(t, ".env.example"), ""), variables(read(t, "orgops-worker.service"), "Environment=")
	if want := "redis://worker@127.0.0.1:6379/0"; example["ORGOPS_REDIS_URL"] != want {
		t.Errorf("the URL of Redis is %q, want %q: the unit has the password of the user worker",
			example["ORGOPS_REDIS_URL"], want)
	}
	for name := range unit {
		if _, twice := example[name]; twice {
			t.Errorf("%s is set in the example and in the unit", name)
		}
	}
	if len(unit) < 2 {
		t.Errorf("the unit sets %v", unit)
	}
	if !strings.Contains(read(t, "orgops-worker.service"), "#Environment=ORGOPS_CLIENT_KEY_FILE=%d/client-key\n") {
		t.Error("the unit does not say how it passes the private key that the example names")
	}
}

// TestVariablesExist: every variable in a file of this directory, in a comment too, is one of
// the commands. Those of a Redis with TLS are shown for each way to deploy.
func TestVariablesExist(t *testing.T) {
	name := regexp.MustCompile(`\bORGOPS_[A-Z_]+[A-Z]\b`)
	reference := read(t, "../docs/reference/settings.md") + read(t, "../docs/reference/commands.md")
	known := map[string]bool{}
	for _, v := range name.FindAllString(reference, -1) {
		known[v] = true
	}
	shown := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".go" {
			return err
		}
		for _, v := range name.FindAllString(read(t, path), -1) {
			if !known[v] {
				t.Errorf("%s: no command has %s", path, v)
			}
			shown[path] += v + " "
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"compose.yaml", "orgops-worker.service", "orgops-intake.service",
		"orgops-customer-page.service", "redis/README.md", "kubernetes/components/redis-tls/kustomization.yaml"} {
		for _, v := range []string{"ORGOPS_REDIS_CA_FILE", "ORGOPS_REDIS_CERT_FILE", "ORGOPS_REDIS_KEY_FILE"} {
			if !strings.Contains(shown[path], v+" ") {
				t.Errorf("%s does not show %s", path, v)
			}
		}
	}
}
