package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/terminal"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

type revokeCommand struct {
	Tenant    string        `placeholder:"NAME" help:"Tenant of the domains (default: default; with --undo, the one that has the run)."`
	Org       string        `noenv:"true" placeholder:"ORG" help:"Only domains of this organization."`
	Set       sweep.Setting `noenv:"true" enum:"pending,unroute" default:"pending" help:"What is set: pending (the status), or unroute (use_for_organization_discovery becomes false)."`
	AbsentFor time.Duration `noenv:"true" placeholder:"DURATION" help:"How long the TXT record must be gone, if longer than the tenant's --grace."`
	Sweeps    int           `noenv:"true" placeholder:"N" help:"How many sweeps in a row must have found it gone, if more than the tenant's --absent-checks."`
	Max       int64         `noenv:"true" placeholder:"N" help:"Most domains of the tenant to revoke in seven days, those of other runs included (default: 20, or 1 % of the domains of the last complete sweep if that is more)."`
	Operator  []string      `noenv:"true" placeholder:"NAME" help:"Also revoke domains of this name-server operator although many of its domains are absent."`
	Undo      string        `noenv:"true" placeholder:"RUN" help:"Prove and restore the domains that this run has revoked, instead."`
	ID        string        `name:"run" noenv:"true" placeholder:"ID" help:"Run id (default: a new one)."`
	Label     string        `noenv:"true" placeholder:"TEXT" help:"Label shown with the run."`
	Follow    bool          `noenv:"true" help:"Wait until the run has ended, then print the results of its rows."`
	DryRun    bool          `noenv:"true" help:"Print all domains known to be absent, and which of them would be revoked; change nothing."`
	Rows      int           `noenv:"true" default:"20" help:"Domains that --dry-run prints; --json prints all."`
	sure
}

func (*revokeCommand) Help() string {
	return `Sweeps report a domain whose TXT record was proven before as lost once --absent-checks sweeps have found its TXT record gone over at least --grace; nothing is changed then.
This command revokes lost domains that the last complete sweep found gone. Before each change a worker reads state and record again, and
queries all of the zone's name servers and the resolvers: a majority of each must deny the record, and none may have it. A domain that
was never proven, one whose record omits use_for_organization_discovery, and one that --protect of the worker names, is never revoked.

If five or more domains of one name-server operator, and a tenth of all its domains, are absent, the operator may be the cause: they are
left out unless --operator names it. A revoked domain is restored when a sweep finds its TXT record again, or at once by --undo.

Unless --undo is given the command asks on a terminal, with the number of domains. Elsewhere, as for cron, it needs --yes.

Examples:

    enqueue domains revoke --dry-run
    enqueue domains revoke --set unroute --absent-for 336h --follow
    enqueue domains revoke --undo 20261122-030000-abcdef

Exit status: 1 if more domains qualify than may be revoked in seven days; none is revoked then.`
}

func (c *revokeCommand) check() error {
	errs := []error{ifGiven(c.Tenant, ids.CheckTenant), ifGiven(c.Org, tasks.CheckOrganization),
		ifGiven(c.ID, ids.CheckRun), ifGiven(c.Undo, ids.CheckRun)}
	if c.AbsentFor < 0 || c.Sweeps < 0 || c.Max < 0 || c.Rows < 1 {
		errs = append(errs, errors.New("absent-for, sweeps, max and rows: want no negative number, and rows of 1 or more"))
	}
	if c.DryRun && c.Follow {
		errs = append(errs, errors.New("--dry-run and --follow do not go together: a dry run starts nothing to follow"))
	}
	other := firstGiven(
		flag{c.Org != "", "--org"}, flag{c.AbsentFor != 0, "--absent-for"}, flag{c.Sweeps != 0, "--sweeps"},
		flag{c.Max != 0, "--max"},
		flag{len(c.Operator) > 0, "--operator"}, flag{c.DryRun, "--dry-run"},
	)
	if c.Undo != "" && other != "" {
		errs = append(errs, fmt.Errorf("--undo and %s do not go together: it restores what the run has revoked", other))
	}
	return cli.Usage(errors.Join(errs...))
}

