package dnscheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// CASES.md is worth what its names are: each case is there, once, and each test that it names exists. Of subtests it is enough
// that their names are written somewhere in the tests.
func TestEachCaseHasItsTests(t *testing.T) {
	text, err := os.ReadFile("CASES.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{"": testsIn(t, "."), "engine.": testsIn(t, filepath.Join("..", "internal", "engine"))}
	row := regexp.MustCompile(`(?m)^\| (\d+) \|([^|]+)\|([^|]+)\|([^|]+)\|$`)
	test := regexp.MustCompile("`(engine\\.)?((?:Test|Fuzz)\\w*)(?:/([^`]+))?`")
	seen := make(map[int]bool)
	rows := row.FindAllStringSubmatch(string(text), -1)
	for _, cells := range rows {
		number, err := strconv.Atoi(cells[1])
		if err != nil || number < 1 || number > len(rows) || seen[number] {
			t.Errorf("case %s: out of 1 to %d, or there already", cells[1], len(rows))
		}
		seen[number] = true
		names := test.FindAllStringSubmatch(cells[4], -1)
		if len(names) == 0 || len(names) != strings.Count(cells[4], "`")/2 {
			t.Errorf("case %d: %d tests can be read in %q", number, len(names), cells[4])
		}
		for _, name := range names {
			source := sources[name[1]]
			if !strings.Contains(source, "\nfunc "+name[2]+"(") {
				t.Errorf("case %d: there is no test %s%s", number, name[1], name[2])
			}
			if name[3] != "" && !strings.Contains(source, strconv.Quote(name[3])) {
				t.Errorf("case %d: %s%s has no subtest %q", number, name[1], name[2], name[3])
			}
		}
	}
}

// testsIn is all test files of a directory.
func testsIn(t *testing.T, directory string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
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
