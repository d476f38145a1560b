package main

import (
	"context"

	"orgops/internal/cli"
	"orgops/internal/customer"
)

type instructionsCommand struct {
	theDomain
	Format    string   `noenv:"true" enum:"text,markdown,html,json" default:"text" placeholder:"FORMAT" help:"Format: text, markdown, html or json."`
	Resolvers []string `placeholder:"A,B,C" help:"Resolvers that know the domain's name servers (default: as for domains check)."`
}

func (*instructionsCommand) Help() string {
	return `Print the TXT record that proves the domain, and how to publish it, in words for a customer who has never seen DNS.
The record is the one that a worker has read last; the API is not queried. The name servers of the domain tell the name
to enter and the DNS provider; without an answer, these are left out.

The text says when the record is checked next. If nothing checks it, a line of the log has the command that does.

Examples:

    enqueue domains instructions acme.example
    enqueue domains instructions acme.example --format html >mail.html

Exit status: 1 if the record is not known.`
}

func (c *instructionsCommand) Run(ctx context.Context, t *tool) error {
	name, err := c.named(ctx, t)
	if err != nil {
		return err
	}
	found, err := t.readDomain(ctx, name, 0)
	if err != nil {
		return err
	}
	check := checkCommand{Tenant: name.Tenant, Resolvers: c.Resolvers}
	check.settle(ctx, t)
	checker, err := check.checker()
	if err != nil {
		return cli.Usage(err)
	}
	defer checker.Close()
	i, err := customer.InstructionsOf(ctx, found, checker)
	if err != nil {
		return err
	}
	if i.Command != "" {
		t.log.WarnContext(ctx, "nothing checks the record", "to_check_it", i.Command)
	}
	switch {
	case t.JSON || c.Format == "json":
		return t.printJSON(i)
	case c.Format == "markdown":
		return i.WriteMarkdown(t.Stdout)
	case c.Format == "html":
		return i.WriteHTML(t.Stdout)
	}
	return i.Write(t.Stdout)
}
