package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/tasks"
	"orgops/tasks/handlers"
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
		fmt.Fprintf(w, "TXT record\tat %s, with the value %s\n", status.Whole(r.Host), status.Whole(r.TXT))
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
	Organization string                 `json:"organization_id"`
	Domain       string                 `json:"discovery_domain_id"`
	Tenant       string                 `json:"tenant"`
	Record       *handlers.VerifyRecord `json:"record"` // null: no worker has read it for an open row
	Rows         []domainRowJSON        `json:"rows"`   // newest first
	More         int                    `json:"more_rows"`
	Recorded     *recordedJSON          `json:"domain_state,omitempty"` // recorded by sweeps; absent: no sweep has found the domain
}

type domainRowJSON struct {
	Run       string          `json:"run"`
	Kind      string          `json:"kind"`
	Item      int64           `json:"item"` // from 0
	CreatedAt time.Time       `json:"created_at"`
	Outcome   *ledger.Outcome `json:"outcome"`          // null: it is open
	Detail    string          `json:"detail,omitempty"` // of the outcome
	Reason    string          `json:"reason,omitempty"` // why it is open
	NextCheck *time.Time      `json:"next_check"`       // null: it is settled, or that is not known
	// LastCheck is the verdict of the last check without the token, as domains check prints
	// it, of a row that is open or expired.
	LastCheck *dnscheck.Evidence `json:"last_check,omitempty"`
	// Proof is the verdict by which the row's domain was verified, and the record of the
	// tenant at that time.
	Proof *handlers.Evidence `json:"proof,omitempty"`
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
		return fmt.Errorf("nothing is recorded of discovery domain %s of tenant %s: no sweep has found it; to check all verified domains now: enqueue domains sweep --tenant %s", c.Domain, c.Tenant, c.Tenant)
	}
	if t.json {
		return t.printJSON(historyJSON{Tenant: c.Tenant, Domain: c.Domain, recordedJSON: recordedAsJSON(r)})
	}
	w := status.NewTable(t.Stdout)
	w.Line("name", status.Shown(r.Domain))
	w.Line("domain", c.Domain)
	w.Line("organization", status.Shown(r.OrganizationID))
	w.Line("tenant", c.Tenant+"\n")
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Write(t.Stdout)
}

// historyJSON is the output of --json.
type historyJSON struct {
	Tenant string `json:"tenant"`
	Domain string `json:"discovery_domain_id"`
	recordedJSON
}

type recordedJSON struct {
	Organization string       `json:"organization_id"`
	Name         string       `json:"domain"`
	Sweeps       int64        `json:"sweeps"`     // that have checked it
	Sweep        *time.Time   `json:"sweep"`      // the tick of the last one of these
	State        string       `json:"state"`      // "present", "absent" or "unknown"
	Reason       string       `json:"reason"`     // of the state
	Sentence     string       `json:"sentence"`   // the same for people; empty unless absent
	Values       []string     `json:"values"`     // found instead of the token, quoted
	At           *time.Time   `json:"checked_at"` // of the state
	FirstPresent *time.Time   `json:"first_present"`
	LastPresent  *time.Time   `json:"last_present"`
	Absence      *absenceJSON `json:"absence"` // null: it is not known to be absent
	Revoked      *revokedJSON `json:"revoked"` // null: it is not, or it was restored
	History      []eventJSON  `json:"history"` // the oldest first
}

type eventJSON struct {
	At      time.Time          `json:"at"`
	Event   string             `json:"event"`
	Reason  string             `json:"reason,omitempty"`
	Verdict *handlers.Evidence `json:"verdict,omitempty"` // by which the record was changed
}

type absenceJSON struct {
	Since    *time.Time `json:"since"`
	Last     *time.Time `json:"last"`
	Checks   int        `json:"sweeps"` // that did not see the token
	Operator string     `json:"name_server_operator,omitempty"`
	Lost     *time.Time `json:"lost_since"` // null: it is not lost
	Decision string     `json:"decision"`   // in words
}

type revokedJSON struct {
	Set         sweep.Setting `json:"set"`
	Run         string        `json:"run"`
	RequestedAt time.Time     `json:"requested_at"`
	At          *time.Time    `json:"revoked_at"`                     // null: the request has had no answer
	Flag        bool          `json:"use_for_organization_discovery"` // before
}

func recordedAsJSON(r status.SweptDomain) recordedJSON {
	j := recordedJSON{
		Organization: r.OrganizationID, Name: r.Domain, Sweeps: r.Sweeps,
		State: r.State, Reason: r.Reason, Sentence: r.Sentence, Values: append([]string{}, r.Values...), At: known(r.At),
		FirstPresent: known(r.FirstPresent), LastPresent: known(r.LastPresent),
		History: []eventJSON{},
	}
	for _, e := range r.History {
		shown := eventJSON{At: e.At, Event: e.What, Reason: e.Why}
		if verdict, err := handlers.ReadEvidence(e.Verdict); err == nil {
			shown.Verdict = &verdict
		}
		j.History = append(j.History, shown)
	}
	if r.Tick != 0 {
		j.Sweep = known(status.TickAt(r.Tick))
	}
	if a := r.Absence; a != nil {
		j.Absence = &absenceJSON{
			Since: known(a.Since), Last: known(a.Last), Checks: a.Checks, Operator: a.Operator, Lost: known(a.Lost), Decision: r.Decision(),
		}
	}
	if v := r.Revoked; v != nil {
		j.Revoked = &revokedJSON{Set: v.Set, Run: v.Run, RequestedAt: v.At, At: known(v.DoneAt), Flag: v.Flag}
	}
	return j
}
