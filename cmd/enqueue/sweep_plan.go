package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// sweepPlan is an estimate of the next sweep from the last one.
type sweepPlan struct {
	status.Preview
	tenant    string
	org       string // empty: all of them
	rows      int    // that are printed
	at        time.Time
	settings  tenant.Announced
	announced bool
	skipped   sweep.SkippedTick

	calls    *sweepCalls // nil: not known, since no sweep has ended
	takes    time.Duration
	limit    pace.Limit
	cron     sweep.Cron    // the zero value: there is no schedule
	interval time.Duration // the least one between two ticks; 0: there is no schedule
}

// sweepCalls are the requests to the API of a sweep without retries.
type sweepCalls struct {
	Pages   int64 `json:"organization_pages"`
	Lists   int64 `json:"domain_lists"` // one for each organization
	Records int64 `json:"records"`      // at most: one is read before its absence is recorded
	Actions int64 `json:"actions"`      // a read and a change for each
}

func (c sweepCalls) sum() int64 { return c.Pages + c.Lists + c.Records + c.Actions }

// planSweep prints the estimate of a sweep, and the decisions at its end.
func (t *tool) planSweep(ctx context.Context, name, org string, rows int) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	p := sweepPlan{tenant: name, org: org, rows: rows, at: time.Now()}
	err := t.readSweeps(ctx, &p)
	if err == nil {
		err = p.estimate()
	}
	if err != nil {
		return err
	}
	if t.json {
		return t.printJSON(p.asJSON())
	}
	return p.write(t.Stdout)
}

// readSweeps reads the settings of the tenant and the state of its sweeps.
func (t *tool) readSweeps(ctx context.Context, p *sweepPlan) (err error) {
	if p.settings, p.announced, err = tenant.ReadAnnounced(ctx, t.redis, p.tenant); err != nil {
		return err
	}
	if !p.announced {
		p.settings = assumed
	}
	ticks, err := sweep.NewStore(t.redis, p.tenant).Ticks(ctx)
	if err != nil {
		return err
	}
	p.skipped = ticks.Skipped
	p.Preview, err = status.PreviewOf(ctx, t.redis, p.tenant, p.org, p.at)
	return err
}

// organizationsAPage is the number of organizations on a page of their list, the API's
// maximum.
const organizationsAPage = 100

// estimate computes the requests and the time of the sweep.
func (p *sweepPlan) estimate() (err error) {
	if p.limit, err = p.settings.Limit(); err != nil {
		return err
	}
	if p.calls = p.count(); p.calls != nil {
		rate, burst := p.limit.Sweeps()
		p.takes = timeAt(rate, burst, p.calls.sum())
	}
	if p.cron, err = p.settings.Schedule(); err == nil && p.cron != (sweep.Cron{}) {
		p.interval, _ = p.cron.Shortest(1)
	}
	return err
}

// count counts the requests; nil: not known.
func (p *sweepPlan) count() *sweepCalls {
	c := sweepCalls{Lists: 1}
	for _, one := range p.Candidates {
		if one.Acts() && one.Action != sweep.Report {
			c.Actions += 2
		}
		if !one.Since.IsZero() {
			c.Records++
		}
	}
	if p.org != "" {
		return &c
	}
	if p.Summary == nil {
		return nil
	}
	c.Lists = p.Summary.Organizations
	c.Pages = max(1, (c.Lists+organizationsAPage-1)/organizationsAPage)
	c.Records = max(c.Records, p.Summary.Absent)
	return &c
}

// tooSlow reports whether a tick may come before the sweep of the last one has ended.
func (p *sweepPlan) tooSlow() bool {
	return p.org == "" && p.interval > 0 && p.takes > p.interval
}

