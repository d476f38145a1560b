package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
)

// TestVariables compares the known variables with those of the reference pages.
func TestVariables(t *testing.T) {
	pages, err := filepath.Glob("../../docs/reference/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	var documented []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		documented = append(documented, regexp.MustCompile(`\bORGOPS_[A-Z0-9_]+\b`).FindAllString(string(text), -1)...)
	}
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Sorted(slices.Values(cli.Variables)), slices.Compact(documented)); diff != "" {
		t.Errorf("known variables (-), documented (+):\n%s", diff)
	}
}
