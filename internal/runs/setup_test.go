package runs_test

import (
	"cmp"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

func newLedger(t *testing.T) (*runs.Ledger, redis.UniversalClient) {
	t.Helper()
	rdb := redistest.New(t)
	return runs.New(rdb), rdb
}

// create creates a run that is still being submitted.
func create(t *testing.T, l *runs.Ledger, n ledger.NewRun) {
	t.Helper()
	n.Kind, n.Tenant = updates, cmp.Or(n.Tenant, "default")
	if _, created, err := l.Core().Create(t.Context(), n); err != nil || !created {
		t.Fatalf("create %s: created %v, %v", n.ID, created, err)
	}
}

func get(t *testing.T, l *runs.Ledger, id string) ledger.Run {
	t.Helper()
	r, err := l.Get(t.Context(), "", ledger.RunID(id))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func results(t *testing.T, l *runs.Ledger, id string) []runs.Result {
	t.Helper()
	return collect(t, l.Results(t.Context(), ledger.Run{Tenant: "acme", ID: ledger.RunID(id)}, 0))
}
