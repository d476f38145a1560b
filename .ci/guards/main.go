// Command guards tests the tests of dnscheck: it removes one guard of guards.txt from the code at
// a time, and requires that the tests named for it fail. Run it in the root of the module, after a
// change of dnscheck; with arguments, only the guards whose line has one of them:
//
//	go run ./.ci/guards Checker.Prove
//
// It exits with 1 if a guard is not found, if the code without it does not compile, or if no test
// notices.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	missed, err := run(ctx, os.Args[1:])
	stop()
	if err != nil || missed > 0 {
		fmt.Fprintf(os.Stderr, "%d guards are not tested; error: %v\n", missed, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, selected []string) (missed int, err error) {
	table, err := os.ReadFile(".ci/guards/guards.txt")
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "guards")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var untested atomic.Int64
	var tests errgroup.Group
	tests.SetLimit(runtime.NumCPU())
	for i, line := range strings.Split(string(table), "\n") {
		line = strings.TrimSpace(line)
		chosen := len(selected) == 0 ||
			slices.ContainsFunc(selected, func(s string) bool { return strings.Contains(line, s) })
		if line == "" || line[0] == '#' || !chosen {
			continue
		}
		tests.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			dir := filepath.Join(work, strconv.Itoa(i))
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			if err := remove(ctx, dir, line); err != nil {
				untested.Add(1)
				fmt.Printf("%s: %v\n", line, err)
			}
			return nil
		})
	}
	err = tests.Wait()
	return int(untested.Load()), cmp.Or(ctx.Err(), err)
}

var wanted = regexp.MustCompile(`(?m)^\s*--- FAIL: `)

// remove runs the tests of a guard without it.
func remove(ctx context.Context, work, line string) error {
	fields := strings.SplitN(line, " | ", 3)
	file, function, _ := strings.Cut(fields[0], " ")
	before, after, _ := strings.Cut(fields[2], " =>")
	path, err := filepath.Abs(filepath.Join("dnscheck", file))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head := `func ` + function + `\(`
	if kind, method, ok := strings.Cut(function, "."); ok {
		head = `func \(\w+ \*?` + kind + `(\[\w+\])?\) ` + method + `\(`
	}
	body := regexp.MustCompile(`(?ms)^` + head + `(?:[^\n]*}$|.*?^})`).FindIndex(text)
	if body == nil {
		return fmt.Errorf("there is no function %s in %s: follow the code", function, file)
	}
	if n := strings.Count(string(text[body[0]:body[1]]), before); n != 1 {
		return fmt.Errorf("%s has the code %d times: follow the code", function, n)
	}
	changed := string(text[:body[0]]) + strings.Replace(string(text[body[0]:body[1]]), before, strings.TrimSpace(after),
		1) + string(text[body[1]:])
	mutant, overlay := filepath.Join(work, file), filepath.Join(work, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutant}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(mutant, []byte(changed), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-timeout=180s", "-overlay", overlay, "-run",
		fields[1], "./dnscheck").CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s DOES NOT FAIL without it", fields[1])
	case !wanted.Match(output):
		return fmt.Errorf("%w, and no test failed: %s", err, output)
	}
	return nil
}
