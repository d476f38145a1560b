package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestSandboxDrain runs the sample as a new user would, with the binary alone.
func TestSandboxDrain(t *testing.T) {
	redistest.NeedsLong(t, "the sample takes half a minute: rows give up after 25 s")
	t.Parallel()
	// The names in it follow from the sandbox's seed.
	want, err := os.ReadFile("testdata/sample.golden")
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, nil, "--sandbox", "--drain")
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	if diff := cmp.Diff(string(want), evened(p.stdout.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, word := range []string{"This is a sandbox, all in memory", "Management API at http://127.0.0.1:",
		"Four sample runs start now", "Next: run it without --drain", "http://127.0.0.1:8080/", "run sample-domains: ",
		"run sample-clients: 230 of 230 rows, 230 done"} {
		if !strings.Contains(p.stderr.String(), word) {
			t.Errorf("stderr has no %q", word)
		}
	}
	if strings.Contains(p.stderr.String(), `"level"`) {
		t.Error("the log is in the way of the progress")
	}
}

var gaps = regexp.MustCompile(`(\S) {2,}`)

// evened returns the table with two spaces between columns.
func evened(table string) string { return gaps.ReplaceAllString(table, "$1  ") }

// TestSandboxSettings checks that a worker accepts the settings that the sandbox prints.
func TestSandboxSettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{
			name: "a tenant alone", args: []string{"--rate=0"},
			want: []string{"redis-url: redis://127.0.0.1:6379/0"},
		},
		{
			name: "with a rate limit and a Redis", args: []string{"--rate=20", "--burst=7", "--redis-addr=127.0.0.1:0"},
			want: []string{"rate: 20/s", "burst: 7", "redis-url: redis://127.0.0.1:"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := begin(t, nil, append([]string{"sandbox"}, tc.args...)...)
			await(t, "the last of what is printed", func() bool { return strings.Contains(p.stderr.String(), "Sample rows: ") })
			env := settingsOf(strings.Split(strings.TrimSuffix(p.stdout.String(), "\n"), "\n"))
			status, stdout, stderr := typed(t, env, "--check-config")
			if status != 0 || stderr != "" {
				t.Errorf("status %d, stderr %s", status, stderr)
			}
			for _, line := range append(tc.want, "base-url: "+env["ORGOPS_BASE_URL"], "resolver-quorum: 2") {
				if !strings.Contains(stdout, line) {
					t.Errorf("no %q in\n%s", line, stdout)
				}
			}
			if secret := env["ORGOPS_CLIENT_SECRET"]; secret == "" || strings.Contains(stdout, secret) {
				t.Errorf("the secret is missing in the settings, or shown")
			}
			if status := p.stop(); status != 0 {
				t.Errorf("stopped with status %d", status)
			}
		})
	}
}

// TestSandboxCrowd checks that a tenant can have organizations from the start, and that it
// reports the requests it received.
func TestSandboxCrowd(t *testing.T) {
	t.Parallel()
	p := begin(t, nil, "sandbox", "--organizations=200", "--seed=3", "--absent=10", "--servfail=5")
	await(t, "the last of what is printed", func() bool { return strings.Contains(p.stderr.String(), "Sample rows: ") })
	like, err := sandbox.Start(sandbox.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = like.Close() }()
	crowd := like.SeedBulk(sandbox.BulkOptions{Organizations: 200, Absent: 0.1, Servfail: 0.05})
	want := fmt.Sprintf("200 organizations have %d verified domains; %d have no TXT record, DNS answers SERVFAIL for %d\n",
		crowd.Domains, crowd.Absent, crowd.Servfail)
	if !strings.Contains(p.stderr.String(), want) {
		t.Errorf("want %q in:\n%s", want, &p.stderr)
	}
	base, _, _ := strings.Cut(settingsOf(strings.Split(p.stdout.String(), "\n"))["ORGOPS_BASE_URL"], "/api/v2")
	fetch(t, http.MethodGet, base+"/api/v2/organizations", "")
	if status, body := fetch(t, http.MethodGet, base+"/_sandbox/counts", ""); status != http.StatusOK ||
		!strings.Contains(body, `"list_organizations":{"all":1,`) {
		t.Errorf("counts: %d %s", status, body)
	}
	for _, bad := range []string{"--organizations=-1", "--absent=-1", "--absent=60 --servfail=50", "--absent=NaN"} {
		if status, _, stderr := typed(t, nil, append([]string{"sandbox"}, strings.Fields(bad)...)...); status != 2 {
			t.Errorf("%s: status %d, stderr %s", bad, status, stderr)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// well checks that a run has ended with all its rows done or unchanged.
func (d desk) well(id string, rows int64) {
	d.t.Helper()
	r := d.ended(id)
	if r.Total() != rows || r.Settled() != rows || r.Counts["done"]+r.Counts["unchanged"] != rows {
		d.t.Errorf("run %s: %d rows, %d settled, %v; want %d, all well", id, r.Total(), r.Settled(), r.Counts, rows)
	}
}

// TestRedisAwayAtStart starts a worker before its Redis.
func TestRedisAwayAtStart(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	way, url := cutOff(t)
	p := begin(t, pointedAt(box, url, map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"}))
	absent := "redis at " + way.addr + " does not answer"
	p.says("waiting for Redis", map[string]string{"level": "ERROR", "error": absent})
	await(t, "a check that names Redis", func() bool { // on a busy machine one may be late
		status, body := p.page("probe-addr", "/readyz")
		if status != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d %s", status, body)
		}
		return strings.Contains(body, absent)
	})
	if status, _ := p.page("probe-addr", "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}

	d.handIn(ledger.NewRun{ID: "clients"}, tasks.TypeRemove, box.SeedClients(10))
	way.set(intact)
	d.well("clients", 10)
	await(t, "readiness", func() bool { // a readiness result is cached for two seconds
		status, _ := p.page("probe-addr", "/readyz")
		return status == http.StatusOK
	})
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestStoppedBeforeRedis stops a worker that still waits.
func TestStoppedBeforeRedis(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	_, url := cutOff(t)
	p := begin(t, pointedAt(box, url, nil))
	p.says("waiting for Redis", nil)
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestSecretAwayAtStart starts a worker before its secret has been written: it names the file, and
// serves once that exists.
func TestSecretAwayAtStart(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	file := filepath.Join(t.TempDir(), "client-secret")
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_CLIENT_SECRET_FILE": file})
	delete(env, "ORGOPS_CLIENT_SECRET")
	p := begin(t, env)
	p.says("waiting for a file that the settings name", map[string]string{"level": "ERROR",
		"error": "client secret: open " + file + ": no such file or directory"})
	d.handIn(ledger.NewRun{ID: "clients"}, tasks.TypeRemove, box.SeedClients(10))
	write(t, file, box.ClientSecret())
	d.well("clients", 10)
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestStoppedBeforeItsSecret stops a worker that waits for a file.
func TestStoppedBeforeItsSecret(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_REDIS_PASSWORD_FILE": "testdata/nowhere"})
	p := begin(t, env)
	p.says("waiting for a file that the settings name", nil)
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}
