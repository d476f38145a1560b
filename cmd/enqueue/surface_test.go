package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/cli"
	"orgops/internal/sandbox"
	"orgops/internal/surface"
)

// surfaceOf are the commands with their examples. A domain's commands are those of acme unless
// they name another tenant.
var surfaceOf = []struct{ command, examples string }{
	{"activity", `
activity
activity acme --since 30d --json
activity --run october --since 30d
activity acme --by ada
activity --since yesterday
activity Acme
activity quit
activity quiet --since 1s`},
	{"access new", `
access new alice --role operator
access new crm --role submitter --kinds domain:verify --rows-a-day 100
access new crm --role submitter
access new bob --role king`},
	{"clients remove", `
clients remove clients.csv --tenant acme --run more-removals
clients remove clients.csv --tenant acme --dry-run
clients remove clients.csv --tenant acme --run removals
clients remove clients.csv --tenant nobody
clients remove bad.csv --tenant acme
clients remove --everywhere --client cli_1 --tenant acme
clients remove --everywhere --client cli_1 --tenant acme clients.csv
clients remove --everywhere --tenant acme --expect 3
clients remove --client cli_1 --tenant acme
clients remove --everywhere --client cli_1 --tenant nobody --expect 3`},
	{"domains check", `
domains check --host _v.here.example --txt token-1 RESOLVERS
domains check --host _v.quoted.example --txt token-1 RESOLVERS
domains check --host _v.missing.example --txt token-1 RESOLVERS --json
domains check records.csv RESOLVERS
domains check --host _v.here.example
domains check no-such-file.csv
domains check nothing.example --tenant acme RESOLVERS`},
	{"domains history", `
domains history lost.example --tenant acme
domains history revoked.example --tenant acme --json
domains history returned.example --tenant acme
domains history never.example --tenant acme
domains history ord_99 --tenant acme`},
	{"domains instructions", `
domains instructions quoted.example --tenant acme RESOLVERS
domains instructions missing.example --tenant acme --format markdown RESOLVERS
domains instructions missing.example --tenant acme --format html RESOLVERS
domains instructions late.example --tenant acme --json RESOLVERS
domains instructions never.example --tenant acme`},
	{"domains link", `
domains link missing.example --tenant acme --link-keys link.key --link-url https://verify.example.com
domains link missing.example --tenant acme --for 2d --json --link-keys link.key --link-url https://verify.example.com
domains link missing.example --tenant acme --revoke
domains link missing.example --tenant acme
domains link missing.example --tenant acme --for 90d --link-keys link.key --link-url https://verify.example.com
domains link never.example --tenant acme`},
	{"domains revoke", `
domains revoke --tenant acme --dry-run
domains revoke --tenant acme --dry-run --json
domains revoke --tenant acme --run lost
domains revoke --tenant acme --org org_shop
domains revoke --tenant acme --undo revocation --run undone
domains revoke --tenant acme --undo october
domains revoke --tenant acme --absent-for 1h
domains revoke --tenant acme --max 1 --dry-run
domains revoke --tenant acme --undo revocation --max 5
domains revoke --tenant nobody`},
	{"domains show", `
domains show proven.example --tenant acme
domains show quoted.example --tenant acme
domains show lagging.example
domains show nowhere.example
domains show quoted.example --tenant nobody
domains show quoted.example --tenant acme --json
domains show disagreeing.example --tenant acme
domains show ord_08 --org org_shop --tenant acme
domains show lost.example --tenant acme
domains show protected.example --tenant acme
domains show late.example --tenant acme --rows 5
domains show ord_03 --org org_shop --tenant acme
domains show quote.example --tenant acme
domains show quo --tenant acme
domains show quoted.example --tenant acme --rows=-1`},
	{"domains sweep", `
domains sweep --tenant acme --dry-run
domains sweep --tenant acme --dry-run --json
domains sweep --tenant quiet --dry-run
domains sweep --tenant acme --run by-hand
domains sweep --tenant acme --run by-hand --org org_swept --verify-pending --json
domains sweep --tenant nobody
domains sweep --tenant acme --dry-run --follow`},
	{"domains update", `
domains update updates.csv --tenant acme --run more-updates
domains update --tenant acme --domain lost.example --status pending --run one-update --json
domains update updates.csv --tenant acme --dry-run
domains update --tenant acme --domain lost.example --status verified
domains update --tenant acme --domain never.example --status pending
domains update --tenant acme --undo updates --dry-run
domains update --tenant acme --undo updates --run undone
domains update --tenant acme --undo removals
domains update updates.csv --tenant acme --undo updates`},
	{"domains verify", `
domains verify rows.csv --tenant acme --run more --label more
domains verify rows.csv --tenant acme --run more --json
domains verify rows.csv --tenant acme --dry-run
domains verify rows.csv --tenant acme --dry-run --json
domains verify bad.csv --tenant acme --run more
domains verify bad.csv --tenant acme --run more --skip-invalid --rejected rejected.csv
domains verify unknown.csv --tenant acme
domains verify empty.csv --tenant acme
domains verify rows.csv --tenant acme --run domains
domains verify rows.csv --tenant acme --run cancelled
domains verify rows.csv --tenant unserve
domains verify rows.csv --tenant fresh --no-worker-yet --run first
domains verify missing.example --tenant acme --run again
domains verify first.example --org org_pending --tenant acme --run by-name
domains verify --pending --tenant acme --run all-pending
domains verify --pending --dry-run --tenant acme
domains verify rows.csv --read --tenant acme
domains verify rows.csv --tenant acme --not-before yesterday
domains verify rows.csv --tenant acme --run not/an/id
domains verify no-such-file.csv --tenant acme`},
	{"evidence export", `
evidence export --since 7d
evidence export --since 2026-11-20 --tenant acme --domain proven.example
evidence export --since never`},
	{"runs list", `
runs list
runs list --tenant acme --json
runs list --state open
runs list --state ended --limit 3
runs list --state attention --kind domain:verify
runs list --label shops
runs list --tenant quiet
runs list --tenant quit
runs list --limt 3
runs lsit
runs list --state lost`},
	{"runs show", `
runs show domains
runs show domains --json
runs show domains --open
runs show october
runs show october --json
runs show sweep-acme-1795143600
runs show sweep-acme-1794884400
runs show revocation
runs show removals
runs show executing
runs show scanning
runs show paused
runs show cancelled
runs show staged
runs show tomorrow
runs show pending
runs show signup-4711
runs show blocked-run
runs show tokenless-run
runs show limited-run
runs show stopped-run
runs show unserved-run
runs show octobre
runs show october --rows=-1`},
	{"runs results", `
runs results october
runs results october --format jsonl --outcome done,refused
runs results domains --outcome open --format jsonl
runs results templates
runs results sweep-acme-1795143600 --outcome lost --format csv
runs results sweep-acme-1794884400 --outcome lost --format jsonl
runs results october --outcome lots
runs results october --json --format csv`},
	{"runs failed", `
runs failed october
runs failed october --json
runs failed removals
runs failed domains
runs failed octobre`},
	{"runs follow", `
runs follow october removals
runs follow october --json
runs follow templates
runs follow domains
runs follow octobre`},
	{"runs pause", `
runs pause queued
runs pause queued tomorrow --json
runs pause paused
runs pause october
runs pause octobre`},
	{"runs resume", `
runs resume paused
runs resume paused --json
runs resume queued
runs resume october`},
	{"runs cancel", `
runs cancel domains
runs cancel queued --json
runs cancel executing
runs cancel staged
runs cancel cancelled
runs cancel october`},
	{"runs delete", `
runs delete templates
runs delete templates --yes
runs delete templates --yes --json
runs delete domains --yes
runs delete october-again --yes
runs delete octobre --yes`},
	{"runs retry", `
runs retry october-again --run third
runs retry removals --run removals-again --json
runs retry october --run october-third
runs retry october --run october-again
runs retry templates
runs retry revocation
runs retry october --outcome done`},
	{"templates create", `
templates create templates.jsonl --tenant acme --run more-templates
templates create templates.jsonl --tenant acme --dry-run --json
templates create rows.csv --tenant acme
templates create bad.jsonl --tenant acme`},
	{"tenant show", `
tenant show
tenant show --json
tenant show acme
tenant show acme --json
tenant show blocked
tenant show limited
tenant show stopped
tenant show tokenless
tenant show unserved
tenant show quiet
tenant show quit`},
	{"tenant stop", `
tenant stop acme --reason ticket-4711 --by ada
tenant stop quiet --json
tenant stop stopped
tenant stop nobody
tenant stop fresh --no-worker-yet`},
	{"tenant start", `
tenant start stopped
tenant start stopped --json
tenant start acme`},
	{"tenant deliver", `
tenant deliver acme desk
tenant deliver acme desk --given-up
tenant deliver acme nobody
tenant deliver nobody desk`},
	{"tenant reassign", `
tenant reassign unserved
tenant reassign unserved --keep
tenant reassign acme
tenant reassign quiet --keep --json
tenant reassign nobody`},
	{"serve", `
serve
serve --no-auth --access access.yaml
serve --no-auth --max-rows 0
serve --no-auth --addr 0.0.0.0:8082
serve --access no-such-file.yaml`},
	{"customer-page", `
customer-page
customer-page --link-keys link.key
customer-page --link-keys link.key --link-url http://verify.example.com
customer-page --link-keys link.key --link-url https://verify.example.com --company-color blue`},
	{"completion", "completion tcsh"},
}

