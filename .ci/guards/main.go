// Command guards tests the tests of dnscheck: it removes one guard of the code at a time,
// and requires that the test named for it fails. Run it in the root of the module, after a
// change of dnscheck:
//
//	go run ./.ci/guards              all guards
//	go run ./.ci/guards id quorum    only these
//	go run ./.ci/guards -n           only whether the code has each guard, and compiles without it
//
// It prints the tests that failed for each guard. It exits with 1 if a guard is not found, if
// the code without it does not compile, or if no test notices.
//
// The tests are built once, with a copy of a function for each guard that it has.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	directory = "dnscheck"
	variable  = "ORGOPS_TEST_REMOVED_GUARD"
)

func main() {
	dry := flag.Bool("n", false, "find each guard in the code, compile, and run no test")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, flag.Args(), *dry, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string, dry bool, out io.Writer) error {
	selected, err := selectGuards(names)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "guards")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	tests, err := build(ctx, work)
	if err != nil || dry {
		return err
	}
	if failed, err := tests.run(ctx, "", allTests(selected)); err != nil || len(failed) > 0 {
		return errors.Join(errors.New("tests fail with all guards: "+strings.Join(failed, " ")), err)
	}
	missed := 0
	for _, g := range selected {
		failed, err := tests.run(ctx, g.name, g.test)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			missed++
			fmt.Fprintf(out, "guard %s: %v\n", g.name, err)
		case len(failed) == 0:
			missed++
			fmt.Fprintf(out, "guard %s: %s DOES NOT FAIL without it\n", g.name, g.test)
		default:
			fmt.Fprintf(out, "%-13s -> %s\n", g.name, strings.Join(failed, " "))
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d guards are not tested", missed, len(selected))
	}
	return nil
}

// selectGuards returns the guards of these names, or all.
func selectGuards(names []string) ([]guard, error) {
	if len(names) == 0 {
		return guards, nil
	}
	var selected []guard
	for _, name := range names {
		i := slices.IndexFunc(guards, func(g guard) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no guard %s", name)
		}
		selected = append(selected, guards[i])
	}
	return selected, nil
}

// allTests returns the pattern of the tests of these guards.
func allTests(guards []guard) string {
	var tests []string
	for _, g := range guards {
		if !slices.Contains(tests, g.test) {
			tests = append(tests, g.test)
		}
	}
	return strings.Join(tests, "|")
}

// binary is the path of a test binary whose guards can be removed.
type binary string

// build compiles the tests, over files that replace those of the package.
func build(ctx context.Context, work string) (binary, error) {
	files, err := removable(directory, variable, guards)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for path, text := range files {
		original, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(work, filepath.Base(path))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path, compiled := filepath.Join(work, "overlay.json"), filepath.Join(work, "tests")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", path, "-o", compiled, "./"+directory).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w:\n%s", err, output)
	}
	return binary(compiled), nil
}

var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+) \(`)

// run runs tests without a guard, or with all if it has no name. It returns the innermost tests
// that failed, at most three. It is an error if they end badly and none failed, or by the timeout.
func (b binary) run(ctx context.Context, guard, pattern string) (failed []string, err error) {
	cmd := exec.CommandContext(ctx, string(b), "-test.count=1", "-test.timeout=180s", "-test.run="+pattern)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), variable+"="+guard)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	output, err := cmd.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	for _, match := range failedTest.FindAllSubmatch(output, -1) {
		failed = append(failed, string(match[1]))
	}
	failed = slices.DeleteFunc(failed, func(test string) bool {
		return slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
	if strings.Contains(string(output), "panic: test timed out after") {
		failed, err = nil, errors.New("timeout")
	}
	if len(failed) == 0 {
		end := strconv.Quote(string(output[max(0, len(output)-2000):]))
		return nil, fmt.Errorf("%s ends badly, and names no test that failed: %w: %s", pattern, err, end)
	}
	return failed[:min(len(failed), 3)], nil
}