func (c *revokeCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Undo != "" {
		return t.undoRevocations(ctx, c)
	}
	c.Tenant = cmp.Or(c.Tenant, tasks.DefaultTenant)
	if !c.DryRun {
		return t.revoke(ctx, c)
	}
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	p, err := t.planRevocations(ctx, c)
	if err != nil {
		return err
	}
	return t.print(p, p.Write)
}

type revocations struct {
	DryRun     bool                  `json:"dry_run"`
	Tenant     string                `json:"tenant"`
	Set        sweep.Setting         `json:"set"`
	Chosen     int64                 `json:"to_be_revoked"`
	Used       int64                 `json:"revoked_in_seven_days"`
	Most       int64                 `json:"max"`
	Refused    string                `json:"refused,omitempty"`    // why nothing would be revoked
	Unreadable int                   `json:"unreadable,omitempty"` // states
	Operators  []sweep.OperatorShare `json:"name_server_operators,omitempty"`
	Candidates []candidate           `json:"domains,omitempty"` // that are absent or revoked, first those to be revoked

	rows int // to print
}

// candidate is a domain that is absent or revoked.
type candidate struct {
	ID           string          `json:"discovery_domain_id"`
	Name         string          `json:"domain"`
	Organization string          `json:"organization_id"`
	Operator     string          `json:"name_server_operator,omitempty"`
	Absence      *status.Absence `json:"absence,omitempty"` // nil: it is revoked
	Chosen       bool            `json:"to_be_revoked"`
	Unfit        string          `json:"reason,omitempty"` // why not
}

// refusal returns why nothing is revoked; nil: the brake allows it.
func (p revocations) refusal() error {
	if p.Chosen <= p.Most-p.Used {
		return nil
	}
	return remedy.With(fmt.Errorf("%d domains qualify, and %d may be revoked in seven days, of which %d were",
		p.Chosen, p.Most, p.Used),
		"list them by --dry-run; then revoke some (--org, --absent-for), wait, or allow more by --max")
}

// planRevocations selects the domains to revoke by the states that sweeps have stored.
func (t *tool) planRevocations(ctx context.Context, c *revokeCommand) (p revocations, err error) {
	p = revocations{DryRun: c.DryRun, Tenant: c.Tenant, Set: c.Set, rows: c.Rows}

	// The tenant's rules, which the command may only tighten.
	settings, err := t.mustBeServed(ctx, c.Tenant)
	if err != nil {
		return p, err
	}
	rules := settings.Rules()
	switch {
	case c.AbsentFor != 0 && c.AbsentFor < rules.Grace:
		return p, cli.Usage(fmt.Errorf("absent-for: want at least the tenant's grace, %s, got %s", rules.Grace, c.AbsentFor))
	case c.Sweeps != 0 && c.Sweeps < rules.AbsentChecks:
		return p,
			cli.Usage(fmt.Errorf("sweeps: want at least the tenant's absent-checks, %d, got %d", rules.AbsentChecks, c.Sweeps))
	}

	// The states of watched domains, with the counts of the last complete sweep.
	store := sweep.NewStore(t.redis, c.Tenant)
	states := sweep.States{Tenant: c.Tenant, Store: store}
	s := sweep.Selection{Rules: rules.Tightened(c.AbsentFor, c.Sweeps), Organization: c.Org, Operators: c.Operator}
	if s.Summary, _, err = states.Summary(ctx); err != nil {
		return p, err
	}
	if s.Counts, err = store.Counts(ctx, s.Summary.Tick); err != nil {
		return p, err
	}
	if s.At, err = store.Clock(ctx); err != nil {
		return p, err
	}
	for d, err := range states.Watched(ctx) {
		switch {
		case err == nil:
			s.Add(d.ID, d.DomainState)
		case d.ID == "":
			return p, err
		default:
			p.Unreadable++
			t.log.WarnContext(ctx, "domain state unreadable: the domain is left out", "discovery_domain_id", d.ID, "error", err,
				"what_to_do", sweep.Unreadable)
		}
	}

	// Which of them qualify, and how many the brake allows.
	candidates, operators := s.Select()
	for _, d := range candidates {
		p.Candidates = append(p.Candidates, candidate{d.ID, d.Domain, d.OrganizationID, d.Operator,
			(*status.Absence)(d.Absence), d.Unfit == "", d.Unfit})
	}
	for _, one := range operators {
		p.Chosen += one.Chosen
	}
	p.Operators = operators
	p.Most = cmp.Or(c.Max, s.Summary.Max())
	if p.Used, err = store.Revocations(ctx, s.At); err != nil {
		return p, err
	}
	if refused := p.refusal(); refused != nil {
		p.Refused = refused.Error()
	}
	return p, nil
}

