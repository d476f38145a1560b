package reference_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/reference"
)

func TestReferenceOfExitCodes(t *testing.T) {
	var rows [][]string
	for _, c := range constants(t, "../cli/exit.go", "Status") {
		rows = append(rows, []string{reference.Code(c.value), c.comment})
	}
	reference.Check(t, "exit-codes.md", "exit codes", reference.Table([]string{"code", "meaning"}, rows))
}

func TestReferenceOfOutcomes(t *testing.T) {
	var settled, open [][]string
	for _, c := range constants(t, "../ledger/outcome.go", "Outcome") {
		row := []string{reference.Code(c.value), c.comment}
		if ledger.Settles(ledger.Outcome(c.value)) {
			settled = append(settled, row)
		} else {
			open = append(open, row)
		}
	}
	header := []string{"outcome", "meaning"}
	reference.Check(t, "outcomes.md", "outcomes that settle a row", reference.Table(header, settled))
	reference.Check(t, "outcomes.md", "outcomes that leave a row open", reference.Table(header, open))
}

func TestReferenceOfReasons(t *testing.T) {
	sentence := func(reason string) string {
		return dnscheck.Verdict{Host: "HOST", Reason: dnscheck.Reason(reason), Basis: dnscheck.ByAuthority}.Plain()
	}
	var rows [][]string
	for _, c := range constants(t, "../../dnscheck/verdict.go", "Reason") {
		row := []string{reference.Code(c.value), c.comment, ""}
		if s := sentence(c.value); s != sentence("") {
			row[2] = reference.Prose(s)
		}
		rows = append(rows, row)
	}
	reference.Check(t, "outcomes.md", "reasons", reference.Table([]string{"reason", "meaning", "sentence"}, rows))
}

func TestReferenceOfMistakes(t *testing.T) {
	var rows [][]string
	for _, c := range constants(t, "../../dnscheck/report/mistake.go", "Mistake") {
		rows = append(rows, []string{reference.Code(c.value), c.comment})
	}
	reference.Check(t, "outcomes.md", "mistakes", reference.Table([]string{"mistake", "meaning"}, rows))
}

func TestReferenceOfEvents(t *testing.T) {
	var types [][]string
	for _, c := range constants(t, "../events/event.go", "") {
		types = append(types, []string{reference.Code(c.value), c.comment})
	}
	reference.Check(t, "events.md", "types", reference.Table([]string{"type", "meaning"}, types))
	reference.Check(t, "events.md", "members", reference.Table([]string{"member", "type", "meaning"}, members(t)))
}

// TestVariablesAreDocumented wants each environment variable on one of the pages.
func TestVariablesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("../cli/variables.go")
	if err != nil {
		t.Fatal(err)
	}
	pages := reference.Page(t, "settings.md") + reference.Page(t, "commands.md")
	for _, name := range regexp.MustCompile(`ORGOPS_\w+`).FindAllString(string(source), -1) {
		if !strings.Contains(pages, reference.Code(name)) {
			t.Errorf("docs/reference: neither settings.md nor commands.md has the variable %s", name)
		}
	}
}

type constant struct{ value, comment string }

// constants returns the constants of a file that have a type of this name, or whose
// names begin with it, in their order; "": all. Their comments are their texts on a page.
func constants(t *testing.T, file, kind string) (all []constant) {
	t.Helper()
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ, _ := spec.Type.(*ast.Ident)
		if of, ok := spec.Type.(*ast.SelectorExpr); ok {
			typ = of.Sel
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || typ == nil && !strings.HasPrefix(spec.Names[0].Name, kind) || typ != nil && typ.Name != kind {
			return true
		}
		c := constant{value.Value, comment(t, spec.Names[0].Name, cmp.Or(spec.Comment, spec.Doc))}
		if text, err := strconv.Unquote(value.Value); err == nil {
			c.value = text
		}
		all = append(all, c)
		return true
	})
	if len(all) == 0 {
		t.Fatalf("%s has no constants of %s", file, kind)
	}
	return all
}

// members returns the rows of the members of an event's data.
func members(t *testing.T) (rows [][]string) {
	ast.Inspect(parsed(t, "../events/event.go"), func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Data" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			name := field.Names[0].Name
			goField, _ := reflect.TypeFor[events.Data]().FieldByName(name)
			member, _, _ := strings.Cut(goField.Tag.Get("json"), ",")
			rows = append(rows, []string{reference.Code(member), inJSON(t, goField.Type),
				comment(t, name, cmp.Or(field.Comment, field.Doc))})
		}
		return false
	})
	return rows
}

// inJSON returns what a Go type is in JSON.
func inJSON(t *testing.T, typ reflect.Type) string {
	t.Helper()
	name, ok := map[string]string{
		"string": "string", "int64": "integer", "time.Time": "string, a time by RFC 3339",
		"map[string]int64": "object of integers",
	}[typ.String()]
	if !ok {
		t.Fatalf("%s: say here what it is in JSON", typ)
	}
	return name
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// comment returns the comment at the end of a line, which has to be there.
func comment(t *testing.T, name string, group *ast.CommentGroup) string {
	t.Helper()
	if group == nil {
		t.Errorf("%s has no comment behind or above it, which is its text in docs/reference", name)
	}
	return reference.Prose(group.Text())
}
