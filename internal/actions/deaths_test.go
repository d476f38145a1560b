package actions_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestRecordDeaths: the activity of a tenant has each worker of it that died, once: with its rows
// of all runs, or without a row in progress, whichever worker looks.
func TestRecordDeaths(t *testing.T) {
	rdb := redistest.New(t)
	by := activity.Author{Redis: rdb, Logger: slog.New(slog.DiscardHandler), Name: "worker"}
	rows := func(run ledger.RunID, session ledger.SessionID, n int) ledger.Reclaimed {
		return ledger.Reclaimed{Segment: ledger.Segment{Tenant: "acme", Run: run}, Session: session, Rows: n}
	}
	reclaimed := []ledger.Reclaimed{rows("a", "w1", 3), rows("b", "w2", 1), rows("b", "w1", 4)}
	if err := actions.RecordReclaimed(t.Context(), by, "acme", reclaimed); err != nil {
		t.Fatal(err)
	}

	ago := func(id ledger.SessionID, ago time.Duration, tenants ...ledger.Tenant) ledger.Session {
		return ledger.Session{ID: id, SeenAt: time.Now().Add(-ago), Tenants: tenants}
	}
	died := []ledger.Session{ago("w1", time.Hour, "acme"), ago("w3", time.Hour, "other", "acme"),
		ago("w4", time.Hour, "other"), ago("w5", ledger.DeadAfter+time.Second, "acme")}
	for range 2 {
		if err := actions.RecordDeaths(t.Context(), by, "acme", died); err != nil {
			t.Fatal(err)
		}
	}

	query := activity.Query{Tenants: []string{"acme"}, Text: "worker died", Limit: 9}
	page, _, err := activity.Page(t.Context(), rdb, query)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page {
		got = append(got, e.Result)
	}
	want := []string{
		"worker w3; it executed no row of this tenant; none is lost",
		"worker w2; rows that others take over: 1; none is lost",
		"worker w1; rows that others take over: 7; none is lost",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("activity (-want +got):\n%s", diff)
	}
}
