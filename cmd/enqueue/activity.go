package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"orgops/internal/activity"
	"orgops/internal/ids"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/internal/terminal"
)

type activityCommand struct {
	Tenants []string `arg:"" optional:"" name:"tenant" help:"Names of tenants (default: all that have, or had, a run)."`
	Since   string   `noenv:"true" default:"24h" placeholder:"TIME" help:"Only entries since then: 2026-11-01, 2026-11-01T08:00:00Z, or an age such as 2h."`
	RunID   string   `name:"run" noenv:"true" placeholder:"ID" help:"Only entries about this run."`
	By      string   `noenv:"true" placeholder:"NAME" help:"Only actions of users with this text in their name."`
}

func (*activityCommand) Help() string {
	return `Newest first; with --json an entry is a line. A name that was given on a command line is marked as claimed: it is not verified. A
tenant has its last 10,000 entries, for 90 days. Rows are not among them: see "enqueue runs results".

Example:

    enqueue activity acme --since 2h`
}

func (c *activityCommand) Run(ctx context.Context, t *tool) error {
	since, err := parseSince(c.Since)
	for _, name := range c.Tenants {
		err = errors.Join(err, ids.CheckTenant(name))
	}
	if err := t.connectToRead(ctx, err); err != nil {
		return err
	}
	for _, name := range c.Tenants {
		if err := t.mustBeKnown(ctx, name); err != nil {
			return err
		}
	}
	if len(c.Tenants) == 0 {
		if c.Tenants, err = status.Tenants(ctx, t.ledger); err != nil {
			return err
		}
	}

	// A page of entries after another.
	q := activity.Query{Tenants: c.Tenants, Since: since, Run: c.RunID, By: c.By, Limit: 1000}
	w := terminal.NewTable(t.Stdout)
	printed := 0
	for more := true; more && err == nil; more = q.After != "" {
		var page []activity.Entry
		page, q.After, err = activity.Page(ctx, t.redis, q)
		printed += len(page)
		for _, e := range page {
			if t.JSON {
				err = errors.Join(err, t.printJSON(e))
			} else {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", stamp.UTC(e.At), e.Tenant, e.Who(), e.Action,
					status.Shown(strings.TrimSpace(e.Run+" "+e.Domain)), status.Whole(e.Result))
			}
		}
	}
	if err == nil && printed == 0 {
		fmt.Fprintf(t.Stderr, "no such activity in %s since %s\n", t.place(), stamp.UTC(since))
	}
	return errors.Join(err, w.Flush())
}
