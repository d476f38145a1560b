package httpapi_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/httpapi"
	"orgops/internal/intake"
	"orgops/tasks"
)

func TestDescriptionIsValid(t *testing.T) {
	doc, _ := description()
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDescriptionHasTheRoutes holds code and description together, both ways.
func TestDescriptionHasTheRoutes(t *testing.T) {
	doc, _ := description()
	var described []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	slices.Sort(described)
	var routes []string
	for _, route := range httpapi.Routes() {
		routes = append(routes, route.Pattern)
	}
	slices.Sort(routes)
	if diff := cmp.Diff(routes, described); diff != "" {
		t.Errorf("routes of the code (-) and of openapi.yaml (+):\n%s", diff)
	}
}

func TestDescriptionHasTheProblems(t *testing.T) {
	doc, _ := description()
	var described []string
	for _, one := range doc.Components.Schemas["problem"].Value.Properties["type"].Value.Enum {
		described = append(described, strings.TrimPrefix(one.(string), "urn:orgops:problem:"))
	}
	if diff := cmp.Diff(httpapi.Problems(), described); diff != "" {
		t.Errorf("problems of the code (-) and of openapi.yaml (+):\n%s", diff)
	}
}

func TestDescriptionHasTheKinds(t *testing.T) {
	doc, _ := description()
	var described, want []string
	for _, one := range doc.Components.Schemas["kind"].Value.Enum {
		described = append(described, one.(string))
	}
	for _, kind := range tasks.Kinds() {
		want = append(want, kind.Name)
	}
	if diff := cmp.Diff(want, described); diff != "" {
		t.Errorf("kinds of the code (-) and of openapi.yaml (+):\n%s", diff)
	}
}

// TestDescriptionHasTheOutcomes compares the outcomes that the code knows with those that are
// described.
func TestDescriptionHasTheOutcomes(t *testing.T) {
	doc, _ := description()
	_, known, _ := strings.Cut(intake.CheckOutcomes([]string{""}).Error(), "want of ")
	for _, p := range doc.Paths.Find("/v1/runs/{run}/rows").Get.Parameters {
		if text := p.Value.Description; p.Value.Name == "outcomes" && !strings.Contains(text, known) {
			t.Errorf("described as %q, without %q", text, known)
		}
	}
}

// TestDescriptionHasTheParameters holds the parameters that the code reads
// against those that are described.
func TestDescriptionHasTheParameters(t *testing.T) {
	doc, _ := description()
	described := map[string]bool{}
	for _, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, p := range operation.Parameters {
				if p.Value.In == "query" {
					described[p.Value.Name] = true
				}
			}
		}
	}
	read := map[string]bool{}
	for _, name := range httpapi.Parameters() {
		read[name] = true
	}
	if diff := cmp.Diff(read, described); diff != "" {
		t.Errorf("parameters of the code (-) and of openapi.yaml (+):\n%s", diff)
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