func (p *sweepPlan) write(out io.Writer) error {
	w := status.NewTable(out)
	w.Line("tenant", p.tenant)
	w.Line("organization", p.org)
	w.Line("breaker", p.breaker())
	w.Line("schedule", status.ScheduleText(p.cron, p.at))
	w.Line("skipped", status.SkippedTick(p.skipped))
	w.Line("last sweep", p.last())
	w.Line("API calls", p.requests())
	w.Line("time", p.time())
	if p.tooSlow() {
		w.Line("too slow", fmt.Sprintf("ticks of the schedule are %s apart, and one is skipped while the last sweep runs: raise --rate or --sweep-share, or sweep less often", status.Span(p.interval)))
	}
	w.Line("rules", p.rules())
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Candidates) == 0 {
		_, err := fmt.Fprintln(out, "\nno domain is known to be absent, and none was acted on")
		return err
	}
	fmt.Fprintln(out, "\nif the next sweep finds the same as the last ones:")
	return status.WriteCandidates(out, p.Candidates, p.rows)
}

// breaker describes the breaker, and whether it would open.
func (p *sweepPlan) breaker() string {
	text := p.BreakerText()
	if p.opens() {
		text += "; the next sweep would open it: " + p.NextBreaker.Why
	}
	return text
}

func (p *sweepPlan) opens() bool { return p.NextBreaker.Open && !p.Breaker.Open }

func (p *sweepPlan) last() string {
	if p.Summary == nil {
		return "no sweep of the whole tenant has ended yet: the number of domains is not known"
	}
	return status.SweepText(*p.Summary)
}

func (p *sweepPlan) requests() string {
	c := p.calls
	if c == nil {
		return "one for each hundred organizations, one for the domains of each, and one for each absent record"
	}
	text := fmt.Sprintf("%d, without retries: ", c.sum())
	if c.Pages > 0 {
		text += fmt.Sprintf("%d for the list of organizations, ", c.Pages)
	}
	text += fmt.Sprintf("%d for the domains of each, up to %d for absent records", c.Lists, c.Records)
	if c.Actions > 0 {
		text += fmt.Sprintf(", %d to act", c.Actions)
	}
	return text
}

func (p *sweepPlan) time() string {
	switch {
	case p.calls == nil:
		return ""
	case p.limit.Rate.IsUnlimited():
		return "as fast as the API and the DNS answer: the tenant's rate is unlimited"
	}
	return fmt.Sprintf("at least %s, at the sweeps' share of %s (%s, %g %% of it left to others, %g %% of the rest for sweeps)",
		p.takes, whoseRate(p.announced), p.settings.Rate, 100*p.settings.Reserve, 100*p.limit.SweepShare)
}

func (p *sweepPlan) rules() string {
	text := status.RulesText(p.Rules)
	if !p.announced {
		text += " (the defaults, since no worker has announced the tenant's)"
	}
	return text
}

// sweepPlanJSON is the output of --json for a dry run of a sweep.
type sweepPlanJSON struct {
	DryRun        bool            `json:"dry_run"`
	Tenant        string          `json:"tenant"`
	Organization  string          `json:"organization_id,omitempty"`
	Breaker       breakerJSON     `json:"breaker"`
	Sweep         string          `json:"sweep"`        // the schedule's cron text; empty: there is none
	Next          *time.Time      `json:"next_tick"`    // null: there is no schedule
	Skipped       *skipJSON       `json:"skipped"`      // the last tick that was; null: none was
	Last          *summaryJSON    `json:"last_sweep"`   // of the whole tenant; null: none has ended
	APICalls      *int64          `json:"api_calls"`    // without retries; null: not known
	Of            *sweepCalls     `json:"api_calls_of"` // by purpose
	Rate          string          `json:"rate"`         // of the tenant
	Reserve       float64         `json:"reserve"`      // the share of it that is left to others
	SweepShare    float64         `json:"sweep_share"`  // the share of the rest that sweeps get
	RateAnnounced bool            `json:"rate_announced"`
	Seconds       *int64          `json:"seconds"`          // that the calls take; 0: the rate is unlimited; null: not known
	Interval      *int64          `json:"interval_seconds"` // the least time between two ticks; null: there is no schedule
	TooSlow       bool            `json:"too_slow"`         // the calls take longer than that
	Rules         rulesJSON       `json:"rules"`
	Domains       []candidateJSON `json:"domains"` // all that are absent, or were taken away
}

