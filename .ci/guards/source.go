package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sourceFile is a file of the package.
type sourceFile struct {
	path      string
	text      string
	base      token.Pos
	functions []*function // in their order
	helpers   string
}

// function is a function, or a method, and its copies without a guard.
type function struct {
	*ast.FuncDecl
	file   *sourceFile
	calls  string // of the copies
	copies string
}

// removable returns the files of a package, by path, with a copy of a function for each guard:
// it lacks the guard, and is called in place of the function if the environment's variable names
// the guard.
func removable(dir, variable string, guards []guard) (map[string]string, error) {
	files, err := parsePackage(dir)
	if err != nil {
		return nil, err
	}
	functions := make(map[string]*function)
	for _, file := range files {
		for _, f := range file.functions {
			functions[f.name()] = f
		}
	}
	var errs []error
	for _, g := range guards {
		f := functions[g.in]
		if f == nil {
			errs = append(errs, fmt.Errorf("guard %s: there is no function %s: follow the code", g.name, g.in))
		} else if err := f.remove(g); err != nil {
			errs = append(errs, fmt.Errorf("guard %s: %w", g.name, err))
		}
	}
	changed := make(map[string]string)
	for _, file := range files {
		changed[file.path] = file.changed()
	}
	declared := "package " + filepath.Base(dir) + "\n\nimport \"os\"\n\nvar removedGuard = os.Getenv(\"" + variable + "\")\n"
	changed[filepath.Join(dir, "removed_guard.go")] = declared
	return changed, errors.Join(errs...)
}

// parsePackage reads the files of a package without its tests.
func parsePackage(dir string) (files []*sourceFile, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		file := &sourceFile{path: path, text: string(text), base: parsed.FileStart}
		for _, d := range parsed.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				file.functions = append(file.functions, &function{FuncDecl: d, file: file})
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// between returns the text from one position to another.
func (f *sourceFile) between(from, to token.Pos) string { return f.text[from-f.base : to-f.base] }

// changed returns the text with the copies after it, and calls of them in the functions.
func (f *sourceFile) changed() string {
	var b strings.Builder
	at := f.base
	for _, fn := range f.functions {
		if fn.calls != "" {
			b.WriteString(f.between(at, fn.Body.Lbrace+1) + fn.calls)
			at = fn.Body.Lbrace + 1
		}
	}
	b.WriteString(f.text[at-f.base:])
	for _, fn := range f.functions {
		b.WriteString(fn.copies)
	}
	return b.String() + f.helpers
}

// name returns the function's name, after the type's if it is a method: "tally.majority".
func (f *function) name() string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	return fmt.Sprintf("%s.%s", receiver, f.Name.Name)
}

// remove adds a copy of the function without the guard, and its call.
func (f *function) remove(g guard) error {
	found := f.find(g.old)
	if len(found) == 0 {
		return fmt.Errorf("%s has no %s: follow the code", g.in, g.old)
	}
	if len(found) > 1 {
		return fmt.Errorf("%s has %s %d times: choose a larger part", g.in, g.old, len(found))
	}
	arguments, err := f.arguments()
	if err != nil {
		return err
	}
	name := f.Name.Name + "_without_" + g.name
	called := name
	if f.Recv != nil {
		called = f.Recv.List[0].Names[0].Name + "." + name
	}
	call := called + "(" + arguments + "); return"
	if f.Type.Results != nil {
		call = "return " + called + "(" + arguments + ")"
	}
	f.calls += fmt.Sprintf(" if removedGuard == %q { %s };", g.name, call)
	text := f.file
	// The compiler's errors name the guard instead of the file.
	f.copies += fmt.Sprintf("\n//line guard.%s:1\n", g.name) +
		text.between(f.Pos(), f.Name.Pos()) + name + text.between(f.Name.End(), found[0].Pos()) + g.new + text.between(found[0].End(), f.End()) + "\n"
	f.file.helpers += g.helpers
	return nil
}

// arguments returns the parameters as arguments of a call.
func (f *function) arguments() (string, error) {
	var names []string
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(field.Names) == 0 || slices.Contains(names, "_") {
			return "", fmt.Errorf("%s has parameters without names", f.name())
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			names[len(names)-1] += "..."
		}
	}
	return strings.Join(names, ", "), nil
}

// find returns the expressions and statements of the body that are this code, whatever their
// spaces, lines and comments.
func (f *function) find(code string) []ast.Node {
	wanted := tokens(code)
	var found []ast.Node
	isSame := func(n ast.Node) func(ast.Node) bool {
		return func(m ast.Node) bool { return m.Pos() == n.Pos() && m.End() == n.End() }
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		// A statement may be no more than an expression.
		if !slices.ContainsFunc(found, isSame(n)) && slices.Equal(tokens(f.file.between(n.Pos(), n.End())), wanted) {
			found = append(found, n)
		}
		return true
	})
	return found
}

// tokens splits code, without comments and line ends.
func tokens(code string) []string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(code)), []byte(code), nil, 0)
	var all []string
	for {
		_, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return all
		case kind == token.SEMICOLON && text == "\n":
		case text != "":
			all = append(all, text)
		default:
			all = append(all, kind.String())
		}
	}
}
