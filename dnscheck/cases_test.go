package dnscheck_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// caseSection is a section of CASES.md.
type caseSection struct {
	title string
	intro string // a paragraph before the table; may be empty
	cases []testCase
}

// testCase is a row of CASES.md. Cases that consist of a few answers have scenes.
type testCase struct {
	about, verdict string
	servers        []scene  // answers of the zone's servers: TestHostileNameServersProveNothing
	resolvers      []scene  // answers of the resolvers: TestSignaturesInAProof
	required       bool     // Config.RequireDNSSEC
	tests          []string // other tests: "TestName/subtest", "engine.TestName" of internal/engine
}

// scene has the i-th server or resolver answer as the i-th zone. A nil zone is silent.
type scene struct {
	name    string
	answers []zone
	want    expected
}

// allCases yields each case with its number.
func allCases() iter.Seq2[int, testCase] {
	return func(yield func(int, testCase) bool) {
		number := 0
		for _, section := range caseTable {
			for _, c := range section.cases {
				if number++; !yield(number, c) {
					return
				}
			}
		}
	}
}

// allTests returns the tests of the case, starting with its scenes.
func (c testCase) allTests() []string {
	var names []string
	for _, s := range c.servers {
		names = append(names, "TestHostileNameServersProveNothing/"+s.name)
	}
	for _, s := range c.resolvers {
		names = append(names, "TestSignaturesInAProof/"+s.name)
	}
	return slices.Concat(names, c.tests)
}

var updateCases = flag.Bool("update", false, "write CASES.md")

// TestCases compares CASES.md with caseTable.
func TestCases(t *testing.T) {
	const file = "CASES.md"
	wanted := casesDocument()
	if *updateCases {
		if err := os.WriteFile(file, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, string(text)); diff != "" {
		t.Errorf("%s differs from caseTable: go test ./dnscheck -run TestCases -update writes it (-want +got):\n%s", file, diff)
	}
}

func casesDocument() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from cases_table_test.go by go test ./dnscheck -run TestCases -update. Do not edit. -->

# Faults and attacks of the DNS, and the tests of their results

Each row is one group of cases. The verdict is the result that the tests require: *present*, *absent*, *unknown*, or
*refused* where the question itself is refused. "Passed over" means that a message is ignored: a right answer after it
is taken, and without one the verdict is unknown.

Tests are of this package, or of ` + "`internal/engine`" + ` where the name says so; the part after a slash is a subtest.
` + "`TestEachCaseHasItsTests`" + ` fails if a test is missing. Tests at real servers (` + "`…Real…`, `…Unbound…`" + `) start NSD, Knot, BIND
and Unbound, and are skipped where those are not installed. No test of this package may leave a goroutine
(` + "`main_test.go`) or a socket (`TestNoSocketIsLeftOpen`" + `) behind.
`)
	number := 0
	for _, section := range caseTable {
		fmt.Fprintf(&b, "\n## %s\n\n", section.title)
		if section.intro != "" {
			fmt.Fprintf(&b, "%s\n\n", section.intro)
		}
		b.WriteString("| # | Case | Verdict | Tests |\n|---|---|---|---|\n")
		for _, c := range section.cases {
			number++
			fmt.Fprintf(&b, "| %d | %s | %s | `%s` |\n", number, c.about, c.verdict, strings.Join(c.allTests(), "`, `"))
		}
	}
	return b.String()
}

// TestEachCaseHasItsTests requires that the tests of each case exist. A subtest exists if its
// name is a string of the test, or of a declaration that the test uses.
func TestEachCaseHasItsTests(t *testing.T) {
	here, engine := parseTests(t, "."), parseTests(t, filepath.Join("..", "internal", "engine"))
	for number, c := range allCases() {
		if len(c.allTests()) == 0 {
			t.Errorf("case %d has no test", number)
		}
		for _, name := range c.allTests() {
			test, subtest, hasSubtest := strings.Cut(name, "/")
			tests := here
			if inEngine, ok := strings.CutPrefix(test, "engine."); ok {
				test, tests = inEngine, engine
			}
			if !tests.has(test) {
				t.Errorf("case %d: there is no test %s", number, name)
			} else if hasSubtest && !tests.uses(test, subtest) {
				t.Errorf("case %d: there is no subtest %s", number, name)
			}
		}
	}
}

// testSources has the declarations of a package's test files by name. Methods of one name
// share an entry.
type testSources map[string][]ast.Node

func parseTests(t *testing.T, directory string) testSources {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := make(testSources)
	for _, file := range files {
		parsed, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = append(declared[d.Name.Name], d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.ValueSpec); ok {
						for _, name := range s.Names {
							declared[name.Name] = append(declared[name.Name], s)
						}
					}
				}
			}
		}
	}
	return declared
}

// has reports whether a test or a fuzz test has this name.
func (s testSources) has(test string) bool {
	return (strings.HasPrefix(test, "Test") || strings.HasPrefix(test, "Fuzz")) && len(s[test]) > 0
}

// uses reports whether a declaration, or one that it uses, has the string.
func (s testSources) uses(declaration, text string) bool {
	seen := map[string]bool{declaration: true}
	found := false
	for next := []string{declaration}; len(next) > 0 && !found; next = next[1:] {
		for _, d := range s[next[0]] {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					value, err := strconv.Unquote(n.Value)
					found = found || err == nil && value == text
				case *ast.Ident:
					if !seen[n.Name] && len(s[n.Name]) > 0 {
						seen[n.Name] = true
						next = append(next, n.Name)
					}
				}
				return !found
			})
		}
	}
	return found
}
