package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// tenantFile is a file of tenants in a sandbox, which a test changes.
type tenantFile struct {
	t    *testing.T
	path string
	box  *sandbox.Sandbox
}

func newTenantFile(t *testing.T, box *sandbox.Sandbox) tenantFile {
	return tenantFile{t, filepath.Join(t.TempDir(), "tenants.yaml"), box}
}

// entry returns a tenant of the file, with more members.
func (f tenantFile) entry(name, more string) string {
	return fmt.Sprintf(
		"  - {name: %s, base_url: %q, client_id: %s, client_secret_env: SECRET, resolvers: [%s], dns_mode: resolvers%s}\n",
		name, f.box.BaseURL(), f.box.ClientID(), strings.Join(f.box.DNSAddrs(), ", "), more)
}

// write replaces the file as editors do.
func (f tenantFile) write(entries ...string) {
	f.t.Helper()
	write(f.t, f.path+"~", "tenants:\n"+strings.Join(entries, ""))
	if err := os.Rename(f.path+"~", f.path); err != nil {
		f.t.Fatal(err)
	}
}

// begin starts a worker of the file.
func (f tenantFile) begin(with ...string) *process {
	f.t.Helper()
	env := map[string]string{
		"SECRET": f.box.ClientSecret(), "ORGOPS_CONFIG": f.path, "ORGOPS_REDIS_URL": redistest.URL(f.t),
		"ORGOPS_HTTP_ADDR": "127.0.0.1:0", "ORGOPS_PROBE_ADDR": "127.0.0.1:0",
	}
	p := begin(f.t, env, with...)
	p.says("worker started", nil)
	return p
}

// hangUp sends SIGHUP to the workers of this process, which must have started.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// reloaded returns the log line of a reload that changed tenants. There may be others, which
// changed nothing: all workers of the process receive the signals of each test.
func (p *process) reloaded() (found map[string]any) {
	p.t.Helper()
	await(p.t, "a reload with changes", func() bool {
		for _, line := range logLines(p.stderr.String()) {
			if line["msg"] == "settings reloaded" && names(line, "changed") != "[]" {
				found = line
			}
		}
		return found != nil
	})
	return found
}

// names returns a member of a log line that is a list of names.
func names(line map[string]any, member string) string { return fmt.Sprint(line[member]) }

// TestReload changes the file of tenants while a worker runs. A file with an error has no
// effect. A valid one adds, changes and removes tenants, and does not disturb the others.
func TestReload(t *testing.T) {
	t.Parallel()
	const rows = 4
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	f := newTenantFile(t, box)
	rate := ", rate: 100/s, burst: 20"
	keep, gone := f.entry("keep", rate), f.entry("gone", rate)
	f.write(keep, f.entry("faster", rate), gone)
	p := f.begin()

	f.write(keep, f.entry("faster", ", rate: fast"))
	hangUp(t)
	line := p.says("settings refused: the former ones stay in force", nil)
	if text := names(line, "error"); !strings.Contains(text, f.path+": line 3: ") || !strings.Contains(text, "rate: ") {
		t.Errorf("refused for %s; want file, line and member", text)
	}
	await(t, "readiness with a note", func() bool { // the tokens may not be fetched yet
		status, body := p.page("probe-addr", "/readyz")
		return status == http.StatusOK && strings.Contains(body, "the changed file of tenants is refused")
	})
	if _, body := p.page("probe-addr", "/metrics"); !strings.Contains(body, "\norgops_settings_refused 1\n") {
		t.Error("the metrics do not show that the file is refused")
	}
	for _, name := range []string{"keep", "faster", "gone"} {
		d.handIn(ledger.NewRun{ID: ledger.RunID("former-" + name), Tenant: ledger.Tenant(name)},
			tasks.TypeUpdate, box.SeedUpdates(1))
		d.ended("former-" + name)
	}

	// These take longer than the reload, except for the rows of tenants that stop.
	slow := box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, AnswerLatency: 3 * time.Second})
	before := patches(box)
	for _, name := range []string{"keep", "faster", "gone"} {
		d.handIn(ledger.NewRun{ID: ledger.RunID("during-" + name), Tenant: ledger.Tenant(name)},
			tasks.TypeUpdate, box.SeedUpdates(rows))
	}
	await(t, "requests in progress", func() bool { return patches(box) == before+3*rows })
	slow()
	f.write(f.entry("added", rate), f.entry("faster", ", rate: 200/s, burst: 40"), keep)
	hangUp(t)
	line = p.reloaded()
	for member, want := range map[string]string{"added": "[added]", "changed": "[faster]", "removed": "[gone]"} {
		if got := names(line, member); got != want {
			t.Errorf("%s: %s, want %s", member, got, want)
		}
	}
	for _, name := range []string{"keep", "faster", "gone"} {
		d.well("during-"+name, rows)
	}
	if n := patches(box) - before; n != 3*rows {
		t.Errorf("%d requests for %d rows", n, 3*rows)
	}
	lines := logLines(p.stderr.String())
	if most, _ := attempts(lines); most != 0 {
		t.Errorf("%d attempts were used up", most)
	}
	for _, name := range []string{"keep", "faster", "added"} {
		d.handIn(ledger.NewRun{ID: ledger.RunID("after-" + name), Tenant: ledger.Tenant(name)},
			tasks.TypeUpdate, box.SeedUpdates(1))
		d.ended("after-" + name)
	}

	if s, ok, err := tenant.ReadAnnounced(t.Context(), d.redis, "faster"); err != nil || !ok || s.Rate != "200/s" {
		t.Errorf("announced %+v, %v, %v", s, ok, err)
	}
	await(t, "the session's tenants", func() bool {
		all, err := d.ledger.Sessions(t.Context())
		return err == nil && len(all) == 1 && slices.Equal(all[0].Tenants, []ledger.Tenant{"added", "faster", "keep"})
	})
	await(t, "readiness", func() bool {
		status, body := p.page("probe-addr", "/readyz")
		if strings.Contains(body, "gone") || strings.Contains(body, "refused") {
			t.Errorf("/readyz: %d %s", status, body)
		}
		return status == http.StatusOK && strings.Contains(body, "tenant added token: ok")
	})
	_, body := p.page("probe-addr", "/metrics")
	for text, want := range map[string]bool{
		`orgops_token_ok{tenant="added"} 1`: true, `orgops_token_ok{tenant="faster"} 1`: true,
		`orgops_pace_limit_per_second{tenant="faster"} 160`: true,
		`tenant="gone",type="domain:update"`:                false, `orgops_token_ok{tenant="gone"}`: false,
		"orgops_settings_refused 0": true,
	} {
		if strings.Contains(body, text) != want {
			t.Errorf("metrics with %s: %t, want %t", text, !want, want)
		}
	}
	for name, want := range map[string]string{"added": `id="tenant-added"`, "faster": "200/s"} {
		if _, page := p.page("http-addr", "/tenants?tenant="+name); !strings.Contains(page, want) {
			t.Errorf("the page of tenant %s:\n%s", name, page)
		}
	}
	d.handIn(ledger.NewRun{ID: "late", Tenant: "gone"}, tasks.TypeUpdate, box.SeedUpdates(1))
	time.Sleep(1500 * time.Millisecond) // a dispatcher would have released the row
	if r := d.run("late"); r.Ended() {
		t.Errorf("a row of the removed tenant was executed: %+v", r)
	}
}

