package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// halves returns two files with the tenant's clients, with that many rows each.
func halves(box *sandbox.Sandbox, rows int) (one, other []byte) {
	lines := slices.Collect(bytes.Lines(box.SeedClients(2 * rows)))
	header := lines[0]
	return bytes.Join(append([][]byte{header}, lines[1:1+rows]...), nil),
		bytes.Join(append([][]byte{header}, lines[1+rows:]...), nil)
}

// clientsOf returns the clients of a file, as <organization>,<client>, sorted.
func clientsOf(file []byte) (clients []string) {
	for _, line := range bytes.Split(bytes.TrimSpace(file), []byte("\n"))[1:] {
		clients = append(clients, string(line))
	}
	return slices.Sorted(slices.Values(clients))
}

// removedFrom returns the clients that requests have removed, sorted, with repetitions.
func removedFrom(box *sandbox.Sandbox) (clients []string) {
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpRemoveOrganizationClients && r.Handled && r.Status/100 == 2 {
			for _, client := range r.Clients {
				clients = append(clients, r.Organization+","+client)
			}
		}
	}
	return slices.Sorted(slices.Values(clients))
}

// withdraw cancels a run and deletes it when its last request is answered.
func (d desk) withdraw(id string) ledger.Run {
	d.t.Helper()
	if err := ledgertest.Control(d.t.Context(), d.ledger, (*ledger.Ledger).Cancel, id); err != nil {
		d.t.Fatal(err)
	}
	r := d.ended(id)
	if err := ledgertest.Control(d.t.Context(), d.ledger, (*ledger.Ledger).Delete, ledger.RunID(id)); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// TestRerun submits removals of the wrong clients, cancels and deletes the run, and
// submits others under the same id. Of the wrong clients only those are removed whose
// removal was done before the cancel.
func TestRerun(t *testing.T) {
	t.Parallel()
	rows := redistest.Amount(100, 150)
	oneByOne := map[string]string{"ORGOPS_MAX_CLIENTS_PER_REQUEST": "1", "ORGOPS_RATE": "40/s", "ORGOPS_BURST": "1"}
	for _, tt := range []struct {
		name    string
		already int // removals before the cancel
	}{{"before a worker has started", 0}, {"while a worker executes it", 20}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			wrong, right := halves(box, rows)
			env := pointedAt(box, redistest.URL(t), oneByOne)
			d.handIn(ledger.NewRun{ID: "nightly"}, tasks.TypeRemove, wrong)
			if tt.already > 0 {
				begin(t, env).says("worker started", nil)
				await(t, "some removals", func() bool { return len(removedFrom(box)) >= tt.already })
			}
			first := d.withdraw("nightly")
			before := removedFrom(box)
			if n := len(before); n < tt.already || n >= rows || first.Counts["done"] != int64(n) ||
				first.Counts["cancelled"] != int64(rows-n) {
				t.Errorf("%d of %d clients were removed, the run says %v", n, rows, first.Counts)
			}
			d.handIn(ledger.NewRun{ID: "nightly"}, tasks.TypeRemove, right)
			if tt.already == 0 {
				begin(t, env)
			}
			d.well("nightly", int64(rows))
			want := slices.Sorted(slices.Values(append(clientsOf(right), before...)))
			if diff := cmp.Diff(want, removedFrom(box)); diff != "" {
				t.Errorf("removed clients (-want +got):\n%s", diff)
			}
		})
	}
}
