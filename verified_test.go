package orgops_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// updates are the functions that make a change of a discovery domain, with the status that it sets.
// The one that proves a domain has a test of its own for each of its conditions (TestSendVerified).
var updates = map[string]string{
	"tasks/handlers verifier.sendVerified": "new(schema.StatusVerified)",
	"tasks/handlers verifier.revert":       "new(schema.StatusPending)",
	"tasks/handlers revocation.revoke":     "new(schema.StatusPending), none",
	"tasks/handlers revocation.undo":       "none",
	// The second way to status verified: a row of `domains update` may say so if the tenant has
	// allow_unproven, which update.execute asks.
	"tasks UpdateRow.Update": "r.Status",
}

// senders are the functions that send such a change.
var senders = []string{
	"internal/surface bound.UpdateDiscoveryDomain", // of the world of tests
	"tasks/handlers change.send",
	"tasks/handlers verifier.revert",
}

// TestWaysToVerified compares the functions that make and send a change of a discovery domain with
// the lists above, so that no third way to status verified appears beside them.
func TestWaysToVerified(t *testing.T) {
	made := map[string]string{}
	var sent []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".ci", "bench", "testdata"}, path):
			return fs.SkipDir // bench is a module of its own
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			name := filepath.ToSlash(filepath.Dir(path)) + " " + declared(d)
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && selected(call.Fun) == "UpdateDiscoveryDomain" {
					sent = append(sent, name)
				}
				literal, ok := n.(*ast.CompositeLit)
				if ok && selected(literal.Type) == "DiscoveryDomainUpdate" {
					made[name] = strings.TrimPrefix(made[name]+", "+statusOf(literal), ", ")
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(updates, made); diff != "" {
		t.Errorf("functions that make a change of a discovery domain (-want +got):\n%s", diff)
	}
	slices.Sort(sent)
	if diff := cmp.Diff(senders, slices.Compact(sent)); diff != "" {
		t.Errorf("functions that send a change of a discovery domain (-want +got):\n%s", diff)
	}
}

// declared returns the name of a function, with its receiver's type; "" for another declaration.
func declared(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	return strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + f.Name.Name
}

// selected returns the name that an expression selects, as f in x.f; "" for other expressions.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// statusOf returns the code of the status in a change; "none" if it has none.
func statusOf(literal *ast.CompositeLit) string {
	for _, e := range literal.Elts {
		member, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return "without names of members"
		}
		if types.ExprString(member.Key) == "Status" {
			return types.ExprString(member.Value)
		}
	}
	return "none"
}
