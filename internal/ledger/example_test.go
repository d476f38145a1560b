package ledger_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

// A producer submits a run, a dispatcher releases its rows, and a worker executes them.
func Example() {
	server, err := miniredis.Run()
	succeed(err)
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx, l := context.Background(), ledger.New(rdb)

	succeed(produce(ctx, l))
	due, err := l.TakeDue(ctx, "acme", 10)
	succeed(err)
	for _, seg := range due.Segments {
		release, err := l.Release(ctx, seg, ledger.Quota{First: 100})
		succeed(err)
		for _, row := range release.Rows {
			succeed(execute(ctx, l, seg, release.Token, row))
		}
	}
	// Output:
	// executing org_1,dom_1
	// executing org_2,dom_2
	// the run has ended
}

func produce(ctx context.Context, l *ledger.Ledger) error {
	run, _, err := l.Create(ctx, ledger.NewRun{ID: "nightly", Tenant: "acme", Kind: "domain:verify"})
	if err != nil {
		return err
	}
	stager, err := l.NewStager(ctx, run)
	if err != nil {
		return err
	}
	for _, row := range []string{"org_1,dom_1", "org_2,dom_2"} {
		if err := stager.Add(ctx, []byte(row)); err != nil {
			return err
		}
	}
	if _, err := stager.Commit(ctx); err != nil {
		return err
	}
	return stager.Verify(ctx) // two seconds later
}

func execute(ctx context.Context, l *ledger.Ledger, seg ledger.Segment, t ledger.Token, row ledger.ReleasedRow) error {
	nonce := ledger.NewNonce()
	begun, err := l.Begin(ctx, seg, ledger.Execution{Token: t, Nonce: nonce, Session: ledger.NewSessionID()}, row.Row)
	if err != nil {
		return err
	}
	if begun.Rows[0].Status != ledger.RowAdmitted {
		return nil // another execution has the row
	}
	fmt.Printf("executing %s\n", row.Content)
	receipt, err := l.End(ctx, seg, nonce, ledger.RowEnd{Row: row.Row, Ending: ledger.Result{Outcome: ledger.Done}})
	if receipt.Ended {
		fmt.Println("the run has ended")
	}
	return err
}

func succeed(err error) {
	if err != nil {
		panic(err)
	}
}
