// Command guards tests the tests: it removes one guard of guards.txt from the code at a time, and
// requires that the tests named for it fail. Run it in the root of the module, after a change of
// a package that has guards.
//
//	go run ./.ci/guards                           all guards
//	go run ./.ci/guards dnscheck tasks/handlers   those of these packages, named by their directories
//	go run ./.ci/guards Checker.Prove             those whose line has this text
//
// A package that has no guards selects none, so that all changed packages can be given. The exit
// status is 1 if a guard is not found, if the code without it does not compile, or if no test
// notices.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const table = ".ci/guards/guards.txt"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	untested, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if untested > 0 {
		fmt.Fprintf(os.Stderr, "%d guards are not tested\n", untested)
		os.Exit(1)
	}
}

// run tests the selected guards, and returns how many of them no test notices the absence of.
func run(ctx context.Context, selected []string) (untested int, err error) {
	guards, err := readGuards(selected)
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "guards")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()

	var missed atomic.Int64
	var tests errgroup.Group
	tests.SetLimit(runtime.NumCPU())
	for i, g := range guards {
		tests.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := g.test(ctx, filepath.Join(work, strconv.Itoa(i))); err != nil {
				missed.Add(1)
				fmt.Printf("%s: %v\n", g.line, err)
			}
			return nil
		})
	}
	err = tests.Wait()
	if err == nil {
		err = ctx.Err()
	}
	fmt.Printf("%d guards were removed, one at a time\n", len(guards))
	return int(missed.Load()), err
}

// guard is a line of the table: code of a function, without which tests have to fail.
type guard struct {
	line     string
	file     string // with the directory of its package
	function string // with the type of its receiver
	tests    string // the pattern of their names
	code     string
	without  string // what the code is replaced with
}

var form = regexp.MustCompile(`^(\S+\.go) (\S+) \| (.+?) \| (.+?) =>(.*)$`)

// readGuards reads the selected guards of the table; all if nothing is selected.
func readGuards(selected []string) (guards []guard, err error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		part := form.FindStringSubmatch(line)
		if part == nil {
			return nil, fmt.Errorf("%s: want file, function | tests | code => replacement, got %q", table, line)
		}
		g := guard{
			line: line, file: part[1], function: part[2], tests: part[3],
			code: part[4], without: strings.TrimSpace(part[5]),
		}
		if len(selected) == 0 || slices.ContainsFunc(selected, g.isOf) {
			guards = append(guards, g)
		}
	}
	return guards, nil
}

// isOf reports whether the guard is of a package, which is named by its directory, or its line has
// the text.
func (g guard) isOf(selected string) bool {
	info, err := os.Stat(selected)
	if err == nil && info.IsDir() {
		return path.Dir(g.file) == path.Clean(filepath.ToSlash(selected))
	}
	return strings.Contains(g.line, selected)
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: `)

// test runs the tests of the guard's package without the guard. It returns an error unless one of
// them fails. work is a directory to be made.
func (g guard) test(ctx context.Context, work string) error {
	changed, err := g.remove()
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(work, g.file, changed)
	if err != nil {
		return err
	}
	// To link takes longer than these tests: a third less without symbols for debuggers.
	output, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-ldflags=-s -w", "-timeout=180s",
		"-overlay", overlay, "-run", g.tests, "./"+path.Dir(g.file)).CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s DOES NOT FAIL without it", g.tests)
	case !failed.Match(output):
		return fmt.Errorf("%w, and no test failed: %s", err, output)
	}
	return nil
}

// remove returns the text of the file without the guard.
func (g guard) remove() (string, error) {
	text, err := os.ReadFile(g.file)
	if err != nil {
		return "", err
	}
	// The function, from its head to the bracket at the beginning of a line, or on one line.
	head := `func ` + g.function + `\(`
	if kind, method, ok := strings.Cut(g.function, "."); ok {
		head = `func \(\w+ \*?` + kind + `(\[\w+\])?\) ` + method + `\(`
	}
	at := regexp.MustCompile(`(?ms)^` + head + `(?:[^\n]*}$|.*?^})`).FindIndex(text)
	if at == nil {
		return "", fmt.Errorf("there is no function %s in %s: follow the code", g.function, g.file)
	}
	body := string(text[at[0]:at[1]])
	if n := strings.Count(body, g.code); n != 1 {
		return "", fmt.Errorf("%s has the code %d times: follow the code", g.function, n)
	}
	body = strings.Replace(body, g.code, g.without, 1)
	return string(text[:at[0]]) + body + string(text[at[1]:]), nil
}

// writeOverlay writes files to a new directory that have go build read the text instead of a file,
// and returns the name of the one for its flag -overlay.
func writeOverlay(work, file, text string) (string, error) {
	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(work, filepath.Base(file))
	overlay := filepath.Join(work, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600))
}
