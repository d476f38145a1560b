package results_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
)

// TestLookUpsEnd: a look-up whose caller has gone reads no further, even by a client
// whose commands outlive their context.
func TestLookUpsEnd(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	for i := range 3 {
		id := fmt.Sprintf("r%d", i)
		ledgertest.Submit(t, l, ledger.NewRun{ID: ledger.RunID(id), Tenant: "acme",
			Description: ledger.Description{Format: "jsonl"}}, `{"discovery_domain_id":"ord_1"}`)
	}
	rdb.AddHook(detached{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows := 0
	var last error
	for _, err := range results.DomainRows(ctx, l, "acme", "ord_1", "", "") {
		if last = err; err == nil {
			rows++
		}
		cancel()
	}
	if rows != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d rows, then error %v; want one, and that it was ended", rows, last)
	}
}

// detached has commands outlive their context.
type detached struct{}

func (detached) DialHook(next redis.DialHook) redis.DialHook { return next }

func (detached) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(context.WithoutCancel(ctx), cmd) }
}

func (detached) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(context.WithoutCancel(ctx), cmds) }
}
