package sandbox_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"orgops/internal/sandbox"
)

// TestEachConstraintHasItsTests checks that the tests named in CONFORMANCE.md exist. For a
// subtest it checks that the name occurs in the tests of its side.
func TestEachConstraintHasItsTests(t *testing.T) {
	const constraints = 41
	table, err := os.ReadFile("CONFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \|[^|]+\|([^|]+)\|([^|]+)\|$`)
	sides := []map[string]string{
		{"": testsIn(t, ".")},
		{
			"":          testsIn(t, "../../apiclient") + testsIn(t, "../../apiclient/schema"),
			"engine.":   testsIn(t, "../engine"),
			"handlers.": testsIn(t, "../../tasks/handlers"),
		},
	}
	next := 1
	for _, cells := range row.FindAllStringSubmatch(string(table), -1) {
		if number, _ := strconv.Atoi(cells[1]); number != next {
			t.Errorf("constraint %s follows %d", cells[1], next-1)
		}
		next++
		for side, cell := range cells[2:] {
			wantTests(t, cells[1], cell, sides[side])
		}
	}
	if next-1 != constraints {
		t.Errorf("%d constraints can be read, want %d", next-1, constraints)
	}
}

// wantTests checks that each test which a cell names exists.
func wantTests(t *testing.T, number, cell string, sources map[string]string) {
	t.Helper()
	names := regexp.MustCompile("`(engine\\.|handlers\\.)?(Test\\w*)(?:/([^`]+))?`").FindAllStringSubmatch(cell, -1)
	if strings.TrimSpace(cell) == "-" {
		return
	}
	if len(names) == 0 || len(names) != strings.Count(cell, "`")/2 {
		t.Errorf("constraint %s: %d tests can be read in %q", number, len(names), cell)
	}
	for _, name := range names {
		source := sources[name[1]]
		if !strings.Contains(source, "\nfunc "+name[2]+"(") {
			t.Errorf("constraint %s: there is no test %s%s", number, name[1], name[2])
		}
		if name[3] != "" && !strings.Contains(source, strconv.Quote(name[3])) {
			t.Errorf("constraint %s: %s%s has no subtest %q", number, name[1], name[2], name[3])
		}
	}
}

// testsIn returns the text of all test files of a directory.
func testsIn(t *testing.T, directory string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", directory, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestRecordsAreAsSpecified checks the sandbox's own records against sections 2.1 and 2.2,
// including those of the sample rows.
func TestRecordsAreAsSpecified(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.SeedDomains(30)
	pattern := regexp.MustCompile(
		`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])$`)
	required := []string{"domain", "id", "status", "verification_host", "verification_txt"}
	known := append([]string{"use_for_organization_discovery"}, required...)
	domains := 0
	for _, org := range s.Organizations() {
		list, _ := walk(t, s, "/organizations/"+org+"/discovery-domains", "domains", 100)
		for _, record := range list {
			domains++
			d := record.(map[string]any)
			for _, member := range required {
				if text, _ := d[member].(string); text == "" {
					t.Errorf("%v: no %s", d, member)
				}
			}
			for member := range d {
				if !slices.Contains(known, member) {
					t.Errorf("%v: member %s", d, member)
				}
			}
			name := d["domain"].(string)
			if n := utf8.RuneCountInString(name); n < 3 || n > 255 || !pattern.MatchString(name) {
				t.Errorf("domain %q", name)
			}
			if !slices.Contains([]any{"pending", "verified"}, d["status"]) {
				t.Errorf("status %v", d["status"])
			}
		}
	}
	if domains == 0 {
		t.Fatal("no domain was seeded")
	}
	made := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON,
		body: with("custom_certificate_authority", `"PEM"`)})
	want := strings.Fields(
		"created_at custom_certificate_authority dialect id name presentation type updated_at well_known_trusted_issuers")
	if got := slices.Sorted(maps.Keys(made.json)); !slices.Equal(got, want) {
		t.Errorf("a template has %q, want %q", got, want)
	}
}
