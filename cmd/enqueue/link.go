package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/customer"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/status"
	"orgops/internal/web"
	"orgops/tasks"
)

type linkCommand struct {
	theDomain
	customer.Settings
	For    string `noenv:"true" default:"14d" placeholder:"TIME" help:"How long the link is valid, such as 14d or 36h; at most 30d."`
	Revoke bool   `noenv:"true" help:"Revoke all links to the domain instead of printing one."`
}

func (*linkCommand) Help() string {
	return `Print a link to the page of "enqueue customer-page", for the owner of the domain. It shows the record to publish,
the result of the last check and the time of the next, and requests a check by a button. The link needs no sign-in.
Set --link-keys and --link-url as for that command; --revoke needs neither.

The domain is checked for as long as the link is valid: if no row of it is open, one is submitted. A row that is open
already waits as long as it did. A verified domain is not checked.

Examples:

    enqueue domains link acme.example --for 30d
    enqueue domains link acme.example --revoke

Exit status: 1 if no row about the domain was executed yet.`
}

func (c *linkCommand) Run(ctx context.Context, t *tool) error {
	life, err := customer.ParseLife(c.For)
	if err != nil {
		return cli.Usage(fmt.Errorf("for: %w", err))
	}
	name, err := c.named(ctx, t)
	if err == nil {
		err = cli.Usage(tasks.CheckDomainIDs(name.Organization, name.ID))
	}
	if err == nil {
		err = t.connectToSubmit(ctx)
	}
	if err != nil {
		return err
	}
	if c.Revoke {
		if err := customer.Revoke(ctx, t.redis, name); err != nil {
			return err
		}
		t.log.InfoContext(ctx, "links revoked", "tenant", name.Tenant, "organization", name.Organization, "domain", name.ID)
		return nil
	}
	links, err := c.Open(t.redis, t.ledger, t.log)
	if err != nil {
		return cli.Usage(err)
	}
	d, err := status.Report(ctx, t.redis, t.ledger, name.Tenant, name.ID)
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && d.Organization != name.Organization) {
		return remedy.With(fmt.Errorf("no row about domain %s of organization %s was executed", name.ID, name.Organization),
			"to verify it: %s", name.Verify())
	}
	if err != nil {
		return err
	}
	link, err := links.Make(ctx, d, life, "")
	if err != nil {
		return err
	}
	t.log.InfoContext(ctx, "link made", "tenant", d.Tenant, "organization", d.Organization, "domain", d.ID,
		"expires_at", link.Expires)
	if t.JSON {
		return t.printJSON(link)
	}
	_, err = fmt.Fprintln(t.Stdout, link.URL)
	return err
}

type pageCommand struct {
	Addr string `default:"127.0.0.1:8084" placeholder:"HOST:PORT" help:"Address to listen on. Other than on loopback, --tls-cert and --tls-key are required."`
	web.Certificate
	customer.Settings
	customer.PageSettings
	Resolvers       []string      `placeholder:"A,B,C" help:"Resolvers that are queried for the name servers of a domain (default: as for domains check)."`
	ShutdownTimeout time.Duration `default:"25s" placeholder:"DURATION" help:"How long requests in progress may take to finish at shutdown."`
}

func (*pageCommand) Help() string {
	return `Serve the page that the links of "enqueue domains link" open, and nothing else: it may be reached from the Internet.
Requests must be for the host of --link-url.

Example:

    (umask 077; openssl rand -hex 32 >link.key)
    enqueue customer-page --link-keys link.key --link-url https://verify.example.com --company Example`
}

func (c *pageCommand) Run(ctx context.Context, t *tool) error {
	_, certificate, err := web.Settings{Certificate: c.Certificate}.Open("addr", c.Addr, true, t.log)
	if err != nil {
		return cli.Usage(err)
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	links, err := c.Open(t.redis, t.ledger, t.log)
	if err != nil {
		return cli.Usage(err)
	}
	if len(c.Resolvers) == 0 {
		c.Resolvers = dnscheck.DefaultResolvers()
	}
	checker, err := (&checkCommand{Resolvers: c.Resolvers, DNSMode: dnscheck.ModeAuthority.String()}).checker()
	if err != nil {
		return cli.Usage(err)
	}
	defer checker.Close()
	handler, err := c.Handler(links, checker, t.log)
	if err != nil {
		return cli.Usage(err)
	}
	return t.serve(ctx, c.Addr, certificate, handler, c.ShutdownTimeout)
}
