package reference

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is generated, such as docs/reference, instead of comparing it")

// Updating reports whether the test writes what is generated: it has the flag -update.
func Updating() bool { return *update }

// pages is the pages' directory, from that of a package in cmd or internal.
const pages = "../../docs/reference"

// Check compares a part of a page with text, or writes the text there if the test was
// started with -update. The rest of the page is written by hand.
func Check(t testing.TB, page, part, text string) {
	t.Helper()
	got := Page(t, page)
	first := "<!-- Written by go generate ./internal/reference: " + part + ". -->\n"
	const last = "<!-- Up to here. -->\n"
	before, rest, begins := strings.Cut(got, first)
	_, after, ends := strings.Cut(rest, last)
	if !begins || !ends {
		t.Fatalf("docs/reference/%s: want the lines %q and %q", page, first, last)
	}
	want := before + first + "\n" + strings.TrimSpace(text) + "\n\n" + last + after
	if *update {
		if err := os.WriteFile(filepath.Join(pages, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("docs/reference/%s differs from the code: run go generate ./internal/reference (-code +page):\n%s",
			page, diff)
	}
}

// Page returns the text of a page.
func Page(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pages, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
