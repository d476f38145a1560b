package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	want := sampleReport(t)
	p := begin(t, nil, "--sandbox", "--drain")
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	if diff := cmp.Diff(want, evened(p.stdout.String())); diff != "" {
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

// sampleReport returns the report of the sample, computed from its stories alone: another
// sandbox with the same seed has the same names.
func sampleReport(t *testing.T) string {
	box := startBox(t, sandbox.Options{})
	sample := box.Seed()
	var b strings.Builder
	fmt.Fprintln(&b, "RUN  KIND  TENANT  ROWS  SETTLED  STATE  OUTCOMES")
	b.WriteString("sample-domains  domain:verify  default  200  200  done, 20 failed  170 done, 20 expired, 10 unchanged\n")
	b.WriteString("sample-clients  clients:remove  default  230  230  done  230 done\n")
	b.WriteString("sample-templates  template:create  default  25  25  done, 1 failed  23 done, 1 refused, 1 unchanged\n")
	fmt.Fprintf(&b, "sample-sweep  domain:recheck  default  %d  %[1]d  done  %[1]d unchanged\n", len(sample.Swept))
	b.WriteString("\nrun sample-domains (domain:verify), 20 of 200 rows failed:\n")
	b.WriteString(expiredReport(t, box, sample))
	taken := box.Templates()[0]
	b.WriteString("\nrun sample-templates (template:create), 1 of 25 rows failed:\n")
	fmt.Fprintf(&b,
		"  1 refused: a template named %q exists already as %q with other content (presentation.portrait); rename one of the two\n     row 7 (%s)\n", taken.Name, taken.ID, taken.Name)
	fmt.Fprintln(&b, "\nrun sample-sweep (domain:recheck), what each domain's next sweep goes by:")
	for _, d := range sample.Swept {
		domain, _ := box.Domain(d.Organization, d.Domain)
		fmt.Fprintf(&b, "  %s (%s %s): %s%s\n", domain.Domain, d.Organization, d.Domain, d.State, map[string]string{
			"absent": ": There is no TXT record at " + domain.Host +
				": the name does not exist. (unproven: its token was never proven, so its absence proves nothing)",
			"unknown": ": The TXT record at " + domain.Host +
				" could not be checked: the domain's name servers do not answer as they should (SERVFAIL). (it counts neither as there nor as gone)",
		}[d.State])
	}
	return b.String()
}

// expiredReport returns the expired domains, by reason, the most frequent first.
func expiredReport(t *testing.T, box *sandbox.Sandbox, sample sandbox.Sample) string {
	type group struct {
		reason, shared string
		rows           []string
	}
	var groups []*group
	for i, row := range sample.DomainRows {
		if row.Outcome != "expired" {
			continue
		}
		domain, _ := box.Domain(row.Organization, row.Domain)
		reason := sentence(t, row.Case, domain)
		shared := values.ReplaceAllString(strings.NewReplacer(domain.Host+"."+domain.Domain, "…", domain.Host, "…",
			strings.TrimSuffix(domain.Host, "."+domain.Domain), "…").Replace(reason), `"…"`)
		at := slices.IndexFunc(groups, func(g *group) bool { return g.shared == shared })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{reason: reason, shared: shared})
		}
		groups[at].rows = append(groups[at].rows, fmt.Sprintf("row %d (%s %s): %s TXT %q", i, row.Organization, row.Domain,
			domain.Host, domain.TXT))
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.rows) - len(a.rows) })
	var b strings.Builder
	for _, g := range groups {
		reason, rows := g.shared, g.rows
		if len(rows) == 1 {
			reason = g.reason
		}
		if len(rows) > 3 {
			rows = append(rows[:3:3], fmt.Sprintf("and %d more", len(rows)-3))
		}
		fmt.Fprintf(&b, "  %d expired: %s\n     %s\n", len(g.rows), reason, strings.Join(rows, "\n     "))
	}
	return b.String()
}

// sentence returns the explanation of an expired domain for the customer.
func sentence(t *testing.T, story string, d sandbox.Domain) string {
	switch story {
	case "never":
		return "There is no TXT record at " + d.Host + ": the name does not exist."
	case "doubled_host":
		return "The record is at " + d.Host + "." + d.Domain + "; it must be at " + d.Host +
			". The DNS provider appends the domain itself: enter " + strings.TrimSuffix(d.Host, "."+d.Domain) +
			" as the record's name there, or the full name with a final dot."
	case "other_value":
		return "The value at " + d.Host + ` looks like one that was given before, or to another organization ("…"): ` +
			"add a TXT record with the expected value there."
	case "quoted":
		return "The value at " + d.Host + ` has quotation marks or backslashes in it ("\"` + d.TXT + `\""): enter it without.`
	}
	t.Fatalf("story %q is not known to expire", story)
	return ""
}

var (
	gaps = regexp.MustCompile(`(\S) {2,}`)
	// values are those of TXT records, quoted.
	values = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

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
			want: []string{"rate: 20/s, burst 7, reserve 20 %, sweep-share 20 %", "redis-url: redis://127.0.0.1:"},
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
			for _, line := range append(tc.want, "base-url: "+env["ORGOPS_BASE_URL"], "quorum 2") {
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
	p := begin(t, nil, "sandbox", "--organizations=200", "--seed=3", "--absent=10", "--servfail=5", "--remember=1")
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

// TestTwoTenants has a worker serve two tenants from a file, each with rows, a budget and
// credentials of its own.
func TestTwoTenants(t *testing.T) {
	t.Parallel()
	one, other := startBox(t, sandbox.Options{}), startBox(t, sandbox.Options{Seed: 7})
	env := map[string]string{
		"ONE_SECRET": one.ClientSecret(), "ORGOPS_REDIS_URL": redistest.URL(t), "ORGOPS_HTTP_ADDR": "off",
		"ORGOPS_PROBE_ADDR": "127.0.0.1:0",
		"ORGOPS_CONFIG":     filepath.Join(t.TempDir(), "config.yaml"),
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, other.ClientSecret()+"\n")
	entry := func(name string, box *sandbox.Sandbox, secret string) string {
		return fmt.Sprintf(
			"  - {name: %s, base_url: %q, client_id: %s, %s, rate: unlimited, resolvers: [%s], dns_mode: resolvers}\n", name,
			box.BaseURL(), box.ClientID(), secret, strings.Join(box.DNSAddrs(), ", "))
	}
	write(t, env["ORGOPS_CONFIG"],
		"tenants:\n"+entry("one", one, "client_secret_env: ONE_SECRET")+entry("other", other, "client_secret_file: "+secret))

	p, d := begin(t, env), newDesk(t)
	d.handIn(ledger.NewRun{ID: "of-one", Tenant: "one"}, tasks.TypeVerify, one.SeedDomains(20))
	d.handIn(ledger.NewRun{ID: "of-other", Tenant: "other"}, tasks.TypeVerify, other.SeedDomains(30))
	if got, want := d.ended("of-one").Counts["done"], int64(20); got != want {
		t.Errorf("%d rows of one are done, want %d", got, want)
	}
	if got, want := d.ended("of-other").Counts["done"], int64(30); got != want {
		t.Errorf("%d rows of the other are done, want %d", got, want)
	}
	if status, body := p.page("probe-addr", "/readyz"); status != http.StatusOK ||
		!strings.Contains(body, "\ntenant one: ok\n") || !strings.Contains(body, "\ntenant other: ok\n") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
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
