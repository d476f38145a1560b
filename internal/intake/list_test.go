package intake_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// TestBeginList: a list of a client's organizations is a run whose rows a scan finds; the same
// again is one run, and another client's is another.
func TestBeginList(t *testing.T) {
	rdb := redistest.New(t)
	taker := intake.New(rdb, ledger.New(rdb))
	begin := func(client string) (ledger.Run, bool, error) {
		return taker.BeginList(t.Context(), client, ledger.NewRun{ID: "a", Tenant: "default"})
	}
	run, created, err := begin("client_1")
	if err != nil || !created || !run.Scanning() || run.Kind != tasks.TypeRemove || !intake.IsList(run) {
		t.Errorf("created %t, run %+v, %v", created, run, err)
	}
	if _, created, err = begin("client_1"); err != nil || created {
		t.Errorf("again: created %t, %v", created, err)
	}
	if _, _, err = begin("client_2"); !errors.Is(err, ledger.ErrMismatch) {
		t.Errorf("another client: %v", err)
	}
	if _, _, err = begin("a/b"); err == nil || !strings.Contains(err.Error(), "client_id") {
		t.Errorf("a bad id: %v", err)
	}
	if err := ledgertest.Control(t.Context(), ledger.New(rdb), (*ledger.Ledger).Cancel, "a"); err != nil {
		t.Fatal(err)
	}
	run, _, err = begin("client_1")
	if err == nil {
		_, _, err = taker.BeginEverywhere(t.Context(), run, 0, ledger.NewRun{ID: "b"})
	}
	if err == nil || !strings.Contains(err.Error(), "run a was cancelled") {
		t.Errorf("a removal by a cancelled list: %v", err)
	}
}

// TestBeginEverywhere: no removal begins unless the list is whole and its number is the one given.
func TestBeginEverywhere(t *testing.T) {
	rdb := redistest.New(t)
	taker := intake.New(rdb, ledger.New(rdb))
	ended := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	list := func(p progress.Scan) ledger.Run {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Run{ID: "list", Tenant: "default", Incarnation: "0123456789abcdef", EndedAt: ended, CommittedAt: ended,
			Rows: 3, Scan: &ledger.Scan{Progress: text}}
	}
	whole := progress.Scan{Client: "client_1", Ended: true}
	for name, tc := range map[string]struct {
		list    ledger.Run
		counted int64
		says    string // of the error; empty: none
	}{
		"the number":  {list(whole), 3, ""},
		"fewer":       {list(whole), 2, "run list lists 3 organizations, and the number given is 2: nothing was removed"},
		"more":        {list(whole), 4, "nothing was removed"},
		"another run": {ledger.Run{ID: "list", EndedAt: ended}, 0, "does not list the organizations of a client"},
		"a removal": {list(progress.Scan{Client: "client_1", List: "x", Ended: true}), 3,
			"does not list the organizations"},
		"ended early":   {list(progress.Scan{Client: "client_1", Early: "403", Ended: true}), 3, "all organizations: 403"},
		"a failed scan": {list(progress.Scan{Client: "client_1"}), 3, "its scan has failed"},
		"an organization": {list(progress.Scan{Client: "client_1", Missed: 1, Why: "500", Ended: true}), 3,
			"1 could not be read (500)"},
	} {
		t.Run(name, func(t *testing.T) {
			run, created, err := taker.BeginEverywhere(t.Context(), tc.list, tc.counted,
				ledger.NewRun{ID: ledger.RunID(strings.ReplaceAll(name, " ", "-"))})
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want %q", err, tc.says)
				}
				return
			}
			if err != nil || !created || run.Kind != tasks.TypeRemove || run.Tenant != "default" || intake.IsList(run) {
				t.Errorf("created %t, run %+v, %v", created, run, err)
			}
		})
	}
}
