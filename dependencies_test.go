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

// core lists, for each package of the core, the packages of this module that it may depend
// on, directly or not. Packages that store something know none: what is stored does not
// depend on who uses it.
var core = map[string][]string{
	"internal/ledger":       nil,
	"internal/pace":         nil,
	"internal/redisconn":    nil,
	"internal/events":       nil,
	"internal/sweep":        {"dnscheck", "internal/events"},
	"internal/deliveries":   {"internal/events"},
	"internal/queues":       {},
	"internal/spelling":     {},
	"internal/cli":          {"apiclient", "internal/spelling"},
	"internal/engine":       {"apiclient", "dnscheck", "internal/ledger"},
	"internal/engine/kinds": {"apiclient", "dnscheck", "internal/engine", "internal/events", "internal/ledger", "internal/sweep"},
	"internal/workers":      {"internal/ledger"},
	"internal/dispatch":     {"apiclient", "dnscheck", "internal/engine", "internal/ledger", "internal/pace", "internal/workers"},
	"internal/scan":         {"apiclient", "dnscheck", "internal/engine", "internal/engine/kinds", "internal/events", "internal/ledger", "internal/sweep"},
	"internal/followup":     {"apiclient", "dnscheck", "internal/engine", "internal/engine/kinds", "internal/events", "internal/ledger", "internal/sweep"},
	"internal/runs":         {"apiclient", "dnscheck", "internal/engine", "internal/engine/kinds", "internal/events", "internal/ledger", "internal/redisconn", "internal/sweep"},
}

// TestDependencies holds the direction of imports: cmd imports everything, internal
// packages at most each other and tasks, tasks the two leaves, and the leaves nothing of
// this module. A leaf that knew the queue or Redis could not be used, or reasoned about,
// without them.
func TestDependencies(t *testing.T) {
	queueAndStore := []string{"github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/alicebob/miniredis/v2"}
	for pkg, deps := range packages(t) {
		// own returns the packages of this module that are not allowed.
		own := func(allowed ...string) []string {
			return slices.DeleteFunc(withPrefix(deps, module), func(dep string) bool {
				return slices.Contains(allowed, strings.TrimPrefix(dep, module+"/"))
			})
		}
		below := func(prefixes ...string) []string {
			return slices.DeleteFunc(withPrefix(deps, module), func(dep string) bool {
				return slices.ContainsFunc(prefixes, func(p string) bool { return isBelow(dep, module+"/"+p) })
			})
		}
		name := strings.TrimPrefix(pkg, module+"/")
		if allowed, ok := core[name]; ok {
			none(t, pkg, own(allowed...), "the packages of the core depend on each other in one direction")
			continue
		}
		switch {
		case name == "apiclient" || name == "dnscheck":
			none(t, pkg, own(), "a leaf imports nothing of this module")
			none(t, pkg, withPrefix(deps, queueAndStore...), "a leaf knows no queue and no Redis")
		case name == "tasks":
			none(t, pkg, own("apiclient", "dnscheck"), "tasks describes rows, and knows nothing of their execution")
		case name == "internal/sandbox":
			none(t, pkg, own(), "the sandbox is the second opinion on the specification: it shares no code with the client")
		case strings.HasPrefix(name, "internal/"):
			none(t, pkg, below("internal", "tasks", "apiclient", "dnscheck"), "internal packages are wired by cmd")
		}
	}
}

// TestWhoKnowsTasks: the core executes rows by their kinds. Only packages that submit rows,
// or describe runs to people, know what can be submitted.
func TestWhoKnowsTasks(t *testing.T) {
	knows := []string{"internal/console", "internal/httpapi", "internal/intake", "internal/status", "internal/tenant"}
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

// withPrefix returns the packages that are one of those named, or below one.
func withPrefix(deps []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(deps), func(dep string) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return isBelow(dep, p) })
	})
}

// isBelow reports whether a package is p or in a directory of it.
func isBelow(pkg, p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }

// packages returns the module's packages, each with all that it depends on.
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

// TestSurroundings: only cmd reads the environment, handles signals and ends the process.
// Elsewhere that cannot be tested, or surprises.
func TestSurroundings(t *testing.T) {
	reach := regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|Exit)\b|\bsignal\.Notify`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "bench/") || strings.HasPrefix(path, ".ci/") || strings.HasPrefix(path, "internal/redistest/") {
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
