package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
	"orgops/producer"
)

// clientRows returns an input file of clients that the tenant has, in halves.
func (f *fleet) clientRows(n int) (one, other []string) {
	f.t.Helper()
	status, body := fetch(f.t, http.MethodGet, fmt.Sprintf("%s/_sandbox/rows/clients.csv?n=%d", f.authURL, n), "")
	if status != http.StatusOK {
		f.t.Fatalf("rows: %d %s", status, body)
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")[1:]
	return lines[:n/2], lines[n/2:]
}

// submitClients submits rows as the run of that id, as an operator types it.
func (f *fleet) submitClients(run string, rows []string) {
	f.t.Helper()
	file := filepath.Join(f.dir, run+".csv")
	write(f.t, file, "organization_id,client_id\n"+strings.Join(rows, "\n")+"\n")
	f.typed("clients", "remove", "--run", run, file)
}

// removed returns the rows of the removals that the tenant received, in order.
func (f *fleet) removed() (rows []string) {
	f.t.Helper()
	for _, r := range f.requests() {
		if r.Operation != sandbox.OpRemoveOrganizationClients {
			continue
		}
		var body struct{ Clients []string }
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			f.t.Fatal(err)
		}
		organization := strings.Split(r.Path, "/")[4] // /api/v2/organizations/{id}/clients
		for _, client := range body.Clients {
			rows = append(rows, organization+","+client)
		}
	}
	slices.Sort(rows)
	return rows
}

func (f *fleet) wantRemoved(rows []string) {
	f.t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(rows)), f.removed()); diff != "" {
		f.t.Errorf("removed clients (-want +got):\n%s", diff)
	}
}

// single submits the removal of a client as a single row.
func (f *fleet) single(id, row string) error {
	f.t.Helper()
	organization, client, _ := strings.Cut(row, ",")
	_, err := producer.New(f.redis).Submit(f.t.Context(), producer.Row{
		ID: id, Kind: producer.Remove, Row: fmt.Appendf(nil, `{"organization_id":%q,"client_id":%q}`, organization, client),
	})
	return err
}

// TestSingleRow checks that a row which a service submits alone is executed once, however
// often it is submitted, and that its end sends no notification. Another row under its ID is
// refused.
func TestSingleRow(t *testing.T) {
	t.Parallel()
	f, l := assemble(t), listen(t, true)
	maps.Copy(f.env, map[string]string{"ORGOPS_WEBHOOKS": l.file, "HOOK": hookSecret})
	rows, others := f.clientRows(2)
	f.work("one")
	for range 3 {
		if err := f.single("signup-4711", rows[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.single("signup-4711", others[0]); !errors.Is(err, producer.ErrMismatch) {
		t.Errorf("another row under its id: %v", err)
	}
	if r := f.ended("signup-4711"); r.Counts["done"] != 1 {
		t.Errorf("counts %v, want one row done", r.Counts)
	}
	if err := f.single("signup-4711", rows[0]); err != nil {
		t.Errorf("submitted after its end: %v", err)
	}
	f.submitClients("nightly", others)
	f.finished("signup-4711")
	f.finished("nightly")
	await(t, "the event of the run", func() bool { return len(l.events()) > 0 })
	if events := l.events(); !slices.Equal(events, []string{"run.finished nightly"}) {
		t.Errorf("events %q, want that of the run alone", events)
	}
	f.wantRemoved(slices.Concat(rows, others))
}
