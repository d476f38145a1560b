package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/internal/cli"
	"orgops/internal/engine/kinds"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/tasks"
)

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
	Sweeps       int64        `json:"sweeps"`    // that have checked it
	Sweep        *time.Time   `json:"sweep"`     // the tick of the last one of these
	State        string       `json:"state"`     // "present", "absent" or "unknown"
	Reason       string       `json:"reason"`    // of the state
	Sentence     string       `json:"sentence"`  // the same for people; empty unless absent
	Values       []string     `json:"values"`    // found instead of the token, quoted
	At           *time.Time   `json:"looked_at"` // of the state
	FirstPresent *time.Time   `json:"first_present"`
	LastPresent  *time.Time   `json:"last_present"`
	Absence      *absenceJSON `json:"absence"`    // null: it is not known to be absent
	UnderWay     *actingJSON  `json:"under_way"`  // null: no request is in progress
	Taken        *actingJSON  `json:"taken_away"` // null: nothing was, or it was restored
	Past         []eventJSON  `json:"past"`       // the oldest first
}

type eventJSON struct {
	At      time.Time       `json:"at"`
	What    string          `json:"what"`
	Why     string          `json:"why,omitempty"`
	Verdict *kinds.Evidence `json:"verdict,omitempty"` // by which the record was changed
}

type absenceJSON struct {
	Since     *time.Time   `json:"since"`
	Last      *time.Time   `json:"last"`
	Checks    int          `json:"sweeps"` // that did not see the token
	Operator  string       `json:"name_servers_of,omitempty"`
	Reported  *time.Time   `json:"reported_at"` // null: its loss was not notified
	Status    sweep.Status `json:"stands"`      // "at_risk", "unsure", "protected", "due", "reported" or "taken"
	NotBefore *time.Time   `json:"not_before"`  // of at_risk
	Action    string       `json:"action"`      // of the rules
	Decision  string       `json:"decision"`    // in words, the breaker apart
}

type actingJSON struct {
	Action sweep.Action `json:"action"`
	At     *time.Time   `json:"at"`
	Host   string       `json:"verification_host"`
	TXT    string       `json:"verification_txt"`
	Flag   *bool        `json:"use_for_organization_discovery"` // before; null: not said
	Back   bool         `json:"giving_back,omitempty"`
}

func recordedAsJSON(r status.SweptDomain) recordedJSON {
	j := recordedJSON{
		Organization: r.OrganizationID, Name: r.Domain, Sweeps: r.Sweeps,
		State: r.State, Reason: r.Reason, Sentence: r.Sentence, Values: append([]string{}, r.Values...), At: known(r.At),
		FirstPresent: known(r.FirstPresent), LastPresent: known(r.LastPresent),
		UnderWay: actingAsJSON(r.InProgress), Taken: actingAsJSON(r.Taken), Past: []eventJSON{},
	}
	for _, e := range r.History {
		shown := eventJSON{At: e.At, What: e.What, Why: e.Why}
		if verdict, err := kinds.ReadEvidence(e.Verdict); err == nil {
			shown.Verdict = &verdict
		}
		j.Past = append(j.Past, shown)
	}
	if r.Tick != 0 {
		j.Sweep = known(status.TickAt(r.Tick))
	}
	if a := r.Absence; a != nil {
		assessment := r.Rules.Assess(r.DomainState)
		j.Absence = &absenceJSON{
			Since: known(a.Since), Last: known(a.Last), Checks: a.Checks, Operator: a.Operator, Reported: known(a.Reported),
			Status: assessment.Status, NotBefore: known(assessment.NotBefore), Action: string(r.Rules.Action), Decision: r.Decision(),
		}
	}
	return j
}

func actingAsJSON(a *sweep.ActionRequest) *actingJSON {
	if a == nil {
		return nil
	}
	return &actingJSON{a.Action, known(a.At), a.Host, a.TXT, a.Flag, a.Back}
}
