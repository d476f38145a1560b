package producer_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"orgops/internal/activity"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/producer"
	"orgops/tasks"
)

// TestStatus follows rows to their ends.
func TestStatus(t *testing.T) {
	rdb := redistest.New(t)
	p, l := producer.New(rdb), ledger.New(rdb)
	want := func(id string, want producer.Status) {
		t.Helper()
		if got, err := p.Status(t.Context(), "", id); err != nil || got != want {
			t.Errorf("status of %s: %+v, %v, want %+v", id, got, err, want)
		}
	}
	for _, id := range []string{"a", "b"} {
		if _, err := p.Submit(t.Context(), producer.Row{ID: id, Kind: producer.Update,
			Row: []byte(rows[producer.Update])}); err != nil {
			t.Fatal(err)
		}
	}
	want("a", producer.Status{Reason: "waiting for a worker"})
	if err := l.Pause(t.Context(), tasks.DefaultTenant, "a"); err != nil {
		t.Fatal(err)
	}
	want("a", producer.Status{Reason: "paused"})
	for range 2 {
		if err := p.Cancel(t.Context(), "", "a", "signup service"); err != nil {
			t.Fatal(err)
		}
	}
	want("a", producer.Status{Outcome: "cancelled"})
	entries, _, err := activity.Page(t.Context(), rdb, activity.Query{Tenants: []string{tasks.DefaultTenant}, Limit: 9})
	if err != nil || len(entries) != 1 || entries[0].Action != activity.Cancelled || entries[0].Run != "a" ||
		entries[0].Who() != "signup service (claimed)" {
		t.Errorf("activity %+v, %v, want one cancel", entries, err)
	}

	b, _ := submitted(t, rdb, "b")
	seg := ledger.Segment{Tenant: b.Tenant, Run: b.ID, Incarnation: b.Incarnation}
	if _, err := l.Dismiss(t.Context(), seg, ledger.Result{Outcome: "refused", Detail: "no such domain"}, 0); err != nil {
		t.Fatal(err)
	}
	want("b", producer.Status{Outcome: "refused", Reason: "no such domain"})
	if err := p.Cancel(t.Context(), "", "b", "signup service"); err != nil {
		t.Errorf("cancel of a row that has ended: %v", err)
	}
	want("b", producer.Status{Outcome: "refused", Reason: "no such domain"})
}

// TestStatusOfOthers asks for the status of a run of a file, which is none of a row, and of no run.
func TestStatusOfOthers(t *testing.T) {
	rdb := redistest.New(t)
	file := intake.Input{Name: "rows.jsonl", Kind: producer.Update, Rows: strings.NewReader(rows[producer.Update])}
	if _, err := intake.New(rdb, ledger.New(rdb)).Submit(t.Context(), file,
		ledger.NewRun{ID: "file", Tenant: tasks.DefaultTenant}); err != nil {
		t.Fatal(err)
	}
	p := producer.New(rdb)
	for _, id := range []string{"file", "none"} {
		_, err := p.Status(t.Context(), "", id)
		cancelled := p.Cancel(t.Context(), "", id, "x")
		if !errors.Is(err, producer.ErrNotFound) || !errors.Is(cancelled, producer.ErrNotFound) {
			t.Errorf("%s: %v, %v, want not found", id, err, cancelled)
		}
	}
	if run, err := ledger.New(rdb).Run(t.Context(), tasks.DefaultTenant, "file"); err != nil || !run.CancelledAt.IsZero() {
		t.Errorf("the run of the file: %+v, %v", run, err)
	}
}

// TestOtherModule builds the service of testdata as a module of its own, which requires this one,
// and has it submit a row, follow and cancel it.
func TestOtherModule(t *testing.T) {
	redistest.Single(t, "the service takes one URL")
	url, dir := redistest.URL(t), t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for from, to := range map[string]string{
		filepath.Join(root, "go.mod"): "go.mod", filepath.Join(root, "go.sum"): "go.sum",
		"testdata/service/main.go": "main.go",
	} {
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	module := strings.TrimSuffix(reflect.TypeFor[producer.Producer]().PkgPath(), "/producer")
	command("go", "mod", "edit", "-module", "example.com/signup", "-require", module+"@v0.0.0",
		"-replace", module+"="+root)
	command("go", "build", "-o", "service", ".")
	const want = `signup-4711: outcome "", waiting for a worker
signup-4711: outcome "", waiting for a worker
signup-4711: outcome "", waiting for a worker
signup-4711: outcome "cancelled"
`
	if got := command(filepath.Join(dir, "service"), url); got != want {
		t.Errorf("printed %s, want %s", got, want)
	}
}
