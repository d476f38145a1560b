package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuardsAreInTheCode checks each line of the table without running its guard: the code occurs
// once, the file without it can be parsed, and the package has the tests. Otherwise only the
// nightly run of all guards would fail after a change of the code.
func TestGuardsAreInTheCode(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	guards, err := readGuards(nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]string) // directory -> the names of its tests, each in a line
	for _, g := range guards {
		changed, err := g.remove()
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), g.file, changed, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Errorf("%s: %v", g.line, err)
		}
		directory := path.Dir(g.file)
		if tests[directory] == "" {
			tests[directory] = testsOf(t, directory)
		}
		if !hasTest(tests[directory], g.tests) {
			t.Errorf("%s: %s has no such test", g.line, directory)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func testsOf(t *testing.T, directory string) (names string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of %s: %v, %v", directory, files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllStringSubmatch(string(text), -1) {
			names += found[1] + "\n"
		}
	}
	return names
}

// hasTest reports whether each alternative of the pattern of go test -run selects a test.
func hasTest(names, pattern string) bool {
	for alternative := range strings.SplitSeq(pattern, "|") {
		top, _, _ := strings.Cut(alternative, "/")
		if !strings.HasPrefix(top, "Test") {
			continue // an alternative of a subtest
		}
		if found, err := regexp.MatchString(fmt.Sprintf("(?m)%s", top), names); err != nil || !found {
			return false
		}
	}
	return true
}
