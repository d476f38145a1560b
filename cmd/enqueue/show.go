package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/terminal"
)

type showCommand struct {
	oneRun
	Rows int  `noenv:"true" default:"20" help:"Open rows, and failed rows, to print."`
	Open bool `noenv:"true" help:"Print only the open rows, all of them, with the reason and the next check."`
}

func (c *showCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 0 {
		return cli.Usage(fmt.Errorf("rows: want 0 or more, got %d", c.Rows))
	}
	r, err := t.readRun(ctx, c.oneRun)
	switch {
	case err != nil:
		return err
	case c.Open:
		return t.printOpen(ctx, r)
	}
	d, err := t.details(ctx, r, c.Rows)
	if err != nil {
		return err
	}
	return t.print(d, func(out io.Writer) error { return terminal.WriteRun(out, d) })
}

func (t *tool) printOpen(ctx context.Context, r ledger.Run) (err error) {
	out := bufio.NewWriter(t.Stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	for row, err := range status.OpenFrom(ctx, t.ledger, r, 0) {
		if err != nil {
			return err
		}
		if t.JSON {
			err = cli.WriteJSON(out, row)
		} else {
			_, err = fmt.Fprintln(out, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
