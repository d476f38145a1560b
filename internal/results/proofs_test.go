package results_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
)

// TestProofsOfDeletedRun: a run that is deleted while proofs are read, whenever that is, has
// none, and those of the others are returned.
func TestProofsOfDeletedRun(t *testing.T) {
	store := ledger.New(redistest.New(t))
	for before := 0; ; before++ {
		run := submit(t, "run", "domain:verify", "organization_id,discovery_domain_id\norg_1,ord_1\n")
		settle(t, run, "expired", "", 0)
		rdb, seen := redistest.New(t), 0
		rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, _ ...redis.Cmder) error {
			if seen == before {
				if err := ledgertest.Control(t.Context(), store, (*ledger.Ledger).Delete, "run"); err != nil {
					t.Error(err)
				}
			}
			seen++
			return run()
		}))
		for proof, err := range (results.Proofs{}).All(t.Context(), ledger.New(rdb)) {
			t.Fatalf("deleted before command %d: proof %+v, error %v; want none", before, proof, err)
		}
		if seen <= before {
			return // all commands were seen
		}
	}
}