// patches returns the number of requests that change a domain.
func patches(box *sandbox.Sandbox) (n int) {
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain {
			n++
		}
	}
	return n
}

// watched starts a worker that reads its file often, with the goroutines labelled with the
// test's name, and waits for its start.
func (f tenantFile) watched() (w *worker, log *logtest.Buffer) {
	f.t.Helper()
	log = new(logtest.Buffer)
	env := func(name string) string {
		return map[string]string{"SECRET": f.box.ClientSecret(),
			"HOOK": "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))}[name]
	}
	s := settings{HTTPAddr: off, ProbeAddr: off, ShutdownTimeout: 10 * time.Second}
	s.Config = f.path
	w, err := newWorker(f.t.Context(), s, redisconn.Config{URL: redistest.URL(f.t), AllowURLPassword: true},
		slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		f.t.Fatal(err)
	}
	read := func() ([]tenant.Settings, string, error) { return s.tenants(env) }
	all, content, err := read()
	if err != nil {
		f.t.Fatal(err)
	}
	w.file = &settingsFile{path: f.path, read: read, content: content, every: 20 * time.Millisecond}
	ctx, cancel := context.WithCancel(f.t.Context())
	started, ended := make(chan struct{}), make(chan struct{})
	go pprof.Do(ctx, pprof.Labels("test", f.t.Name()), func(ctx context.Context) {
		defer close(ended)
		if err := w.work(ctx, all, func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			return nil
		}); err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(func() {
		cancel()
		<-ended
		w.close()
		if f.t.Failed() {
			f.t.Logf("log:\n%s", log)
		}
	})
	<-started
	return w, log
}

// goroutines returns the number of goroutines with the label of the test.
func goroutines(t *testing.T) (n int) {
	t.Helper()
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	// N @ addresses, # labels: {"test":"NAME"}, and the frames.
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("# labels: {%q:%q}", "test", t.Name())) {
			var of int
			if _, err := fmt.Sscanf(stack, "%d @", &of); err != nil {
				t.Fatalf("%v in %s", err, stack)
			}
			n += of
		}
	}
	return n
}

