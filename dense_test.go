package orgops_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "take off testdata/dense.txt what is not dense any more; nothing is added")

// denseList are the dense places that were there when the test was written. It only shrinks. A line
// is a package, a function, a kind of [instead] and the text: it survives changes elsewhere.
const denseList = "testdata/dense.txt"

// mostBare is the length of a function, in lines of code, from which on it has headings.
const mostBare = 30

// instead are the kinds of dense places, with what to write.
var instead = map[string]string{
	"assign": "write a statement for each value",
	"mixed":  "put the parts with && in parentheses, or write two ifs with the reason of each",
	"bare": fmt.Sprintf("more than %d lines of code and no comment: write a heading over each paragraph, what follows "+
		"and why; or find the part that is a function of its own", mostBare),
}

// place is a dense place of the code.
type place struct {
	entry string // as the list has it
	kind  string
	at    token.Position
}

// TestDense compares the dense places of the code with the list, in both directions.
func TestDense(t *testing.T) {
	text, err := os.ReadFile(denseList)
	if err != nil {
		t.Fatal(err)
	}

	// A place that is not in the list is new. An entry is good for one place.
	left := map[string]int{}
	for _, entry := range strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }) {
		left[entry]++
	}
	var kept []string
	for _, p := range densePlaces(t) {
		if left[p.entry] == 0 {
			t.Errorf("%s: %s: %s", p.at, p.entry, instead[p.kind])
			continue
		}
		left[p.entry]--
		kept = append(kept, p.entry)
	}

	// What is left of the list is not dense any more.
	if *update {
		slices.Sort(kept)
		if err := os.WriteFile(denseList, []byte(strings.Join(kept, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for entry, n := range left {
		if n > 0 {
			t.Errorf("%s: %s: there is no such place: take it off the list (go test -run TestDense -update .)",
				denseList, entry)
		}
	}
}

// densePlaces returns the dense places of all packages of this module, without tests.
func densePlaces(t *testing.T) (places []place) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".ci", "bench", "testdata"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{set: set, file: file, lines: strings.Split(string(text), "\n")}
		places = append(places, s.dense()...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// source is a file of Go.
type source struct {
	set   *token.FileSet
	file  *ast.File
	lines []string
}

// dense returns the dense places of the file: those of its functions, and of its variables.
func (s source) dense() (places []place) {
	for _, decl := range s.file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(decl.Recv.List[0].Type), "*") + "." + name
			}
			if s.isBare(decl) {
				places = append(places, s.place(decl, name, "bare", ""))
			}
			places = append(places, s.denseIn(decl, name)...)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
					places = append(places, s.denseIn(v, v.Names[0].Name)...)
				}
			}
		}
	}
	return places
}

// denseIn returns the assignments and conditions in a function or variable of that name.
func (s source) denseIn(of ast.Node, name string) (places []place) {
	seen := map[ast.Node]bool{} // heads of loops, and parts of a condition
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR // constants are names of values, not steps
		case *ast.ForStmt:
			seen[n.Init], seen[n.Post] = true, true
		case *ast.ValueSpec:
			if len(n.Values) > 1 {
				var names []string
				for _, id := range n.Names {
					names = append(names, id.Name)
				}
				places = append(places, s.place(n, name, "assign", strings.Join(names, ", ")))
			}
		case *ast.AssignStmt:
			if !seen[n] && isParallel(n) {
				places = append(places, s.place(n, name, "assign", strings.Join(texts(n.Lhs), ", ")))
			}
		case *ast.BinaryExpr:
			if !seen[n] && isMixed(n, seen) {
				places = append(places, s.place(n, name, "mixed", types.ExprString(n)))
			}
		}
		return true
	})
	return places
}

func (s source) place(n ast.Node, name, kind, text string) place {
	const most = 100 // characters of a text that distinguish it from others of the function
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	at := s.set.Position(n.Pos())
	dir := filepath.ToSlash(filepath.Dir(at.Filename))
	return place{strings.TrimSpace(dir + " " + name + " " + kind + " " + text), kind, at}
}

// isParallel reports whether the statement assigns several values and could be several statements.
// A swap could not: a later value is what an earlier variable was.
func isParallel(a *ast.AssignStmt) bool {
	if len(a.Rhs) < 2 {
		return false // the results of one call, or whether a map has it
	}
	assigned := map[string]bool{}
	for i, value := range a.Rhs {
		if reads(value, assigned) {
			return false
		}
		assigned[types.ExprString(a.Lhs[i])] = true
	}
	return true
}

// reads reports whether the expression has one of these variables in it.
func reads(value ast.Expr, variables map[string]bool) (found bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if ok && variables[types.ExprString(e)] {
			found = true
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			found = found || reads(s.X, variables)
			return false // its name is no variable
		}
		return true
	})
	return found
}

func texts(all []ast.Expr) (texts []string) {
	for _, e := range all {
		texts = append(texts, types.ExprString(e))
	}
	return texts
}

// isMixed reports whether a condition has && and || and no parentheses between them. Its parts up
// to the next parentheses are seen.
func isMixed(e ast.Expr, seen map[ast.Node]bool) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	seen[b] = true
	mixed := false
	for _, part := range []ast.Expr{b.X, b.Y} {
		inner, ok := part.(*ast.BinaryExpr)
		if ok && b.Op == token.LOR && inner.Op == token.LAND {
			mixed = true
		}
		if isMixed(part, seen) {
			mixed = true
		}
	}
	return mixed
}

// isBare reports whether the function is long and no line of it is a comment. A comment at the end
// of a line is about that line.
func (s source) isBare(f *ast.FuncDecl) bool {
	if f.Body == nil {
		return false
	}
	first := s.set.Position(f.Body.Lbrace).Line
	last := s.set.Position(f.Body.Rbrace).Line
	code := 0
	for _, line := range s.lines[first:max(first, last-1)] { // between the braces
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "//nolint") {
			return false
		}
		if line != "" {
			code++
		}
	}
	return code > mostBare
}
