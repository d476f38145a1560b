package orgops_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// listFrom is the number of files from which on a package lists them in its comment.
const listFrom = 5

// upward is how many names a file of the package uses of files above it in its list. The
// number of a package only falls.
var upward = map[string]int{
	"internal/engine": 1,
}

// TestFilesReadDownward reads the list of files in the comment of each package: a file uses those
// below it. Methods are not counted, of which the compiler alone knows the type.
func TestFilesReadDownward(t *testing.T) {
	for name := range rooms {
		files := parseFiles(t, name)
		list := listed(files)
		if len(list) == 0 && len(files) < listFrom {
			continue
		}
		place := map[string]int{}
		for i, file := range list {
			if _, twice := place[file]; twice {
				t.Errorf("%s: %s is listed twice", name, file)
			}
			place[file] = i
		}
		for file := range files {
			if _, ok := place[file]; !ok && file != "doc.go" {
				t.Errorf("%s: %s is not in the list of files in the package's comment", name, file)
			}
			delete(place, file)
		}
		for file := range place {
			t.Errorf("%s: %s is listed, but there is no such file", name, file)
		}
		if up := upwardUses(files, list); len(up) != upward[name] {
			t.Errorf("%s: files use %d names of files above them, want %d:\n\t%s", name, len(up), upward[name],
				strings.Join(up, "\n\t"))
		}
	}
}

// parseFiles parses the files of a package, without tests.
func parseFiles(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

var goFile = regexp.MustCompile(`[a-z0-9_]+\.go\b`)

// listed returns the files in the code blocks of the package's comment, in order.
func listed(files map[string]*ast.File) (list []string) {
	for _, file := range files {
		for line := range strings.Lines(file.Doc.Text()) {
			if strings.HasPrefix(line, "\t") {
				list = append(list, goFile.FindAllString(line, -1)...)
			}
		}
	}
	return list
}

// upwardUses returns the names that files use of files above them.
func upwardUses(files map[string]*ast.File, list []string) (uses []string) {
	home := map[string]string{} // the file of each declaration
	for name, file := range files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					home[decl.Name.Name] = name
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						home[spec.Name.Name] = name
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							home[n.Name] = name
						}
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	for name, file := range files {
		receivers := map[*ast.Ident]bool{}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				ast.Inspect(f.Recv, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						receivers[id] = true
					}
					return true
				})
			}
		}
		for _, id := range file.Unresolved {
			to := home[id.Name]
			if to == "" || to == name || receivers[id] || slices.Index(list, to) > slices.Index(list, name) {
				continue
			}
			seen[fmt.Sprintf("%s uses %s of %s", name, id.Name, to)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// The largest width of a line of code, and of one of a comment. A line of code may be longer by a
// literal of its own, such as a message or the tag of a field, which is not broken.
const (
	mostColumns        = 120
	mostCommentColumns = 100
)

// TestLinesAreShort checks the width of all lines. Tables in comments, which are indented, and the
// output of examples are as wide as they are.
func TestLinesAreShort(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || entry.Name() == "example_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		literals := widestLiterals(path, text)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//nolint:lll") {
				break // the output of an example, up to the end of the file
			}
			most := mostColumns
			if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "// ") {
				most = mostCommentColumns
			} else if strings.HasPrefix(comment, "//") {
				continue
			}
			if width := utf8.RuneCountInString(line); width > most && literals[i+1] < mostColumns/3 {
				t.Errorf("%s:%d has %d columns, want at most %d", path, i+1, width, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCutsAreShown: no format cuts a quoted text, since its reader would not see that there is
// more. The functions of package untrusted add an ellipsis.
func TestCutsAreShown(t *testing.T) {
	cut := regexp.MustCompile(`%\.[0-9]+q`)
	for room := range rooms {
		paths, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if found := cut.Find(text); found != nil && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s: %s cuts without saying so: use untrusted.Value or untrusted.Quote", path, found)
			}
		}
	}
}

// widestLiterals returns the width of the widest string literal of each line.
func widestLiterals(path string, text []byte) map[int]int {
	set := token.NewFileSet()
	file := set.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	widths := map[int]int{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return widths
		}
		if kind == token.STRING {
			for i, line := range strings.Split(literal, "\n") {
				n := set.Position(at).Line + i
				widths[n] = max(widths[n], utf8.RuneCountInString(line))
			}
		}
	}
}