// TestReloadLeaksNothing repeatedly adds and removes a tenant that has work. Its goroutines
// and those of its connections end.
func TestReloadLeaksNothing(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	f := newTenantFile(t, box)
	first, second := f.entry("first", ", rate: unlimited"), f.entry("second", ", rate: unlimited")
	f.write(first)
	w, log := f.watched()
	const rounds = 5
	before := 0
	for i := range rounds {
		f.write(first, second)
		await(t, "the tenant", func() bool { return len(w.tenants()) == 2 })
		for kind, rows := range map[string][]byte{tasks.TypeUpdate: box.SeedUpdates(3),
			tasks.TypeVerify: box.SeedDomains(3)} {
			id := fmt.Sprintf("%s-%d", strings.ReplaceAll(kind, ":", "-"), i)
			d.handIn(ledger.NewRun{ID: ledger.RunID(id), Tenant: "second"}, kind, rows)
			d.ended(id)
		}
		f.write(first)
		await(t, "the end of the tenant", func() bool { return strings.Count(log.String(), "removed=[second]") == i+1 })
		if i == 0 {
			before = goroutines(t)
		}
	}
	if before == 0 {
		t.Fatal("no goroutine has the label")
	}
	const others = 10 // connections to Redis, and requests that were cut off
	await(t, "the end of the goroutines", func() bool { return goroutines(t) <= before+others })
}

// TestReloadByPolling checks that changes take effect without a signal, also those of a file
// that a tenant names. A file that is refused because a secret is missing takes effect when
// the secret exists.
func TestReloadByPolling(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	newDesk(t)
	f, dir := newTenantFile(t, box), t.TempDir()
	hooks, token := filepath.Join(dir, "webhooks.yaml"), filepath.Join(dir, "token")
	endpoint := func(name string) string {
		return fmt.Sprintf(
			"endpoints:\n  - {name: %s, url: \"https://127.0.0.1:9/\", secret_env: HOOK, allow_private: true}\n", name)
	}
	write(t, hooks, endpoint("crm"))
	quiet, notified := f.entry("quiet", ""), f.entry("notified", ", webhooks: "+hooks)
	f.write(quiet, notified)
	w, log := f.watched()
	first := w.tenants()
	reloads := func(n int, last string) {
		t.Helper()
		await(t, fmt.Sprintf("reload %d", n), func() bool {
			return strings.Count(log.String(), "settings reloaded") == n && strings.Contains(log.String(), last)
		})
	}

	write(t, hooks, endpoint("erp"))
	reloads(1, "added=[] changed=[notified] removed=[]")
	second := w.tenants()
	if second[0] != first[0] || second[1] == first[1] || second[1].shown.Webhooks[0].Name != "erp" {
		t.Error("want the tenant without webhooks to continue, and the other one to have the new endpoint")
	}

	third := fmt.Sprintf("  - {name: third, base_url: %q, token_file: %s}\n", box.BaseURL(), token)
	f.write(third, quiet)
	await(t, "the refusal", func() bool { return strings.Contains(log.String(), "settings refused") })
	time.Sleep(10 * w.file.every)
	if n := strings.Count(log.String(), "settings refused"); n != 1 {
		t.Errorf("the refusal is logged %d times", n)
	}
	if !slices.Equal(w.tenants(), second) {
		t.Error("a refused file changed the tenants")
	}
	write(t, token, "some.bearer.token")
	reloads(2, "added=[third] changed=[] removed=[notified]")
	if all := w.tenants(); len(all) != 2 || all[0].Name != "third" || all[1] != first[0] {
		t.Errorf("%d tenants, want third and quiet", len(all))
	}

	f.write(third, quiet, "# a comment\n")
	reloads(3, "added=[] changed=[] removed=[]")
}

// TestStopDuringReload stops a worker while a changed tenant waits for a row in progress. The
// worker ends within its shutdown timeout, and does not restart the tenant.
func TestStopDuringReload(t *testing.T) {
	t.Parallel()
	box, d := startBox(t, sandbox.Options{}), newDesk(t)
	f := newTenantFile(t, box)
	f.write(f.entry("one", ", rate: unlimited"))
	p := f.begin("--shutdown-timeout=2s")
	slow := box.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, AnswerLatency: time.Minute})
	defer slow()
	d.handIn(ledger.NewRun{ID: "updates", Tenant: "one"}, tasks.TypeUpdate, box.SeedUpdates(1))
	await(t, "the request", func() bool { return patches(box) == 1 })
	f.write(f.entry("one", ", rate: 5/s"))
	hangUp(t)
	await(t, "the new settings", func() bool {
		s, _, err := tenant.ReadAnnounced(t.Context(), d.redis, "one")
		return err == nil && s.Rate == "5/s"
	})
	if status := p.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	if why := d.reasons("updates"); len(why) != 1 || strings.Contains(why[1], "in progress") {
		t.Errorf("open rows %v, want the row to be given back", why)
	}
	// After the request's own timeout the attempt would count.
	core := d.ledger
	r, err := core.Get(t.Context(), "", "updates")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := core.Rows(t.Context(), ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation}, 0,
		1); err != nil ||
		rows[0].Checkpoint.Attempts != 0 {
		t.Errorf("rows %+v, %v, want no attempt: the worker does not wait for the request", rows, err)
	}
}