func (t *tool) revoke(ctx context.Context, c *revokeCommand) error {
	if err := t.connectToSubmit(ctx); err != nil {
		return err
	}
	p, err := t.planRevocations(ctx, c)
	if err != nil {
		return err
	}
	if !t.JSON || p.refusal() != nil {
		if err := p.writeOperators(t.Stderr); err != nil {
			return err
		}
	}
	if err := p.refusal(); err != nil {
		return err
	}
	if p.Chosen > 0 {
		// It can be undone, but customers cannot log in meanwhile: no domain is revoked by a command
		// that was only pasted into a script.
		err := c.confirm(ctx, t, question{needsYes: true, before: "list them by --dry-run",
			text: fmt.Sprintf("Revoke %d domains of tenant %s (%s): their logins are no longer routed to the organization",
				p.Chosen, c.Tenant, c.Set)})
		if err != nil {
			return err
		}
	}
	var rows [][]byte
	for _, d := range p.Candidates[:p.Chosen] {
		row, err := json.Marshal(sweep.RevokeRow{
			OrganizationID: d.Organization, DiscoveryDomainID: d.ID, Set: c.Set, Grace: c.AbsentFor,
			AbsentChecks: c.Sweeps, Max: p.Most,
		})
		if err != nil {
			return fmt.Errorf("domain %s: %w", d.ID, err)
		}
		rows = append(rows, row)
	}
	return t.submitChosen(ctx, c, ledger.NewRun{Kind: handlers.Revoke}, rows, "no domain qualifies: nothing is revoked")
}

// undoGiveUp is how long a row that restores a status waits for a proof. Sweeps restore it later.
const undoGiveUp = time.Hour

func (t *tool) undoRevocations(ctx context.Context, c *revokeCommand) error {
	if err := t.connectToSubmit(ctx); err != nil {
		return err
	}

	// The run to undo.
	from, err := t.find(ctx, oneRun{c.Undo, c.Tenant})
	switch {
	case err != nil:
		return err
	case from.Kind != handlers.Revoke:
		return cli.Usage(fmt.Errorf("undo: run %s is of kind %s: want one of kind %s", from.ID, from.Kind, handlers.Revoke))
	}
	c.Tenant = string(from.Tenant)

	// Those of its rows whose revocation still holds.
	states := sweep.States{Tenant: c.Tenant, Store: sweep.NewStore(t.redis, c.Tenant)}
	run := ledger.NewRun{Kind: handlers.Revoke, Description: ledger.Description{Undoes: from.ID}}
	var rows [][]byte
	for first := int64(0); first < from.Total(); {
		page, err := t.ledger.Contents(ctx, from, first, ledger.SegmentRows)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("run %s: its rows from %d on cannot be read", from.ID, first)
		}
		for _, source := range page {
			var row sweep.RevokeRow
			if err := json.NewDecoder(bytes.NewReader(source)).Decode(&row); err != nil {
				return fmt.Errorf("run %s: %w", from.ID, err)
			}
			state, _, err := states.Read(ctx, row.DiscoveryDomainID)
			if err != nil {
				return err
			}
			if state.Revoked == nil || state.Revoked.Run != string(from.ID) {
				continue // it was not revoked, or is restored
			}
			if row.Set == sweep.SetPending {
				run.Kind = handlers.Verify
				run.GiveUp = undoGiveUp
			}
			content, err := undoing(row, state.Revoked.Flag)
			if err != nil {
				return fmt.Errorf("domain %s: %w", row.DiscoveryDomainID, err)
			}
			rows = append(rows, content)
		}
		first += int64(len(page))
	}
	return t.submitChosen(ctx, c, run, rows, "nothing that run "+c.Undo+" has revoked is left to restore")
}

