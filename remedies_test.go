package orgops_test

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRemediesAreBesideTheirFacts checks that the packages that show facts name no commands: the
// remedy of a fact is made once, where the fact is.
func TestRemediesAreBesideTheirFacts(t *testing.T) {
	command := regexp.MustCompile(`enqueue (runs|domains|tenant|clients|templates|evidence) [a-z]`)
	own := map[string]string{
		"internal/console/format.go": "the limit of time is that of pages alone",
	}
	for _, name := range []string{"internal/console", "internal/customer", "internal/health", "internal/httpapi",
		"internal/metrics", "internal/view", "internal/web", "cmd/worker"} {
		for file, parsed := range parseFiles(t, name) {
			path := filepath.Join(name, filepath.Base(file))
			ast.Inspect(parsed, func(n ast.Node) bool {
				literal, is := n.(*ast.BasicLit)
				if is && literal.Kind == token.STRING && command.MatchString(literal.Value) && own[path] == "" {
					t.Errorf("%s: %s is a remedy: make it where the fact is made (package remedy)", path, literal.Value)
				}
				return true
			})
		}
	}
}

// TestSameRemedyOnEverySurface checks that the pages have each remedy that commands print as JSON.
func TestSameRemedyOnEverySurface(t *testing.T) {
	fix := regexp.MustCompile(`(?m)^ *"fix": (".*")`)
	for _, c := range []struct{ command, page string }{
		{"tenant-show", "GET-tenants"}, // of the overview it is the page behind
		{"domains-show", "GET-domains"},
	} {
		read := func(parts ...string) string {
			text, err := os.ReadFile(filepath.Join(append([]string{"testdata", "surface"}, parts...)...))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		page := read("console", c.page+".txt")
		fixes := fix.FindAllStringSubmatch(read("enqueue", c.command+".txt"), -1)
		for _, found := range fixes {
			var text string
			if err := json.Unmarshal([]byte(found[1]), &text); err != nil {
				t.Fatal(err)
			}
			if said := strings.ToUpper(text[:1]) + text[1:]; !strings.Contains(page, said) {
				t.Errorf("%s says %q, and %s does not", c.command, said, c.page)
			}
		}
		if len(fixes) == 0 {
			t.Errorf("%s: no remedy found", c.command)
		}
	}
}
