package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/tasks"
)

type domainCommand struct {
	Org    string `required:"true" noenv:"true" placeholder:"ORG" help:"Organization id."`
	Domain string `required:"true" noenv:"true" placeholder:"ID" help:"Discovery domain id in that organization."`
	Tenant string `default:"default" placeholder:"NAME" help:"Tenant of the organization."`
	Rows   int    `noenv:"true" default:"20" help:"Rows to print, newest first."`
}

func (*domainCommand) Help() string {
	return `Print what the workers have found; the API and the DNS are not queried. For an open or expired row that is the last check
without the token, with the answer of each name server and resolver.

All stored rows of the tenant's runs about domains are read, about a million a second. Rows that were
enqueued without a run are found while they are open.

Example:

    enqueue domains show --org org_2iEQW5K6I4KggeE5 --domain ord_NTC6ExXjNUM91N94wxGrPQ

Exit status: 1 if no run has a row about the domain.`
}

func (c *domainCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 1 {
		return cli.Usage(fmt.Errorf("rows: want 1 or more, got %d", c.Rows))
	}
	found, err := t.readDomain(ctx, status.DomainName{Tenant: c.Tenant, Organization: c.Org, ID: c.Domain}, c.Rows)
	switch {
	case err != nil:
		return err
	case len(found.Rows) == 0 && found.Swept == nil:
		return nothing(c, found)
	}
	return t.print(found)
}

// readDomain checks the name, connects to read, and returns the domain with its newest rows.
func (t *tool) readDomain(ctx context.Context, name status.DomainName, rows int) (status.Domain, error) {
	if err := errors.Join(apiclient.CheckID("org", name.Organization), apiclient.CheckID("domain", name.ID),
		tasks.CheckTenant(name.Tenant)); err != nil {
		return status.Domain{}, cli.Usage(err)
	}
	if err := t.connectToRead(ctx); err != nil {
		return status.Domain{}, err
	}
	return status.DomainOf(ctx, t.redis, t.ledger, name, rows)
}

// nothing returns the error of a domain that has no row, and how to proceed.
func nothing(c *domainCommand, h status.Domain) error {
	what := fmt.Sprintf("no run of tenant %s has a row about domain %s of organization %s", c.Tenant, c.Domain, c.Org)
	if h.Other != "" {
		return cli.Fixed(fmt.Errorf("%s; but organization %.128q has that domain", what, h.Other),
			"name that organization by --org")
	}
	return cli.Fixed(fmt.Errorf("%s (runs are deleted %d days after their end)", what,
		int(ledger.Retention/(24*time.Hour))),
		"to verify it: enqueue domains verify --tenant %s --org %s --domain %s", c.Tenant, c.Org, c.Domain)
}

type historyCommand struct {
	Domain string `required:"true" noenv:"true" placeholder:"ID" help:"Discovery domain id."`
	Tenant string `default:"default" placeholder:"NAME" help:"Tenant of the domain."`
}

func (*historyCommand) Help() string {
	return `Print what sweeps have recorded; the API and the DNS are not queried (see domains check). A domain is recorded from its
first sweep until 400 days after the last sweep that found it.

Example:

    enqueue domains history --domain ord_NTC6ExXjNUM91N94wxGrPQ`
}

func (c *historyCommand) Run(ctx context.Context, t *tool) error {
	if err := errors.Join(apiclient.CheckID("domain", c.Domain), tasks.CheckTenant(c.Tenant)); err != nil {
		return cli.Usage(err)
	}
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	r, ok, err := status.SweptDomainOf(ctx, t.redis, c.Tenant, c.Domain)
	if err != nil {
		return err
	}
	if !ok {
		return cli.Fixed(fmt.Errorf("nothing is recorded of discovery domain %s of tenant %s: no sweep has found it",
			c.Domain, c.Tenant),
			"to check all verified domains now: enqueue domains sweep --tenant %s", c.Tenant)
	}
	if t.JSON {
		return t.printJSON(r)
	}
	w := status.NewTable(t.Stdout)
	w.Line("name", status.Shown(r.Domain))
	w.Line("domain", c.Domain)
	w.Line("organization", status.Shown(r.Organization))
	w.Line("tenant", c.Tenant+"\n")
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Write(t.Stdout)
}
