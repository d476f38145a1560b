package surface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/reference"
)

// directory is testdata/surface, as seen from any package: they are all two directories below the
// root.
var directory, directoryErr = filepath.Abs("../../testdata/surface")

// Room is a directory of testdata/surface: what users see of a command, of pages, of an API.
type Room struct {
	name  string
	files []string // that were compared
}

// Open returns the room of that name. At the end of the test its directory must have no other
// files than those that were compared.
func Open(t *testing.T, name string) *Room {
	t.Helper()
	must(t, directoryErr)
	r := &Room{name: name}
	t.Cleanup(func() {
		if !t.Failed() {
			r.checkOthers(t)
		}
	})
	return r
}

// random are the texts that are random, and what stands for them in the files, so that a change
// which draws one number more changes no file.
var random = []struct {
	of      string
	pattern *regexp.Regexp
	instead string
}{
	{"the key of a notice", regexp.MustCompile(`notice=[A-Z2-7]{26}`), "notice=KEY"},
	{"the id of a run that was given none", regexp.MustCompile(`\b(\d{8}-\d{6})-[a-z2-7]{6}\b`), "$1-random"},
	{"a token", regexp.MustCompile(`orgops_[0-9a-f]{64}`), "orgops_TOKEN"},
	{"the hash of a token", regexp.MustCompile(`sha256: [0-9a-f]{64}`), "sha256: HASH"},
	{"a link of a customer", regexp.MustCompile(`(https://verify\.example\.com)/[\w-]{20,}`), "$1/LINK"},
}

// Compare compares a text with the file of that name, or writes it with -update.
func (r *Room) Compare(t *testing.T, name, text string) {
	t.Helper()
	for _, one := range random {
		text = one.pattern.ReplaceAllString(text, one.instead)
	}
	name += ".txt"
	r.files = append(r.files, name)
	path := filepath.Join(directory, r.name, name)
	if reference.Updating() {
		must(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("testdata/surface/%s/%s: users see something else (-before +now). If that is meant: "+
			"go generate ./internal/surface\n%s", r.name, name, diff)
	}
}

// checkOthers finds files that nothing was compared with, and removes them with -update.
func (r *Room) checkOthers(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(directory, r.name, "*"))
	must(t, err)
	for _, path := range all {
		if slices.Contains(r.files, filepath.Base(path)) {
			continue
		}
		if reference.Updating() {
			must(t, os.Remove(path))
			continue
		}
		t.Errorf("testdata/surface/%s/%s: nothing is compared with it", r.name, filepath.Base(path))
	}
}

// FileName returns the name of the file of a command or of a route: "runs show" and "GET
// /runs/{id}" as runs-show and GET-runs-id.
func FileName(of string) string {
	if home, is := strings.CutSuffix(of, "/{$}"); is {
		of = home + " home"
	}
	words := strings.FieldsFunc(of, func(r rune) bool { return strings.ContainsRune(" /{}.", r) })
	return strings.Join(words, "-")
}

// Indented returns a text with each line that is an object of JSON indented.
func Indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		var indented bytes.Buffer
		if !strings.HasPrefix(line, "{") || json.Indent(&indented, []byte(line), "", "  ") != nil {
			out.WriteString(line)
			continue
		}
		out.Write(indented.Bytes())
		if !bytes.HasSuffix(indented.Bytes(), []byte("\n")) {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// Example returns a command, what it prints, and its exit status.
func Example(command, stdout, stderr string, status int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "$ %s\n\n%s", command, ended(Indented(stdout)))
	if stderr != "" {
		fmt.Fprintf(&out, "\nstandard error:\n%s", ended(stderr))
	}
	fmt.Fprintf(&out, "\nexit status: %d\n", status)
	return out.String()
}

// ended returns a text with the end of its last line.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
