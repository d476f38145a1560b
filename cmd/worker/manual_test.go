package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"orgops/internal/cli"
)

// written returns what the command writes to stdout.
func written(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := typed(t, nil, args...)
	if status != 0 || stderr != "" {
		t.Fatalf("%q: status %d, stderr %s", args, status, stderr)
	}
	return stdout
}

func TestManPage(t *testing.T) {
	page := written(t, "man")
	for _, want := range []string{".TH WORKER 1", `.B \-\-redis\-url=`, "$ORGOPS_RESOLVERS",
		".SS worker doctor", ".SS worker sandbox"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, name := range regexp.MustCompile(`ORGOPS_[A-Z0-9_]+`).FindAllString(page, -1) {
		if unknown := cli.NewEnvironment([]string{name + "=x"}).Unknown(); len(unknown) > 0 {
			t.Error(unknown)
		}
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed: the page is not checked by it")
	}
	cmd := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "warning")
	cmd.Stdin = strings.NewReader(page)
	out, _ := cmd.CombinedOutput() // the status depends on the date too
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") { // one would make the page another each day
			t.Errorf("mandoc: %s", line)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(script, []byte(written(t, "completion", "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"worker do":             "doctor",
		"worker --redis-u":      "--redis-url",
		"worker doctor --js":    "--json",
		"worker sandbox --read": "--read-lag",
		"worker doctor xyz":     "",
	} {
		const complete = `source "$1"; read -ra COMP_WORDS <<<"$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _worker; echo "${COMPREPLY[*]}"`
		out, err := exec.CommandContext(t.Context(), bash, "--norc", "-c", complete, "bash", script, typed).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q is completed to %q (%v), want %q", typed, got, err, want)
		}
	}
}

func TestOtherShells(t *testing.T) {
	for shell, want := range map[string]string{"zsh": "#compdef worker\n", "fish": "' -a doctor -d 'Test Redis"} {
		script := written(t, "completion", shell)
		if !strings.Contains(script, want) {
			t.Errorf("%s: no %q in\n%s", shell, want, script)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue // the shell is not installed
		}
		cmd := exec.CommandContext(t.Context(), program, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
	}
}
