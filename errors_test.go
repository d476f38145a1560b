package orgops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFirstErrorEnds finds cmp.Or over calls that return errors. Go evaluates all arguments before
// it calls cmp.Or: a later call goes ahead although an earlier one failed, and its error is lost.
func TestFirstErrorEnds(t *testing.T) {
	set := token.NewFileSet()
	failure, _ := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	for _, pkg := range checkedPackages(t, set) {
		for _, file := range pkg.files {
			for n := range ast.Preorder(file) {
				call, ok := n.(*ast.CallExpr)
				if !ok || types.ExprString(call.Fun) != "cmp.Or" {
					continue
				}
				for _, arg := range call.Args[1:] {
					later, ok := arg.(*ast.CallExpr)
					if ok && types.Implements(pkg.info.TypeOf(later), failure) {
						t.Errorf("%s: %s is called though an error came before: write two calls, each with its if err != nil, "+
							"or errors.Join where both are to be made", set.Position(later.Pos()), types.ExprString(later.Fun))
					}
				}
			}
		}
	}
}

// checked is a package of this module with the types of its expressions.
type checked struct {
	files []*ast.File
	info  *types.Info
}

// checkedPackages reads the packages without tests. Their imports come from the build cache.
func checkedPackages(t *testing.T, set *token.FileSet) (all []checked) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export,Module", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}

	// A package comes after those that it imports.
	exports := map[string]string{}
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			Module                  struct{ Main bool }
		}
		err := d.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		exports[pkg.ImportPath] = pkg.Export
		if !pkg.Module.Main {
			continue
		}
		one := checked{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, name := range pkg.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			one.files = append(one.files, file)
		}
		if _, err := (&types.Config{Importer: imports}).Check(pkg.ImportPath, set, one.files, one.info); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}
