package main

import (
	"log/slog"
	"testing"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestRecordDead checks that a worker which died is recorded once, with its rows of all runs.
func TestRecordDead(t *testing.T) {
	rdb := redistest.New(t)
	by := activity.Author{Redis: rdb, Logger: slog.New(slog.DiscardHandler), Name: "worker"}
	rows := func(run ledger.RunID, session ledger.SessionID, n int) ledger.Reclaimed {
		return ledger.Reclaimed{Segment: ledger.Segment{Tenant: "acme", Run: run}, Session: session, Rows: n}
	}
	recordDead(t.Context(), by, []ledger.Reclaimed{rows("a", "w1", 3), rows("b", "w2", 1), rows("b", "w1", 4)})
	died := activity.Query{Tenants: []string{"acme"}, Text: "worker died", Limit: 9}
	page, _, err := activity.Page(t.Context(), rdb, died)
	if err != nil || len(page) != 2 {
		t.Fatalf("%+v, %v, want two entries", page, err)
	}
	const want = "worker w1; rows that others take over: 7; none is lost"
	if page[1].Result != want {
		t.Errorf("recorded %q, want %q", page[1].Result, want)
	}
}
