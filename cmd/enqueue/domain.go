package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/tasks"
)

type domainCommand struct {
	Org    string `required:"true" noenv:"true" placeholder:"ORG" help:"Organization of the domain."`
	Domain string `required:"true" noenv:"true" placeholder:"ID" help:"Discovery domain of that organization."`
	Tenant string `default:"default" placeholder:"NAME" help:"Tenant of the organization."`
	Rows   int    `noenv:"true" default:"20" help:"How many rows are shown, the newest first."`
}

// Help says what it reads.
func (*domainCommand) Help() string {
	return "It needs Redis alone: what is told is what the workers have found, not what the API says now. " +
		"Of a row that is open or expired that is the last look that did not find the token, with what each name server or resolver answered. " +
		"All stored rows of the tenant's runs about domains are read for it, which takes about a second for a million. " +
		"Rows that came to the queue by themselves, without a run, are told while they are open."
}

func (c *domainCommand) check() error {
	err := errors.Join(apiclient.CheckID("org", c.Org), apiclient.CheckID("domain", c.Domain), tasks.CheckTenant(c.Tenant))
	if err == nil && c.Rows < 1 {
		err = fmt.Errorf("rows: want 1 or more, got %d", c.Rows)
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}

// Run shows the domain.
func (c *domainCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	found, err := t.findDomain(ctx, c)
	if err == nil {
		err = t.remember(ctx, c, &found)
	}
	switch {
	case err != nil:
		return err
	case len(found.rows) == 0 && found.remembered == nil:
		return found.nothing(c)
	case t.json:
		return t.printJSON(found.asJSON(c))
	}
	return t.printDomain(c, found)
}

// domainHistory is what the ledger has of a domain, and what sweeps have written down.
type domainHistory struct {
	rows   []domainState // the newest first
	more   int           // and how many were left out
	record *tasks.Record // as a worker has read it for an open row; nil: none has
	// remembered is what sweeps have written down, nil: nothing; the others are what they
	// go by.
	remembered *cli.Remembered
	rules      tasks.Rules
	judgement  cli.Judgement
	// other is an organization which rows name that have this domain's id, where
	// it is not the one that was asked for.
	other string
}

// domainState is a row about the domain, and how it stands.
type domainState struct {
	intake.DomainRow

	state    runs.RowState
	evidence *dnscheck.Evidence // of the last look that did not find the token; nil: there is none
}

func (t *tool) findDomain(ctx context.Context, c *domainCommand) (domainHistory, error) {
	var found domainHistory
	for row, err := range intake.DomainRows(ctx, t.ledger, c.Tenant, c.Domain) {
		switch {
		case err != nil:
			return found, err
		case row.Organization != c.Org:
			found.other = cmp.Or(found.other, row.Organization)
			continue
		case len(found.rows) == c.Rows:
			found.more++
			continue
		}
		state, err := t.ledger.Row(ctx, row.Run.ID, row.Item, tasks.RecordMark)
		if err != nil {
			return found, err
		}
		record := new(tasks.Record)
		if found.record == nil && len(state.Kept) > 0 && json.Unmarshal(state.Kept, record) == nil {
			found.record = record
		}
		shown := domainState{DomainRow: row, state: state}
		if len(state.Evidence) > 0 {
			e, err := tasks.ReadEvidence(state.Evidence)
			if err != nil {
				return found, fmt.Errorf("row %d of run %s: %w", row.Item, row.Run.ID, err)
			}
			shown.evidence = &e
		}
		found.rows = append(found.rows, shown)
	}
	return found, nil
}

// remember adds what sweeps have written down of the domain, if it is the organization's.
func (t *tool) remember(ctx context.Context, c *domainCommand, found *domainHistory) error {
	r, ok, err := cli.RememberedOf(ctx, t.redis, c.Tenant, c.Domain)
	switch {
	case err != nil || !ok:
		return err
	case r.OrganizationID != c.Org:
		found.other = cmp.Or(found.other, r.OrganizationID)
		return nil
	}
	found.remembered = &r
	found.rules, found.judgement, err = t.rules(ctx, c.Tenant)
	return err
}

// nothing says that there is no such row, and what to do.
func (h domainHistory) nothing(c *domainCommand) error {
	what := fmt.Sprintf("no run of tenant %s has a row about domain %s of organization %s", c.Tenant, c.Domain, c.Org)
	if h.other != "" {
		return fmt.Errorf("%s; but that domain is known of organization %.128q: look there by --org", what, h.other)
	}
	return fmt.Errorf("%s (runs that ended more than %d days ago are forgotten): to have it proven: enqueue domains verify --tenant %s --org %s --domain %s",
		what, int(runs.Retention/(24*time.Hour)), c.Tenant, c.Org, c.Domain)
}

func (t *tool) printDomain(c *domainCommand, found domainHistory) error {
	w := tabwriter.NewWriter(t.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "organization\t%s\n", c.Org)
	fmt.Fprintf(w, "domain\t%s\n", c.Domain)
	fmt.Fprintf(w, "tenant\t%s\n", c.Tenant)
	if r := found.record; r != nil {
		fmt.Fprintf(w, "name\t%s\n", cli.Shown(r.Domain))
		fmt.Fprintf(w, "TXT record\tat %s, with the value %s\n", cli.Shown(r.Host), cli.Shown(r.TXT))
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for i, row := range found.rows {
		fmt.Fprintln(t.Stdout, row)
		if err := row.printLook(t.Stdout, i+1 < len(found.rows) || found.more > 0); err != nil {
			return err
		}
	}
	if found.more > 0 {
		fmt.Fprintf(t.Stdout, "and %d more\n", found.more)
	}
	if found.remembered == nil {
		return nil
	}
	fmt.Fprintf(t.Stdout, "%swhat sweeps have seen:\n", map[bool]string{true: "\n"}[len(found.rows) > 0])
	return found.remembered.Seen(t.Stdout, found.rules, found.judgement)
}

// printLook writes what the last look found, as domains check does, and a line
// between it and what follows.
func (d domainState) printLook(out io.Writer, follows bool) error {
	if d.evidence == nil {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\nlooked at\t%s\n", stamp(d.evidence.At))
	printVerdict(w, *d.evidence)
	if next := cli.AsOf(d.Run, d.state.Open).Next; d.state.Fate == nil && !next.IsZero() {
		fmt.Fprintf(w, "next look\t%s\n", stamp(next))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printSaid(out, *d.evidence); err != nil || !follows {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// String is the row with its run and how it stands.
func (d domainState) String() string {
	where := fmt.Sprintf("run %s (%s, %s), row %d: ", d.Run.ID, d.Run.Kind, stamp(d.Run.CreatedAt), d.Item)
	if f := d.state.Fate; f != nil {
		if f.Detail == "" {
			return where + f.Outcome
		}
		return where + f.Outcome + ": " + f.Detail
	}
	return where + "open: " + cli.Waits(d.Run, d.state.Open)
}

// domainJSON is what --json prints of a domain.
type domainJSON struct {
	Organization string          `json:"organization_id"`
	Domain       string          `json:"discovery_domain_id"`
	Tenant       string          `json:"tenant"`
	Record       *recordJSON     `json:"record"` // null: no worker has read it for a row that is open
	Rows         []domainRowJSON `json:"rows"`   // the newest first
	More         int             `json:"more_rows"`
	Remembered   *rememberedJSON `json:"remembered,omitempty"` // by sweeps; not there: none has come upon it
}

type recordJSON struct {
	Domain string `json:"domain"`
	Host   string `json:"verification_host"`
	TXT    string `json:"verification_txt"`
}

type domainRowJSON struct {
	Run       string     `json:"run"`
	Kind      string     `json:"kind"`
	Item      int64      `json:"item"` // from 0
	CreatedAt time.Time  `json:"created_at"`
	Outcome   *string    `json:"outcome"`          // null: it is open
	Detail    string     `json:"detail,omitempty"` // of the outcome
	Reason    string     `json:"reason,omitempty"` // why it is open
	NextLook  *time.Time `json:"next_look"`        // null: it is settled, or that is not known
	// LastLook is the verdict of the last look that did not find the token, as domains
	// check tells one; of a row that is open or expired.
	LastLook *dnscheck.Evidence `json:"last_look,omitempty"`
}

func (h domainHistory) asJSON(c *domainCommand) domainJSON {
	j := domainJSON{Organization: c.Org, Domain: c.Domain, Tenant: c.Tenant, Rows: []domainRowJSON{}, More: h.more}
	if h.record != nil {
		j.Record = &recordJSON{h.record.Domain, h.record.Host, h.record.TXT}
	}
	for _, d := range h.rows {
		row := domainRowJSON{Run: d.Run.ID, Kind: d.Run.Kind, Item: d.Item, CreatedAt: d.Run.CreatedAt, LastLook: d.evidence}
		if f := d.state.Fate; f != nil {
			row.Outcome, row.Detail = &f.Outcome, f.Detail
		} else {
			open := cli.AsOf(d.Run, d.state.Open)
			row.Reason = open.Reason
			if !open.Next.IsZero() {
				row.NextLook = &open.Next
			}
		}
		j.Rows = append(j.Rows, row)
	}
	if h.remembered != nil {
		j.Remembered = new(rememberedAsJSON(*h.remembered, h.rules))
	}
	return j
}
