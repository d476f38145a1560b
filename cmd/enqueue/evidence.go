package main

import (
	"context"

	"orgops/internal/ids"
	"orgops/internal/results"
)

type exportCommand struct {
	Since  string `required:"true" noenv:"true" placeholder:"TIME" help:"Export proofs made since then: 2026-11-01, 2026-11-01T08:00:00Z, or an age such as 7d."`
	Domain string `noenv:"true" placeholder:"DOMAIN" help:"Only this domain (name or id)."`
	Tenant string `placeholder:"NAME" help:"Only this tenant (default: all)."`
}

func (*exportCommand) Help() string {
	return `Write one line of JSON for each domain that was verified, or that others have verified and a sweep has proven: tenant, run and row, the
record, and the answer of every name server and resolver. Proofs are kept as long as their runs, 30 days after these have ended, and 7 of
sweeps; export them at least monthly, or weekly with sweeps, to keep them longer.

Example:

    enqueue evidence export --since 2026-11-01 >evidence.jsonl`
}

func (c *exportCommand) Run(ctx context.Context, t *tool) error {
	since, err := parseSince(c.Since)
	if err := t.connectToRead(ctx, err, ifGiven(c.Tenant, ids.CheckTenant)); err != nil {
		return err
	}
	for proof, err := range (results.Proofs{Tenant: c.Tenant, Since: since, Domain: c.Domain}).All(ctx, t.ledger) {
		if err == nil {
			err = t.printJSON(proof)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
