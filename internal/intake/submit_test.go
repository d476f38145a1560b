package intake_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/tasks"
)

// handIn hands text in as run "a" and returns its stored rows and columns.
func handIn(t *testing.T, kind, text string, d tasks.Defaults) (rows []string, run runs.Run) {
	t.Helper()
	ledger, run, _ := handInAll(t, input(t, kind, text, d))
	stored, err := ledger.Rows(t.Context(), "a", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range stored {
		rows = append(rows, string(row))
	}
	return rows, run
}

// handInAll hands the input in as run "a", to a Redis of its own.
func handInAll(t *testing.T, in intake.Input) (*runs.Ledger, runs.Run, tasks.Summary) {
	t.Helper()
	rdb := redistest.New(t)
	ledger := runs.New(rdb)
	checked, err := in.Check()
	if err != nil {
		t.Fatal(err)
	}
	taker := intake.New(rdb, ledger)
	run, created, err := taker.Begin(t.Context(), in, checked, intake.Run{ID: "a", Tenant: "default"})
	if err != nil || !created {
		t.Fatal(created, err)
	}
	sum, err := taker.HandIn(t.Context(), in, checked, run)
	if err != nil {
		t.Fatal(err)
	}
	return ledger, run, sum
}

func input(t *testing.T, kind, text string, d tasks.Defaults) intake.Input {
	t.Helper()
	k, ok := tasks.KindOf(kind)
	if !ok {
		t.Fatalf("no kind %q", kind)
	}
	return intake.Input{Name: "rows", Kind: k, Defaults: d, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// TestDefaultsAreStored: a row that is handed back has to be complete without
// the flags that it was submitted with.
func TestDefaultsAreStored(t *testing.T) {
	pending := tasks.Defaults{Status: "pending", UseForDiscovery: new(false)}
	tests := []struct {
		name, text string
		columns    []string
		want       []string
	}{
		{
			"csv without the columns", "organization_id,discovery_domain_id\no1,d1\n",
			[]string{"organization_id", "discovery_domain_id", "status", "use_for_organization_discovery"},
			[]string{`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":false}`},
		},
		{
			"csv whose cells win", "status,organization_id,discovery_domain_id,use_for_organization_discovery\n,o1,d1,true\npending,o1,d2,\n",
			[]string{"status", "organization_id", "discovery_domain_id", "use_for_organization_discovery"},
			[]string{
				`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":true}`,
				`{"organization_id":"o1","discovery_domain_id":"d2","status":"pending","use_for_organization_discovery":false}`,
			},
		},
		{
			"json lines", `{"organization_id":"o1","discovery_domain_id":"d1","use_for_organization_discovery":true}`, nil,
			[]string{`{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","use_for_organization_discovery":true}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, run := handIn(t, tasks.TypeUpdate, tt.text, pending)
			if diff := cmp.Diff(tt.want, rows); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.columns, run.Columns); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherDefaultsAreOtherContent(t *testing.T) {
	const text = "organization_id,discovery_domain_id,status\no1,d1,pending\n"
	seen := map[string]tasks.Defaults{}
	for _, d := range []tasks.Defaults{{}, {Status: "pending"}, {UseForDiscovery: new(true)}, {UseForDiscovery: new(false)}} {
		checked, err := input(t, tasks.TypeUpdate, text, d).Check()
		if err != nil {
			t.Fatal(err)
		}
		if other, there := seen[checked.Digest]; there {
			t.Errorf("%+v and %+v have one digest", d, other)
		}
		seen[checked.Digest] = d
	}
}

func TestAnInputThatChangesIsNotSealed(t *testing.T) {
	rdb := redistest.New(t)
	ledger := runs.New(rdb)
	in := input(t, tasks.TypeRemove, "organization_id,client_id\no1,c1\n", tasks.Defaults{})
	checked, err := in.Check()
	if err != nil {
		t.Fatal(err)
	}
	changed := input(t, tasks.TypeRemove, "organization_id,client_id\no1,c2\n", tasks.Defaults{})
	taker := intake.New(rdb, ledger)
	run, _, err := taker.Begin(t.Context(), in, checked, intake.Run{ID: "a", Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := taker.HandIn(t.Context(), changed, checked, run); !errors.Is(err, intake.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if got, err := ledger.Get(context.WithoutCancel(t.Context()), "a"); err != nil || got.Sealed {
		t.Errorf("%+v, %v: want it not sealed", got, err)
	}
}
