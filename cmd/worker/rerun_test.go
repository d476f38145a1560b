package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/producer"
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

// TestSingleRow checks that a row which a service submits alone is executed once, however
// often it is submitted, and that its end sends no notification. Another row under its ID is
// refused.
func TestSingleRow(t *testing.T) {
	t.Parallel()
	box, d, l := startBox(t, sandbox.Options{}), newDesk(t), listen(t, true)
	one, other := halves(box, 1)
	submit := func(file []byte) error {
		organization, client, _ := strings.Cut(clientsOf(file)[0], ",")
		_, err := producer.New(d.redis).Submit(t.Context(), producer.Row{ID: "signup-4711", Kind: producer.Remove,
			Row: fmt.Appendf(nil, `{"organization_id":%q,"client_id":%q}`, organization, client)})
		return err
	}
	begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_WEBHOOKS": l.file, "HOOK": hookSecret}))
	for range 3 {
		if err := submit(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := submit(other); !errors.Is(err, producer.ErrMismatch) {
		t.Errorf("another row under its id: %v", err)
	}
	if r := d.ended("signup-4711"); r.Counts["done"] != 1 {
		t.Errorf("counts %v, want one row done", r.Counts)
	}
	if err := submit(one); err != nil {
		t.Errorf("submitted after its end: %v", err)
	}
	d.handIn(ledger.NewRun{ID: "nightly"}, tasks.TypeRemove, other)
	d.finished("signup-4711")
	d.finished("nightly")
	await(t, "the event of the run", func() bool { return len(l.events()) > 0 })
	if events := l.events(); !slices.Equal(events, []string{"run.finished nightly"}) {
		t.Errorf("events %q, want that of the run alone", events)
	}
	want := slices.Sorted(slices.Values(append(clientsOf(one), clientsOf(other)...)))
	if diff := cmp.Diff(want, removedFrom(box)); diff != "" {
		t.Errorf("removed clients (-want +got):\n%s", diff)
	}
}
