package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/tasks"
)

// theDomain is the argument of commands for a domain.
type theDomain struct {
	Domain string `arg:"" help:"The domain's name, or its discovery domain id."`
	Org    string `noenv:"true" placeholder:"ORG" help:"Organization id, if several have the domain or no row about it was executed yet."`
	Tenant string `default:"default" placeholder:"NAME" help:"Tenant of the domain."`
}

func (d theDomain) named(ctx context.Context, t *tool) (status.DomainName, error) {
	return oneDomain{Org: d.Org, Domain: d.Domain}.named(ctx, t, d.Tenant)
}

type domainCommand struct {
	theDomain
	Rows int `noenv:"true" default:"20" help:"Rows to print, newest first."`
}

func (*domainCommand) Help() string {
	return `Print what the workers have found; the API and the DNS are not queried. For an open or expired row that is the last check
without the token, with the answer of each name server and resolver.

A name is found after the first execution of a row about the domain, from any source. All stored rows of the tenant's runs
about domains are read, about a million a second. Rows that were enqueued without a run are found while they are open.

Example:

    enqueue domains show acme.example

Exit status: 1 if nothing is known of the domain.`
}

func (c *domainCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 1 {
		return cli.Usage(fmt.Errorf("rows: want 1 or more, got %d", c.Rows))
	}
	name, err := c.named(ctx, t)
	if err != nil {
		return err
	}
	found, err := t.readDomain(ctx, name, c.Rows)
	switch {
	case err != nil:
		return err
	case len(found.Rows) == 0 && found.Swept == nil && found.Known == nil:
		return nothing(found)
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
func nothing(h status.Domain) error {
	what := fmt.Sprintf("no run of tenant %s has a row about domain %s of organization %s", h.Tenant, h.ID, h.Organization)
	if h.Other != "" {
		return cli.Fixed(fmt.Errorf("%s; but organization %.128q has that domain", what, h.Other),
			"name that organization by --org")
	}
	return cli.Fixed(fmt.Errorf("%s (runs are deleted %d days after their end)", what,
		int(ledger.Retention/(24*time.Hour))),
		"to verify it: enqueue domains verify --tenant %s --org %s --domain %s", h.Tenant, h.Organization, h.ID)
}

type historyCommand struct{ theDomain }

func (*historyCommand) Help() string {
	return `Print what sweeps have recorded; the API and the DNS are not queried (see domains check). A domain is recorded from its
first sweep until 400 days after the last sweep that found it.

Example:

    enqueue domains history acme.example`
}

func (c *historyCommand) Run(ctx context.Context, t *tool) error {
	id := c.Domain
	if strings.Contains(id, ".") {
		name, err := c.named(ctx, t)
		if err != nil {
			return err
		}
		id = name.ID
	} else if err := errors.Join(apiclient.CheckID("domain", id), tasks.CheckTenant(c.Tenant)); err != nil {
		return cli.Usage(err)
	}
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	r, ok, err := status.SweptDomainOf(ctx, t.redis, c.Tenant, id)
	if err != nil {
		return err
	}
	if !ok {
		return cli.Fixed(fmt.Errorf("nothing is recorded of discovery domain %s of tenant %s: no sweep has found it",
			id, c.Tenant),
			"to check all verified domains now: enqueue domains sweep --tenant %s", c.Tenant)
	}
	if t.JSON {
		return t.printJSON(r)
	}
	w := status.NewTable(t.Stdout)
	w.Line("name", status.Shown(r.Domain))
	w.Line("domain", id)
	w.Line("organization", status.Shown(r.Organization))
	w.Line("tenant", c.Tenant+"\n")
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Write(t.Stdout)
}
