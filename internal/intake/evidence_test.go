package intake_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
)

// beforeCommand does something before a number of commands and pipelines was sent.
type beforeCommand struct {
	left int
	do   func()
}

func (h *beforeCommand) see() {
	if h.left--; h.left == -1 {
		h.do()
	}
}

func (h *beforeCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beforeCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.see()
		return next(ctx, cmd)
	}
}

func (h *beforeCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.see()
		return next(ctx, cmds)
	}
}

// TestProofsOfDeletedRun: a run that is deleted while proofs are read, whenever that is, has
// none, and those of the others are returned.
func TestProofsOfDeletedRun(t *testing.T) {
	store := ledger.New(redistest.New(t))
	for before := 0; ; before++ {
		run := handInAs(t, "run", "domain:verify", "organization_id,discovery_domain_id\norg_1,ord_1\n")
		settleAs(t, run, "expired", "", 0)
		rdb := redistest.New(t)
		h := &beforeCommand{left: before, do: func() {
			if err := ledgertest.Control(t.Context(), store, (*ledger.Ledger).Delete, "run"); err != nil {
				t.Error(err)
			}
		}}
		rdb.AddHook(h)
		for proof, err := range (intake.Proofs{}).All(t.Context(), ledger.New(rdb)) {
			t.Fatalf("deleted before command %d: proof %+v, error %v; want none", before, proof, err)
		}
		if h.left >= 0 {
			return // all commands were seen
		}
	}
}
