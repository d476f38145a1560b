package reference_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"orgops/internal/reference"
)

func TestReferenceOfAPI(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("../httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var operations, schemas strings.Builder
	for path, item := range sorted(doc.Paths.Map()) {
		for method, o := range sorted(item.Operations()) {
			writeOperation(&operations, method+" "+path, o, slices.Concat(item.Parameters, o.Parameters))
		}
	}
	for name, schema := range sorted(doc.Components.Schemas) {
		fmt.Fprintf(&schemas, "### %s\n\n", name)
		writeProse(&schemas, schema.Value.Description)
		fmt.Fprintln(&schemas, schemaText(schema.Value))
	}
	reference.Check(t, "api.md", "description", doc.Info.Description)
	reference.Check(t, "api.md", "operations", operations.String())
	reference.Check(t, "api.md", "schemas", schemas.String())
}

// sorted ranges over a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func writeOperation(b *strings.Builder, name string, o *openapi3.Operation, parameters openapi3.Parameters) {
	fmt.Fprintf(b, "### `%s`\n\n%s.\n\n", name, o.Summary)
	writeProse(b, o.Description)
	if len(parameters) > 0 {
		var rows [][]string
		for _, p := range parameters {
			rows = append(rows, []string{reference.Code(p.Value.Name), p.Value.In, typeOf(p.Value.Schema),
				isRequired(p.Value.Required), reference.Prose(p.Value.Description)})
		}
		fmt.Fprintln(b, reference.Table([]string{"parameter", "in", "type", "required", "meaning"}, rows))
	}
	if o.RequestBody != nil {
		fmt.Fprintf(b, "Body: %s.\n\n", contentOf(o.RequestBody.Value.Content))
		writeProse(b, o.RequestBody.Value.Description)
	}
	writeResponses(b, o.Responses.Map())
}

func writeProse(b *strings.Builder, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s\n\n", reference.Prose(text))
	}
}

// writeResponses writes the responses as a table, those that are alike in one row, then the
// members of bodies whose schemas have no name.
func writeResponses(b *strings.Builder, responses map[string]*openapi3.ResponseRef) {
	var rows [][]string
	var bodies strings.Builder
	for status, r := range sorted(responses) {
		row := []string{reference.Code(status), contentOf(r.Value.Content), reference.Prose(*r.Value.Description)}
		if same := slices.IndexFunc(rows, func(before []string) bool {
			return slices.Equal(before[1:], row[1:])
		}); same >= 0 {
			rows[same][0] += ", " + row[0]
		} else {
			rows = append(rows, row)
		}
		for _, media := range sorted(r.Value.Content) {
			if media.Schema.Ref == "" && len(media.Schema.Value.Properties) > 0 {
				fmt.Fprintf(&bodies, "The body of `%s`:\n\n%s\n", status, schemaText(media.Schema.Value))
			}
		}
	}
	fmt.Fprintf(b, "%s\n%s", reference.Table([]string{"status", "body", "meaning"}, rows), bodies.String())
}

// contentOf returns the types of a body, with their schemas where these have names.
func contentOf(content openapi3.Content) string {
	var types []string
	for name, media := range sorted(content) {
		text := reference.Code(name)
		if s := media.Schema; s.Ref != "" || len(s.Value.OneOf) > 0 || len(s.Value.Properties) > 0 {
			text += ": " + typeOf(s)
		}
		types = append(types, text)
	}
	return strings.Join(types, ", ")
}

// schemaText returns a schema's members as a table; of one without members its type.
func schemaText(s *openapi3.Schema) string {
	rows := memberRows(s, "")
	if len(rows) == 0 {
		return typeOf(&openapi3.SchemaRef{Value: s}) + "\n"
	}
	return reference.Table([]string{"member", "type", "required", "meaning"}, rows)
}

// memberRows returns the rows of a schema's members, and of those that lie in them without a
// name of their own.
func memberRows(s *openapi3.Schema, in string) (rows [][]string) {
	for name, member := range sorted(s.Properties) {
		rows = append(rows, []string{reference.Code(in + name), typeOf(member), isRequired(slices.Contains(s.Required, name)),
			reference.Prose(member.Value.Description)})
		if member.Ref == "" {
			rows = append(rows, memberRows(member.Value, in+name+".")...)
		}
	}
	if s.Items != nil && s.Items.Ref == "" {
		rows = append(rows, memberRows(s.Items.Value, strings.TrimSuffix(in, ".")+"[].")...)
	}
	return rows
}

func isRequired(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// typeOf returns a schema's name, or what it takes.
func typeOf(s *openapi3.SchemaRef) string {
	if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); name != "" {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	v := s.Value
	switch {
	case v.Const != nil:
		return reference.Code(fmt.Sprint(v.Const))
	case len(v.Enum) > 0:
		return joined(v.Enum, ", ", func(value any) string { return cmp.Or(reference.Code(fmt.Sprint(value)), "empty") })
	case len(v.OneOf) > 0:
		return joined(v.OneOf, " or ", typeOf)
	case len(v.AllOf) > 0:
		return joined(v.AllOf, " with ", typeOf)
	case v.Items != nil:
		return "array of " + typeOf(v.Items)
	case v.Type == nil: // a part of allOf
		return joined(v.Required, ", ", reference.Code)
	case v.Min != nil && v.Max != nil:
		return fmt.Sprintf("%s, %g to %g", strings.Join(v.Type.Slice(), " or "), *v.Min, *v.Max)
	case v.Format != "":
		return strings.Replace(strings.Join(v.Type.Slice(), " or "), "string", v.Format, 1)
	}
	return strings.Join(v.Type.Slice(), " or ")
}

// joined returns the texts of all, with sep between them.
func joined[T any](all []T, sep string, text func(T) string) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, text(one))
	}
	return strings.Join(texts, sep)
}
