package deploy

import (
	"bufio"
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
