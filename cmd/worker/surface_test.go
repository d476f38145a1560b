package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"orgops/internal/cli"
	"orgops/internal/surface"
)

// surfaceOf are the commands with their examples: arguments after the settings in the
// environment, if there are any. Commands that start processes, or test the machine, have only
// the errors of their settings.
var surfaceOf = []struct{ command, examples string }{
	{"work", `
--check-config
BASE_URL=https://acme.example.com/api/v2 CLIENT_ID=id CLIENT_SECRET=secret --check-config
--config two.yaml --check-config
--config tenants.yaml --check-config
--config no-such-file.yaml --check-config
--config two.yaml --tenant acme --check-config
--config twice.yaml --check-config
BASE_URL=https://acme.example.com/api/v2 CLIENT_ID=id --check-config
BASE_URL=https://acme.example.com TOKEN=t --rate 16/s --burst 50 --sweep=@daily --protect=a.example --check-config
BASE_URL=https://acme.example.com TOKEN=t --rate fast --check-config
BASE_URL=https://acme.example.com TOKEN=t --burst 0 --check-config
BASE_URL=https://acme.example.com TOKEN=t --resolvers 192.0.2.1 --check-config
BASE_URL=https://acme.example.com TOKEN=t --sweep often --check-config
BASE_URL=https://acme.example.com TOKEN=t --give-up 0s --check-config
BASE_URL=https://acme.example.com TOKEN=t --http-addr 0.0.0.0:8080 --check-config
BASE_URL=https://acme.example.com TOKEN=t --redis-url redis://user:secret@redis.example:6379/0 --check-config
BASE_URL=http://acme.example.com TOKEN=t --check-config
BASE_URL=https://acme.example.com TOKEN=t TENNANT=acme --check-config
--raet 16/s
start`},
	{"doctor", `
doctor
doctor --config no-such-file.yaml
BASE_URL=https://acme.example.com TOKEN=t doctor --redis-url nonsense`},
	{"sandbox", `
sandbox --organizations=-1
sandbox --absent 90 --servfail 20
sandbox --api-addr nonsense`},
	{"completion", "completion tcsh"},
}

// surfaceFiles are the files that the examples name.
func surfaceFiles() map[string]string {
	return map[string]string{
		"two.yaml": "tenants:\n" +
			"  - {name: one, base_url: https://one.example.com/api/v2, token_env: ONE, rate: 16/s, burst: 50}\n" +
			"  - {name: two, base_url: https://two.example.com/api/v2, token_env: TWO, sweep: '0 3 * * 0'}\n",
		"tenants.yaml": "tenants:\n" +
			"  - {name: one, base_url: https://one.example.com/api/v2, token_file: token, webhooks: hooks.yaml}\n",
		"twice.yaml": "tenants:\n  - {name: one, base_url: https://one.example.com/api/v2, token_file: token}\n" +
			"  - {name: one, base_url: https://two.example.com/api/v2, token_file: token, raet: 2/s}\n",
		"token":      "secret\n",
		"hooks.yaml": "endpoints:\n  - {name: crm, url: https://crm.example.com/hook, secret_file: hook}\n",
		"hook":       "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n",
	}
}

// TestSurface compares what each command prints that needs no process.
func TestSurface(t *testing.T) {
	room := surface.Open(t, "worker")
	t.Setenv("COLUMNS", "80") // the width of the help
	t.Chdir(t.TempDir())
	for name, text := range surfaceFiles() {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app, err := cli.Program{Name: "worker"}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	help := []string{exampleOf(t, "--help")}
	for _, command := range cli.Commands(app.Node) {
		name := strings.TrimPrefix(command.FullPath(), "worker ")
		if !slices.ContainsFunc(surfaceOf, func(s struct{ command, examples string }) bool { return s.command == name }) &&
			name != "man" { // whose text is that of --help
			t.Errorf("worker %s: the surface has no examples of it: add some to surfaceOf", name)
		}
		help = append(help, exampleOf(t, name+" --help"))
	}
	room.Compare(t, "help", strings.Join(help, surface.Separator))
	for _, s := range surfaceOf {
		var shown []string
		for line := range strings.Lines(strings.TrimSpace(s.examples)) {
			shown = append(shown, exampleOf(t, strings.TrimSpace(line)))
		}
		room.Compare(t, s.command, strings.Join(shown, surface.Separator))
	}
}

// exampleOf runs a command, and returns what it prints.
func exampleOf(t *testing.T, line string) string {
	t.Helper()
	environ := []string{"ONE=secret", "TWO=secret"}
	var args []string
	for word := range strings.FieldsSeq(line) {
		if name, value, is := strings.Cut(word, "="); is && len(args) == 0 && !strings.HasPrefix(word, "-") {
			environ = append(environ, "ORGOPS_"+name+"="+value)
		} else {
			args = append(args, word)
		}
	}
	var stdout, stderr bytes.Buffer
	status := 0
	synctest.Test(t, func(t *testing.T) { // whose time the log has
		status = run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, environ)
	})
	return surface.Example("worker "+line, stdout.String(), stderr.String(), status)
}
