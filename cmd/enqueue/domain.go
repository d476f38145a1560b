package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/engine/kinds"
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
	case t.json:
		return t.printJSON(domainAsJSON(c, found))
	}
	return t.printDomain(c, found)
}

// readDomain checks the name, connects to read, and returns the domain with its newest rows.
func (t *tool) readDomain(ctx context.Context, name status.DomainName, rows int) (status.Domain, error) {
	if err := errors.Join(apiclient.CheckID("org", name.Organization), apiclient.CheckID("domain", name.ID), tasks.CheckTenant(name.Tenant)); err != nil {
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
		return fmt.Errorf("%s; but organization %.128q has that domain: use --org", what, h.Other)
	}
	return fmt.Errorf("%s (runs are deleted %d days after their end): to verify it: enqueue domains verify --tenant %s --org %s --domain %s",
		what, int(ledger.Retention/(24*time.Hour)), c.Tenant, c.Org, c.Domain)
}

func (t *tool) printDomain(c *domainCommand, found status.Domain) error {
	w := status.NewTable(t.Stdout)
	w.Line("organization", c.Org)
	w.Line("domain", c.Domain)
	w.Line("tenant", c.Tenant)
	if r := found.Record; r != nil {
		fmt.Fprintf(w, "name\t%s\n", status.Shown(r.Domain))
		fmt.Fprintf(w, "TXT record\tat %s, with the value %s\n", status.Shown(r.Host), status.Shown(r.TXT))
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for i, row := range found.Rows {
		fmt.Fprintln(t.Stdout, row)
		if row.Findings == nil {
			continue
		}
		fmt.Fprintln(t.Stdout)
		heading := status.Fact{Name: "checked at", Text: status.Stamp(row.Findings.At)}
		if row.Findings.Compared != nil {
			heading.Name = "proven at"
		}
		if err := row.Findings.Write(t.Stdout, heading); err != nil {
			return err
		}
		if i+1 < len(found.Rows) || found.More > 0 {
			fmt.Fprintln(t.Stdout)
		}
	}
	if found.More > 0 {
		fmt.Fprintf(t.Stdout, "and %d more\n", found.More)
	}
	if found.Swept == nil {
		return nil
	}
	fmt.Fprintf(t.Stdout, "%swhat sweeps have seen:\n", map[bool]string{true: "\n"}[len(found.Rows) > 0])
	return found.Swept.Write(t.Stdout)
}

// domainJSON is the output of --json for a domain.
type domainJSON struct {
	Organization string              `json:"organization_id"`
	Domain       string              `json:"discovery_domain_id"`
	Tenant       string              `json:"tenant"`
	Record       *kinds.VerifyRecord `json:"record"` // null: no worker has read it for an open row
	Rows         []domainRowJSON     `json:"rows"`   // newest first
	More         int                 `json:"more_rows"`
	Recorded     *recordedJSON       `json:"remembered,omitempty"` // recorded by sweeps; absent: no sweep has found the domain
}

type domainRowJSON struct {
	Run       string          `json:"run"`
	Kind      string          `json:"kind"`
	Item      int64           `json:"item"` // from 0
	CreatedAt time.Time       `json:"created_at"`
	Outcome   *ledger.Outcome `json:"outcome"`          // null: it is open
	Detail    string          `json:"detail,omitempty"` // of the outcome
	Reason    string          `json:"reason,omitempty"` // why it is open
	NextCheck *time.Time      `json:"next_look"`        // null: it is settled, or that is not known
	// LastCheck is the verdict of the last check without the token, as domains check prints
	// it, of a row that is open or expired.
	LastCheck *dnscheck.Evidence `json:"last_look,omitempty"`
	// Proof is the verdict by which the row's domain was verified, and the record of the
	// tenant at that time.
	Proof *kinds.Evidence `json:"proof,omitempty"`
}

func domainAsJSON(c *domainCommand, h status.Domain) domainJSON {
	j := domainJSON{Organization: c.Org, Domain: c.Domain, Tenant: c.Tenant, Record: h.Record, Rows: []domainRowJSON{}, More: h.More}
	for _, d := range h.Rows {
		row := domainRowJSON{Run: string(d.Run.ID), Kind: string(d.Run.Kind), Item: d.Item, CreatedAt: d.Run.CreatedAt}
		if f := d.Findings; f != nil && f.Compared != nil {
			row.Proof = &f.Evidence
		} else if f != nil {
			row.LastCheck = &f.Evidence.Evidence
		}
		if f := d.State.Result; f != nil {
			row.Outcome, row.Detail = &f.Outcome, f.Detail
		} else {
			open := status.WithStop(d.Run, d.State.Open)
			row.Reason, row.NextCheck = open.Reason, known(open.Next)
		}
		j.Rows = append(j.Rows, row)
	}
	if h.Swept != nil {
		j.Recorded = new(recordedAsJSON(*h.Swept))
	}
	return j
}