// undoing returns the row that undoes the row: a verification restores a status, with its flag.
func undoing(row sweep.RevokeRow, flag bool) ([]byte, error) {
	if row.Set == sweep.SetPending {
		return json.Marshal(tasks.VerifyRow{
			OrganizationID: row.OrganizationID, DiscoveryDomainID: row.DiscoveryDomainID,
			UseForOrganizationDiscovery: &flag, Restore: true,
		})
	}
	return json.Marshal(sweep.RevokeRow{OrganizationID: row.OrganizationID, DiscoveryDomainID: row.DiscoveryDomainID,
		Set: row.Set, Undo: true})
}

// submitChosen submits the rows as a run, and follows it if the command says so. why is logged if
// there are none.
func (t *tool) submitChosen(ctx context.Context, c *revokeCommand, run ledger.NewRun, rows [][]byte, why string) error {
	if len(rows) == 0 {
		t.log.InfoContext(ctx, "no run submitted", "tenant", c.Tenant, "reason", why)
		if t.JSON {
			return t.printJSON(submission{})
		}
		return nil
	}
	run.ID = ledger.RunID(cmp.Or(c.ID, tasks.NewRunID(time.Now())))
	run.Tenant = ledger.Tenant(c.Tenant)
	run.Label = c.Label
	sub, err := t.intake().SubmitChosen(ctx, run, rows)
	if err != nil {
		return refusal(sub.Found, string(run.Tenant), interruptedIn(ctx, err))
	}
	if err := t.printSubmitted(ctx, sub); err != nil || !c.Follow {
		return err
	}
	return t.follow(ctx, string(run.Tenant), []string{string(run.ID)})
}

// writeOperators writes how many domains go, by operator of their name servers.
func (p revocations) writeOperators(out io.Writer) error {
	w := terminal.NewTable(out)
	fmt.Fprintf(w, "to be revoked\t%d\n", p.Chosen)
	fmt.Fprintf(w, "in seven days\t%d were, at most %d may be\n", p.Used, p.Most)
	if p.Unreadable > 0 {
		fmt.Fprintf(w, "unreadable\t%d states of domains, which are left out\n", p.Unreadable)
	}
	if len(p.Operators) > 0 {
		fmt.Fprintln(w, "\nOPERATOR OF NAME SERVERS\tTO BE REVOKED\tABSENT\tOF ITS DOMAINS")
	}
	for _, o := range p.Operators {
		line := fmt.Sprintf("%s\t%d\t%d\t%d", cmp.Or(status.Shown(o.Operator), "unknown"), o.Chosen, o.Absent, o.Domains)
		if o.Together && o.Chosen == 0 {
			line += "\tleft out: --operator " + status.Shown(o.Operator)
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

func (p revocations) Write(out io.Writer) error {
	if err := p.writeOperators(out); err != nil {
		return err
	}
	if p.Refused != "" {
		fmt.Fprintf(out, "\nnothing would be revoked: %s\n", p.Refused)
	}
	if len(p.Candidates) == 0 {
		_, err := fmt.Fprintln(out, "\nno domain is known to be absent, and none is revoked")
		return err
	}
	w := terminal.NewTable(out)
	fmt.Fprintln(w, "\nDOMAIN\tNAME\tORGANIZATION\tABSENT SINCE\tSWEEPS\tDECISION")
	for _, d := range p.Candidates[:min(p.rows, len(p.Candidates))] {
		since := "-"
		sweeps := "-"
		decision := "to be revoked: " + string(p.Set)
		if d.Absence != nil {
			since = stamp.UTC(d.Absence.Since)
			sweeps = fmt.Sprint(d.Absence.Checks)
		}
		if d.Unfit != "" {
			decision = "not revoked: " + status.Shown(d.Unfit)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", status.Shown(d.ID), status.Shown(d.Name), status.Shown(d.Organization),
			since, sweeps, decision)
	}
	if more := len(p.Candidates) - p.rows; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return w.Flush()
}
