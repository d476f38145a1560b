package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/sandbox"
)

// everyClient is the client that is removed everywhere.
const everyClient = "client_shop"

// TestEverywhere removes a client from 700 of 5,000 organizations by the built commands, while
// workers are killed. With 20 organizations more that get it between the count and the comparison
// nothing is removed; with three fewer only those that still have it are, and each once.
func TestEverywhere(t *testing.T) {
	f := assemble(t)
	counted := map[string]bool{}
	for i := range 5000 {
		org := f.box.AddOrganization(fmt.Sprintf("org_%04d", i), "")
		if i%7 == 0 && len(counted) < 700 {
			f.box.AddClient(org, everyClient, i%2 == 0)
			counted[org] = true
		}
	}
	stop := f.workAndDie()

	// 700 are counted, and 720 have it when they are compared.
	f.mustRemove(0, "--run", "first", "--dry-run")
	for i := range 20 {
		f.box.AddClient(fmt.Sprintf("org_new%02d", i), everyClient, true)
	}
	out := f.mustRemove(3, "--run", "first", "--expect", "700", "--follow")
	if want := "counted 700, found 720: run first-list does not list 20"; !strings.Contains(out, want) {
		t.Errorf("the command says %s; want %q in it", out, want)
	}
	f.mustRemove(3, "--run", "second", "--expect", "700")
	if got := removedFrom(f.box); len(got) > 0 {
		t.Errorf("%d removals although more have the client than were counted", len(got))
	}

	// 717 of those that are listed still have it.
	for i := range 20 {
		counted[fmt.Sprintf("org_new%02d", i)] = true
	}
	f.mustRemove(0, "--run", "third", "--dry-run")
	for _, org := range []string{"org_0000", "org_0007", "org_new03"} {
		f.box.RemoveClient(org, everyClient)
		delete(counted, org)
	}
	f.mustRemove(0, "--run", "third", "--expect", "720", "--follow")
	stop()
	var want []string
	for _, org := range slices.Sorted(maps.Keys(counted)) {
		want = append(want, org+","+everyClient)
	}
	if got := slices.Compact(removedFrom(f.box)); !slices.Equal(got, want) {
		t.Errorf("%d organizations have lost the client, want %d: those that were counted and still had it", len(got),
			len(want))
	}
	for _, r := range f.box.Requests() {
		if r.Operation == sandbox.OpRemoveOrganizationClients && !counted[r.Organization] {
			t.Errorf("a removal from %s, which was not counted or no longer had the client", r.Organization)
		}
	}

	// The results have all that puts the associations back.
	rows, err := f.program("enqueue", "runs", "results", "third", "--outcome", "done").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(rows, []byte(`"use_for_member_access":`)); n != len(want) {
		t.Errorf("%d results with use_for_member_access, want %d", n, len(want))
	}
}

// workAndDie has workers serve the tenant, each of which is killed a moment after its start. The
// returned function lets the last one finish, and stops it.
func (f *fleet) workAndDie() (stop func()) {
	f.t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for life := 700 * time.Millisecond; ; life += 150 * time.Millisecond {
			worker := f.command("worker", "worker")
			if err := worker.Start(); err != nil {
				f.t.Error(err)
				return
			}
			select {
			case <-done:
			case <-time.After(min(life, 4*time.Second)):
			}
			_ = worker.Process.Kill()
			_ = worker.Wait() // it was killed
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	stop = func() {
		select {
		case <-done:
		default:
			close(done)
		}
		<-ended
	}
	f.t.Cleanup(stop)
	return stop
}

// mustRemove runs clients remove --everywhere, and returns its output. It fails unless the exit
// status is the given one.
func (f *fleet) mustRemove(status int, args ...string) (out string) {
	f.t.Helper()
	remove := []string{"clients", "remove", "--client", everyClient, "--everywhere"}
	command := f.program("enqueue", append(remove, args...)...)
	command.Stdin = bytes.NewReader(nil)
	text, err := command.CombinedOutput()
	if got := command.ProcessState.ExitCode(); got != status {
		f.t.Fatalf("%q: exit status %d, %v, want %d: %s", args, got, err, status, text)
	}
	return string(text)
}