type breakerJSON struct {
	Open      bool       `json:"open"`
	Sweep     string     `json:"sweep,omitempty"`  // that opened it, or held domains back: for --confirm
	At        *time.Time `json:"at"`               // when it opened; null: it is closed
	Reason    string     `json:"reason,omitempty"` // it is open, or domains were held back
	Confirmed *time.Time `json:"confirmed_before"` // domains absent before are confirmed to be gone; null: none is
	Opens     bool       `json:"would_open"`       // at the end of the next sweep
}

type skipJSON struct {
	Tick   time.Time `json:"tick"`
	Reason string    `json:"reason"`
	InRow  int       `json:"in_a_row"`
}

// summaryJSON is the summary of a sweep, with a readable tick and other names of two members.
type summaryJSON struct {
	sweep.Summary
	Tick        time.Time `json:"tick"`
	At          *struct{} `json:"at,omitempty"`
	EvaluatedAt time.Time `json:"evaluated_at"`
	Why         *struct{} `json:"why,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

type rulesJSON struct {
	Action       sweep.Action `json:"absent_action"`
	GraceSeconds int64        `json:"grace_seconds"`
	AbsentChecks int          `json:"absent_checks"`
	Protect      []string     `json:"protect"`
}

type candidateJSON struct {
	ID           string       `json:"discovery_domain_id"`
	Name         string       `json:"domain"`
	Organization string       `json:"organization_id"`
	Since        *time.Time   `json:"absent_since"` // null: it is not
	Checks       int          `json:"sweeps"`       // that have found it gone
	Status       sweep.Status `json:"status"`       // "at_risk", "unsure", "protected", "due", "reported", "taken" or "present"
	NotBefore    *time.Time   `json:"not_before"`   // of at_risk
	Action       sweep.Action `json:"action"`       // of the rules
	Acts         bool         `json:"acts"`         // it would be done
	Held         string       `json:"held,omitempty"`
	Decision     string       `json:"decision"` // in words
}

func (p *sweepPlan) asJSON() sweepPlanJSON {
	b := p.Breaker
	j := sweepPlanJSON{
		DryRun: true, Tenant: p.tenant, Organization: p.org, Sweep: p.cron.String(), Of: p.calls,
		Breaker: breakerJSON{Open: b.Open, Sweep: b.ID, Reason: b.Why, Confirmed: known(b.Confirmed), Opens: p.opens()},
		Rate:    p.settings.Rate, Reserve: p.settings.Reserve, SweepShare: p.limit.SweepShare, RateAnnounced: p.announced, TooSlow: p.tooSlow(),
		Rules:   rulesJSON{p.Rules.Action, int64(p.Rules.Grace / time.Second), p.Rules.AbsentChecks, append([]string{}, p.Rules.Protect...)},
		Domains: candidatesAsJSON(p.Candidates),
	}
	if b.Open {
		j.Breaker.At = known(b.At)
	}
	if j.Sweep != "" {
		j.Next, j.Interval = known(p.cron.Next(p.at)), new(int64(p.interval/time.Second))
	}
	if s := p.skipped; s.Tick != 0 {
		j.Skipped = &skipJSON{status.TickAt(s.Tick), s.Why, s.InRow}
	}
	if l := p.Summary; l != nil {
		j.Last = &summaryJSON{Summary: *l, Tick: status.TickAt(l.Tick), EvaluatedAt: l.At, Reason: l.Why}
	}
	if p.calls != nil {
		j.APICalls, j.Seconds = new(p.calls.sum()), new(int64(p.takes/time.Second))
	}
	return j
}

func candidatesAsJSON(candidates []status.Candidate) []candidateJSON {
	all := []candidateJSON{}
	for _, c := range candidates {
		all = append(all, candidateJSON{
			ID: c.ID, Name: c.Domain, Organization: c.OrganizationID, Since: known(c.Since), Checks: c.Checks,
			Status: c.Status, NotBefore: known(c.NotBefore), Action: c.Action, Acts: c.Acts(), Held: c.Held, Decision: c.Decision(),
		})
	}
	return all
}
