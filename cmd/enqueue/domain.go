package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/status"
	"orgops/internal/terminal"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

type theDomain struct {
	Domain string `arg:"" help:"The domain's name, or its discovery domain id."`
	Org    string `noenv:"true" placeholder:"ORG" help:"Organization id, if several have the domain or no row about it was executed yet."`
	Tenant string `placeholder:"NAME" help:"Tenant of the domain (default: the one that has it)."`
}

func (d theDomain) named(ctx context.Context, t *tool) (status.DomainName, error) {
	return oneDomain{Org: d.Org, Domain: d.Domain}.named(ctx, t, d.Tenant)
}

type domainCommand struct {
	theDomain
	Rows int `noenv:"true" default:"0" placeholder:"N" help:"Search all stored rows about domains, and print so many about this one, newest first (default: the row that was executed last, without a search)."`
}

func (*domainCommand) Help() string {
	return `Print what the workers have found; the API and the DNS are not queried. For an open or expired row that is the last check
without the token, with the answer of each name server and resolver.

A name is found after the first execution of a row about the domain, from any source. The row that was executed last is printed, which
takes no longer with a million rows stored. With --rows all stored rows of the tenant's runs about domains are searched, about 100,000 a
second. That also finds rows that were not executed yet, and, while they are open, those that were enqueued without a run.

Examples:

    enqueue domains show acme.example
    enqueue domains show acme.example --rows 20

Exit status: 1 if nothing is known of the domain.`
}

func (c *domainCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 0 {
		return cli.Usage(fmt.Errorf("rows: want 0 or more, got %d", c.Rows))
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
		return nothing(found, c.Rows > 0)
	}
	write := func(out io.Writer) error { return terminal.WriteDomain(out, found) }
	if err := t.print(found, write); err != nil || c.Rows > 0 || t.JSON {
		return err
	}
	_, err = fmt.Fprintf(t.Stdout, "\nall rows about it: %s\n", searches(found))
	return err
}

// searches returns the command that searches all stored rows for those about the domain.
func searches(d status.Domain) string {
	return fmt.Sprintf("enqueue domains show %s --org %s --tenant %s --rows 20", d.ID, d.Organization, d.Tenant)
}

// readDomain checks the name, connects to read, and returns the domain with its rows.
func (t *tool) readDomain(ctx context.Context, name status.DomainName, rows int) (status.Domain, error) {
	if err := t.connectToRead(ctx, tasks.CheckDomainIDs(name.Organization, name.ID),
		ids.CheckTenant(name.Tenant)); err != nil {
		return status.Domain{}, err
	}
	return status.DomainOf(ctx, t.redis, t.ledger, name, rows)
}

// nothing returns the error of a domain that has no row, and how to proceed.
func nothing(d status.Domain, searched bool) error {
	about := fmt.Sprintf("domain %s of organization %s", d.ID, d.Organization)
	switch {
	case d.Other != "":
		return remedy.With(fmt.Errorf("nothing is known of %s; but organization %s has that domain",
			about, untrusted.Quote(d.Other, untrusted.MaxName)),
			"name that organization by --org")
	case searched:
		return remedy.With(fmt.Errorf("no run of tenant %s has a row about %s (runs are deleted %d days after their end)",
			d.Tenant, about, int(ledger.Retention/(24*time.Hour))),
			"to verify it: %s", d.Verify())
	}
	return remedy.With(fmt.Errorf("no executed row of tenant %s has read the record of %s", d.Tenant, about),
		"to search all stored rows: %s", searches(d))
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
	tenant := c.Tenant
	if tenant == "" || strings.Contains(id, ".") {
		name, err := c.named(ctx, t)
		if err != nil {
			return err
		}
		id = name.ID
		tenant = name.Tenant
	}
	if err := t.connectToRead(ctx, tasks.CheckDomainID(id), ids.CheckTenant(tenant)); err != nil {
		return err
	}
	r, ok, err := status.SweptDomainOf(ctx, t.redis, tenant, id)
	if err != nil {
		return err
	}
	if !ok {
		if err := t.mustBeKnown(ctx, tenant); err != nil {
			return err
		}
		return remedy.With(fmt.Errorf("nothing is recorded of discovery domain %s of tenant %s: no sweep has found it",
			id, tenant),
			"to check all verified domains now: enqueue domains sweep --tenant %s", tenant)
	}
	if t.JSON {
		return t.printJSON(r)
	}
	w := terminal.NewTable(t.Stdout)
	w.Line("name", status.Shown(r.Domain))
	w.Line("domain", id)
	w.Line("organization", status.Shown(r.Organization))
	w.Line("tenant", tenant+"\n")
	if err := w.Flush(); err != nil {
		return err
	}
	return terminal.WriteSwept(t.Stdout, r)
}
