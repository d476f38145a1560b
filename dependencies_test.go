// Package orgops_test holds what concerns the module as a whole.
package orgops_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "orgops"

// TestDependencies holds the direction of the arrows: cmd to everything,
// internal/* at most to tasks, tasks to the two leaves, and the leaves to
// nothing of ours. A leaf that knew the queue or Redis could not be used, or
// reasoned about, without them.
func TestDependencies(t *testing.T) {
	queueAndStore := []string{"github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/alicebob/miniredis/v2"}
	for pkg, deps := range packages(t) {
		own := func(prefixes ...string) []string {
			return slices.DeleteFunc(slices.Clone(deps), func(dep string) bool {
				return !strings.HasPrefix(dep, module+"/") || slices.ContainsFunc(prefixes, func(p string) bool {
					return dep == module+"/"+p || strings.HasPrefix(dep, module+"/"+p+"/")
				})
			})
		}
		switch name := strings.TrimPrefix(pkg, module+"/"); {
		case name == "apiclient" || name == "dnscheck":
			none(t, pkg, own(name), "a leaf imports nothing of this module")
			none(t, pkg, withPrefix(deps, queueAndStore...), "a leaf knows no queue and no Redis")
		case name == "tasks":
			none(t, pkg, own("tasks", "apiclient", "dnscheck"), "tasks reaches ledger, pace and metrics through its own interfaces (deps.go)")
		case name == "internal/sandbox":
			none(t, pkg, own(name), "the sandbox is the second opinion on the specification: it shares no code with the client")
		case strings.HasPrefix(name, "internal/") && name != "internal/bench":
			none(t, pkg, own("internal", "tasks", "apiclient", "dnscheck"), "internal packages are wired by cmd")
		}
	}
}

// TestWhoKnowsTasks: ledger and pace serve tasks, and reach them through
// interfaces; who imports them knows what the work is, and these are few.
func TestWhoKnowsTasks(t *testing.T) {
	knows := []string{"internal/bench", "internal/cli", "internal/intake", "internal/intakeapi", "internal/ops"}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./internal/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module+"/")
		if slices.Contains(fields[1:], module+"/tasks") && !slices.Contains(knows, name) {
			t.Errorf("%s imports tasks: of internal/ only %s do", name, strings.Join(knows, ", "))
		}
	}
}

func none(t *testing.T, pkg string, found []string, rule string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%s depends on %s: %s", pkg, strings.Join(found, ", "), rule)
	}
}

func withPrefix(deps []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(deps), func(dep string) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return dep == p || strings.HasPrefix(dep, p+"/") })
	})
}

// packages are the module's packages, each with all that it depends on.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		all[fields[0]] = fields[1:]
	}
	return all
}

// TestSurroundings holds that the environment, signals and the process's end
// are cmd's business: anywhere else they cannot be tested, or they surprise.
func TestSurroundings(t *testing.T) {
	reach := regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|Exit)\b|\bsignal\.Notify`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "internal/bench/") || strings.HasPrefix(path, "internal/redistest/") {
			return err
		}
		source, err := os.ReadFile(path)
		if found := reach.Find(source); found != nil {
			t.Errorf("%s uses %s, which is for cmd", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
