package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// printedUndo is the line by which enqueue says how a run is undone.
var printedUndo = regexp.MustCompile(`(?m)^to undo run (\S+): (enqueue [^(]+) \(`)

// undo runs in a shell, as it is printed, the command that enqueue has printed to undo a run.
func (f *fleet) undo(run string) {
	f.t.Helper()
	log, err := os.ReadFile(f.logOf("enqueue"))
	if err != nil {
		f.t.Fatal(err)
	}
	command := ""
	for _, match := range printedUndo.FindAllStringSubmatch(string(log), -1) {
		if match[1] == run {
			command = match[2]
		}
	}
	if command == "" {
		f.t.Fatalf("enqueue does not say how to undo run %s:\n%s", run, log)
	}
	sh := exec.CommandContext(f.t.Context(), "sh", "-c", command)
	sh.Env = append(environ(f.env), "PATH="+f.dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		f.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// TestUndoUpdate sets two verified domains to pending by mistake, and undoes that by the command
// that was printed: the one whose record is published is verified again, with the flag as it was,
// and the other waits for its record.
func TestUndoUpdate(t *testing.T) {
	redistest.NeedsLong(t, "builds the commands")
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	f := newFleet(newDesk(t), box, redistest.URL(t), nil)
	rows := "organization_id,discovery_domain_id,status\n"
	for _, id := range []string{"ord_published", "ord_gone"} {
		d := box.AddDomain("org_1", sandbox.Domain{ID: id, Status: "verified", Use: new(false)})
		if id == "ord_published" {
			box.SetTXT(d.Host, d.TXT)
		}
		rows += "org_1," + id + ",pending\n"
	}
	file := filepath.Join(f.dir, "wrong.csv")
	write(t, file, rows)
	f.work("worker")
	f.typed("domains", "update", "--run", "wrong", "--follow", file)
	status := func(id string) string {
		d, _ := box.Domain("org_1", id)
		return d.Status
	}
	for _, id := range []string{"ord_published", "ord_gone"} {
		if got := status(id); got != "pending" {
			t.Fatalf("%s is %s, want pending", id, got)
		}
	}

	f.undo("wrong")
	await(t, "the domain to be verified again", func() bool { return status("ord_published") == "verified" })
	d, _ := box.Domain("org_1", "ord_published")
	if d.Use == nil || *d.Use {
		t.Errorf("its flag is %v, want false", d.Use)
	}
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpUpdateDiscoveryDomain && r.Domain == "ord_gone" &&
			r.Body != `{"status":"pending","use_for_organization_discovery":false}` {
			t.Errorf("the domain without a record got %s", r.Body)
		}
	}
	if got := status("ord_gone"); got != "pending" {
		t.Errorf("the domain without a record is %s", got)
	}
}
