package runs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/runstest"
)

// TestCreate: readers see every member of a run's description.
func TestCreate(t *testing.T) {
	l, _ := newLedger(t)
	n := ledger.NewRun{ID: "2026-11-20_a", Kind: "clients:remove", Tenant: "acme", Description: ledger.Description{
		Label: "spring\tcleaning", Digest: "ab12", Format: "csv", Parent: "before", Caller: "crm",
		Columns:  []string{"organization_id", "client_id"},
		Priority: "high", GiveUp: time.Hour, KeepFor: 48 * time.Hour,
	}}
	_, created, err := l.Core().Create(t.Context(), n)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	got := get(t, l, string(n.ID))
	want := ledger.Run{
		ID: n.ID, Incarnation: got.Incarnation, Kind: n.Kind, Tenant: n.Tenant, Description: n.Description,
		Counts: ledger.Counts{}, CreatedAt: got.CreatedAt, StagedAt: got.CreatedAt,
	}
	want.Label = `spring\tcleaning`
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ledger.Run{})); diff != "" || got.CreatedAt.IsZero() {
		t.Errorf("created (-want +got):\n%s", diff)
	}
}

// TestNoSuchRun: every method reports a run that does not exist, and creates nothing.
func TestNoSuchRun(t *testing.T) {
	l, _ := newLedger(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"Get":  func() error { _, err := l.Get(ctx, "", "a"); return err },
		"Rows": func() error { _, err := l.Rows(ctx, ledger.Run{Tenant: "default", ID: "a"}, 0, 1); return err },
		"OpenFrom": func() (err error) {
			for _, err = range l.OpenFrom(ctx, ledger.Run{Tenant: "default", ID: "a"}, 0) {
			}
			return err
		},
		"Notes":  func() error { _, _, err := l.Notes(ctx, ledger.Run{Tenant: "default", ID: "a"}, 1); return err },
		"Cancel": func() error { _, err := l.Cancel(ctx, ledger.Run{Tenant: "default", ID: "a"}); return err },
		"Pause":  func() error { return runstest.Control(ctx, l.Core(), (*ledger.Ledger).Pause, "a") },
		"Resume": func() error { return runstest.Control(ctx, l.Core(), (*ledger.Ledger).Resume, "a") },
		"Delete": func() error { return runstest.Control(ctx, l.Core(), (*ledger.Ledger).Delete, "a") },
		"Results": func() error {
			for _, err := range l.Results(ctx, ledger.Run{Tenant: "default", ID: "a"}, 0) {
				return err
			}
			return nil
		},
		"Search": func() error {
			for _, err := range l.Search(ctx, ledger.Run{Tenant: "default", ID: "a"}, []byte("x")) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
	if state, err := l.Row(ctx, ledger.Run{Tenant: "default", ID: "a"}, 3); err != nil || state.Result != nil ||
		state.Open.Item != 3 {
		t.Errorf("a row of no run: %+v, %v", state, err)
	}
	if keys := redistest.Keys(t, "*"); len(keys) > 0 {
		t.Errorf("refused calls left keys behind: %v", keys)
	}
	for _, id := range []string{"", "a}b", "a\n", strings.Repeat("a", 65)} {
		if _, err := l.Get(ctx, "", ledger.RunID(id)); err == nil || !strings.Contains(err.Error(), "run id") {
			t.Errorf("id %q: %v", id, err)
		}
	}
}