// surfaceFiles are the files that the examples name.
func surfaceFiles() map[string]string {
	return map[string]string{
		"rows.csv": "organization_id,discovery_domain_id\norg_shop,ord_03\norg_shop,ord_04\norg_shop,ord_03\n",
		"bad.csv": "organization_id,discovery_domain_id\norg_shop,ord_03\norg_shop,not an id\n,ord_04\n" +
			"org_shop\n",
		"unknown.csv": "organization_id,discovery_domain_id,colour\norg_shop,ord_03,blue\n",
		"empty.csv":   "organization_id,discovery_domain_id\n",
		"clients.csv": "organization_id,client_id\norg_shop,cli_7\norg_shop,cli_8\n",
		"updates.csv": "organization_id,discovery_domain_id,status\norg_shop,ord_03,pending\n",
		"records.csv": "verification_host,verification_txt\n_v.here.example,token-1\n_v.missing.example,token-1\n",
		"templates.jsonl": `{"name":"badge","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":` +
			`{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}` + "\n",
		"bad.jsonl":   `{"name":"badge","type":"mdl","dialect":"simplified/2.0"}` + "\n",
		"access.yaml": "",
		"link.key":    strings.Repeat("0123456789abcdef", 4) + "\n",
	}
}

// TestSurface compares what each command prints about the fixed world.
func TestSurface(t *testing.T) {
	room, world := surface.Open(t, "enqueue"), surface.New(t)
	// The goroutine that passes on signals starts with the first request for them and never ends: it
	// must start outside of the bubbles.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	box, err := sandbox.Start(sandbox.Options{NegativeTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	box.SetTXT("_v.here.example", "token-1")
	box.SetTXT("_v.quoted.example", `"token-1"`)
	t.Setenv("COLUMNS", "80") // the width of the help
	t.Chdir(t.TempDir())
	app, err := cli.Program{Name: "enqueue", Vars: labels()}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	help := []string{helpOf(t, "--help")}
	for _, command := range cli.Commands(app.Node) {
		name := strings.TrimPrefix(command.FullPath(), "enqueue ")
		help = append(help, helpOf(t, name+" --help"))
		if name == "man" { // the texts of --help
			continue
		}
		if !slices.ContainsFunc(surfaceOf, func(s struct{ command, examples string }) bool { return s.command == name }) {
			t.Errorf("enqueue %s: the surface has no examples of it: add some to surfaceOf", name)
		}
	}
	room.Compare(t, "help", strings.Join(help, surface.Separator))
	plain := []string{whoAmI(), "ada@laptop"}
	for i, addr := range box.DNSAddrs() {
		plain = append(plain, addr, fmt.Sprintf("192.0.2.%d:5300", i+51)) // as wide
	}
	for _, s := range surfaceOf {
		t.Run(surface.FileName(s.command), func(t *testing.T) {
			var shown []string
			for line := range strings.Lines(strings.TrimSpace(s.examples)) {
				t.Run("example", func(t *testing.T) {
					for name, content := range surfaceFiles() {
						if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					world.Show(t, func(t *testing.T, m *surface.Moment) {
						shown = append(shown, runExample(t, m, strings.TrimSpace(line), box.DNSAddrs()))
					})
				})
			}
			text := strings.Join(shown, surface.Separator)
			room.Compare(t, surface.FileName(s.command), strings.NewReplacer(plain...).Replace(text))
		})
	}
}

// helpOf returns what a command prints that needs nothing.
func helpOf(t *testing.T, line string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), strings.Fields(line), strings.NewReader(""), &stdout, &stderr, nil)
	return surface.Example("enqueue "+line, stdout.String(), stderr.String(), status)
}

// interruptedAfter is when a command is interrupted that follows a run: between two readings.
const interruptedAfter = 10*time.Second + 500*time.Millisecond

// runExample runs a command at a moment, and returns what it prints.
func runExample(t *testing.T, m *surface.Moment, line string, resolvers []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), interruptedAfter)
	defer cancel()
	args := strings.Fields(strings.ReplaceAll(line, "RESOLVERS",
		"--dns-mode resolvers --resolvers "+strings.Join(resolvers, ",")))
	if !strings.Contains(line, "domains check") {
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--dns-mode" || arg == "resolvers" })
	}
	var stdout, stderr bytes.Buffer
	tool := newTool(args, strings.NewReader(""), &stdout, &stderr, nil)
	tool.redis = m.Client()
	status := tool.run(ctx)
	return surface.Example("enqueue "+strings.ReplaceAll(line, " RESOLVERS", ""), stdout.String(), stderr.String(), status)
}
