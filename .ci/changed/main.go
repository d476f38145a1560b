// Command changed prints the packages whose tests a change may make fail: those with a changed
// file, and those that import a package with a changed file, directly or not, in their tests too.
// A test file changes the tests of its own package alone. Run it in the root of the module:
//
//	go run ./.ci/changed BASE                          # of all packages
//	go run ./.ci/changed BASE ./internal/dispatch ...  # of these packages only
//	go run ./.ci/changed -direct BASE ./dnscheck       # only those with a changed file of their own
//	go run ./.ci/changed -files BASE                   # the changed files themselves, a line each
//
// What has changed is the difference between the commit BASE and the work tree. A file belongs to
// the package of its directory, or else of the nearest directory above that has one. A Go file in
// which only comments differ has not changed. A change of go.mod or go.sum changes all packages.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	direct := flag.Bool("direct", false, "print only packages with a changed file of their own")
	files := flag.Bool("files", false, "print the changed files")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "changed: name the commit to compare with")
		os.Exit(2)
	}
	base := flag.Arg(0)
	patterns := flag.Args()[1:]

	changed, err := changedFiles(base)
	if err != nil {
		fmt.Fprintln(os.Stderr, "changed:", err)
		os.Exit(1)
	}
	if *files {
		printLines(changed)
		return
	}
	affected, err := affectedPackages(changed, patterns, *direct)
	if err != nil {
		fmt.Fprintln(os.Stderr, "changed:", err)
		os.Exit(1)
	}
	printLines(affected)
}

func printLines(lines []string) {
	for _, line := range lines {
		fmt.Println(line)
	}
}

// changedFiles returns the files, relative to the root of the module, that differ between base
// and the work tree in more than comments.
func changedFiles(base string) ([]string, error) {
	tracked, err := output("git", "diff", "--name-only", "--no-renames", base, "--")
	if err != nil {
		return nil, err
	}
	untracked, err := output("git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, file := range append(strings.Fields(string(tracked)), strings.Fields(string(untracked))...) {
		same, err := sameCode(base, file)
		if err != nil {
			return nil, err
		}
		if !same {
			changed = append(changed, file)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// sameCode reports whether a Go file differs from that of base in comments alone.
func sameCode(base, file string) (bool, error) {
	if path.Ext(file) != ".go" {
		return false, nil
	}
	after, err := os.ReadFile(filepath.FromSlash(file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	before, err := output("git", "show", base+":"+file)
	if err != nil {
		return false, nil //nolint:nilerr // base does not have the file
	}
	return sameWithoutComments(before, after), nil
}

// directive is a comment that the Go tools obey, and output that an example must print.
var directive = regexp.MustCompile(`(?m)//(go:|export |line |nolint|\s*(Unordered output|Output):).*$`)

// sameWithoutComments reports whether two Go files have the same code and the same directives.
func sameWithoutComments(before, after []byte) bool {
	if !slices.EqualFunc(directive.FindAll(before, -1), directive.FindAll(after, -1), bytes.Equal) {
		return false
	}
	first, err := withoutComments(before)
	if err != nil {
		return false
	}
	second, err := withoutComments(after)
	if err != nil {
		return false
	}
	return first == second
}

// withoutComments prints the code of a file in one form, whatever its blank lines.
func withoutComments(source []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	// Without the positions of the source, the printer lays the code out anew.
	err = printer.Fprint(&text, token.NewFileSet(), file)
	return text.String(), err
}

// listed is what go list -test prints of a package, of a package compiled for a test, or of a
// test's program.
type listed struct {
	ImportPath string
	Dir        string
	ForTest    string
	Name       string
	Deps       []string
}

// affectedPackages returns which of the packages the changed files belong to or, unless direct,
// are imported by.
func affectedPackages(files, patterns []string, direct bool) ([]string, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	everything, err := list("./...")
	if err != nil {
		return nil, err
	}
	wanted, err := list(patterns...)
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}

	// The changed packages.
	byDir := map[string]string{}
	for _, p := range everything {
		if p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test") {
			dir, err := filepath.Rel(root, p.Dir)
			if err != nil {
				return nil, err
			}
			byDir[filepath.ToSlash(dir)] = p.ImportPath
		}
	}
	changed := map[string]bool{}  // has a changed file
	imported := map[string]bool{} // of which packages that import it notice
	all := false
	for _, file := range files {
		if file == "go.mod" || file == "go.sum" {
			all = true
		}
		dir := path.Dir(file)
		for byDir[dir] == "" && dir != "." {
			dir = path.Dir(dir)
		}
		name := byDir[dir]
		changed[name] = true
		ofTests := strings.HasSuffix(file, "_test.go") || strings.Contains("/"+file, "/testdata/")
		if !ofTests {
			imported[name] = true
		}
	}

	// A test's program is named after its package; it imports the package's tests and all that they
	// import.
	affected := map[string]bool{}
	for _, p := range wanted {
		name := strings.TrimSuffix(p.ImportPath, ".test")
		if p.ForTest != "" {
			continue // its program has the same imports
		}
		if all || changed[name] {
			affected[name] = true
		}
		for _, dep := range p.Deps {
			dep, _, _ = strings.Cut(dep, " ") // without " [orgops/internal/ledger.test]"
			if imported[dep] && !direct {
				affected[name] = true
			}
		}
	}
	var names []string
	for name := range affected {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// list returns what go list says of packages and their tests.
func list(patterns ...string) ([]listed, error) {
	text, err := output("go", append([]string{"list", "-test", "-json=ImportPath,Dir,ForTest,Name,Deps"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []listed
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

func output(name string, args ...string) ([]byte, error) {
	text, err := exec.Command(name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, exit.Stderr)
	}
	return text, err
}
