package main

import (
	"context"
	"fmt"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
)

// upgradeCommand raises the version of the data in Redis.
type upgradeCommand struct {
	redisconn.Flags
}

func (u upgradeCommand) run(ctx context.Context, p cli.Program, redisFromArgs bool) error {
	client, _, err := systems{Flags: u.Flags}.connect(p, redisFromArgs)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	masters, err := redisconn.Masters(ctx, client)
	if err != nil {
		return err
	}
	moved, err := ledger.New(client).Upgrade(ctx, masters)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "the data has the version of this orgops; keys moved: %d\n", moved)
	return err
}
