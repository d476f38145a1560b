package httpapi_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"orgops/internal/httpapi"
	"orgops/internal/results"
	"orgops/tasks"
)

// TestDescription holds code and description together, both ways.
func TestDescription(t *testing.T) {
	doc, _ := description()
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	var routes, describedRoutes, kinds, describedParameters []string
	for _, route := range httpapi.Routes() {
		routes = append(routes, route.Pattern)
	}
	for _, kind := range tasks.Kinds() {
		kinds = append(kinds, kind.Name)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			describedRoutes = append(describedRoutes, method+" "+path)
			for _, p := range operation.Parameters {
				if p.Value.In == "query" {
					describedParameters = append(describedParameters, p.Value.Name)
				}
			}
		}
	}
	schemas := doc.Components.Schemas
	values := func(s *openapi3.SchemaRef) (all []string) {
		for _, one := range s.Value.Enum {
			all = append(all, strings.TrimPrefix(one.(string), "urn:orgops:problem:"))
		}
		return all
	}
	sorted := func(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }
	for what, c := range map[string]struct{ code, described []string }{
		"routes": {routes, describedRoutes}, "parameters": {httpapi.Parameters(), describedParameters},
		"kinds":    {kinds, values(schemas["kind"])},
		"problems": {httpapi.Problems(), values(schemas["problem"].Value.Properties["type"])},
	} {
		if diff := cmp.Diff(sorted(c.code), sorted(c.described)); diff != "" {
			t.Errorf("%s of the code (-) and of openapi.yaml (+): add there what it lacks\n%s", what, diff)
		}
	}
}

// TestDescriptionHasTheOutcomes compares the outcomes that the code knows with those that are
// described.
func TestDescriptionHasTheOutcomes(t *testing.T) {
	doc, _ := description()
	_, known, _ := strings.Cut(results.CheckOutcomes([]string{""}).Error(), "want of ")
	for _, p := range doc.Paths.Find("/v1/runs/{run}/rows").Get.Parameters {
		if text := p.Value.Description; p.Value.Name == "outcomes" && !strings.Contains(text, known) {
			t.Errorf("described as %q, without %q", text, known)
		}
	}
}

func TestDescriptionIsServed(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/openapi.yaml", "/v1/openapi.json"} {
		got := w.do(call{path: path})
		got.want(t, 200, "")
		if !strings.Contains(got.body, "3.1.0") || !strings.Contains(got.body, "/v1/runs/{run}") {
			t.Errorf("%s is not the description: %.200s", path, got.body)
		}
	}
	if source, _ := os.ReadFile("openapi.yaml"); strings.Contains(string(source), "<<:") {
		t.Error("openapi.yaml uses YAML's merge keys, which most readers of OpenAPI do not know")
	}
}
