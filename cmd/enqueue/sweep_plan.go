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
	tenant    string
	org       string         // empty: all of them
	last      *sweep.Summary // of the last complete sweep; nil: there was none
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
}

func (c sweepCalls) sum() int64 { return c.Pages + c.Lists + c.Records }

// planSweep prints the estimate of a sweep.
func (t *tool) planSweep(ctx context.Context, name, org string) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	p := sweepPlan{tenant: name, org: org, at: time.Now()}
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
	p.last, err = status.SummaryOf(ctx, t.redis, p.tenant)
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
	if p.org != "" {
		return &c
	}
	if p.last == nil {
		return nil
	}
	c.Lists = p.last.Organizations
	c.Pages = max(1, (c.Lists+organizationsAPage-1)/organizationsAPage)
	c.Records = p.last.Absent
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
	w.Line("schedule", status.ScheduleText(p.cron, p.at))
	w.Line("skipped", status.SkippedTick(p.skipped))
	w.Line("last sweep", p.lastSweep())
	w.Line("API calls", p.requests())
	w.Line("time", p.time())
	if p.tooSlow() {
		w.Line("too slow", fmt.Sprintf("ticks of the schedule are %s apart, and one is skipped while the last sweep runs: raise --rate or --sweep-share, or sweep less often", status.Span(p.interval)))
	}
	w.Line("rules", p.rules())
	return w.Flush()
}

func (p *sweepPlan) lastSweep() string {
	if p.last == nil {
		return "no complete sweep has ended yet: the number of domains is not known"
	}
	return status.SweepText(*p.last)
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
	text += fmt.Sprintf("%d for the domains of each", c.Lists)
	if c.Records > 0 {
		text += fmt.Sprintf(", up to %d for absent records", c.Records)
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
	text := status.RulesText(p.settings.Rules())
	if !p.announced {
		text += " (the defaults, since no worker has announced the tenant's)"
	}
	return text
}

// sweepPlanJSON is the output of --json for a dry run of a sweep.
type sweepPlanJSON struct {
	DryRun        bool         `json:"dry_run"`
	Tenant        string       `json:"tenant"`
	Organization  string       `json:"organization_id,omitempty"`
	Sweep         string       `json:"sweep"`        // the schedule's cron text; empty: there is none
	Next          *time.Time   `json:"next_tick"`    // null: there is no schedule
	Skipped       *skipJSON    `json:"skipped"`      // the last tick that was; null: none was
	Last          *summaryJSON `json:"last_sweep"`   // of the whole tenant; null: none has ended
	APICalls      *int64       `json:"api_calls"`    // without retries; null: not known
	Of            *sweepCalls  `json:"api_calls_of"` // by purpose
	Rate          string       `json:"rate"`         // of the tenant
	Reserve       float64      `json:"reserve"`      // the share of it that is left to others
	SweepShare    float64      `json:"sweep_share"`  // the share of the rest that sweeps get
	RateAnnounced bool         `json:"rate_announced"`
	Seconds       *int64       `json:"seconds"`          // that the calls take; 0: the rate is unlimited; null: not known
	Interval      *int64       `json:"interval_seconds"` // the least time between two ticks; null: there is no schedule
	TooSlow       bool         `json:"too_slow"`         // the calls take longer than that
	Rules         rulesJSON    `json:"rules"`
}

type skipJSON struct {
	Tick   time.Time `json:"tick"`
	Reason string    `json:"reason"`
	InRow  int       `json:"in_a_row"`
}

// summaryJSON is the summary of a sweep, with a readable tick and another name of a member.
type summaryJSON struct {
	sweep.Summary
	Tick    time.Time `json:"tick"`
	At      *struct{} `json:"at,omitempty"`
	EndedAt time.Time `json:"ended_at"`
}

type rulesJSON struct {
	GraceSeconds int64    `json:"grace_seconds"`
	AbsentChecks int      `json:"absent_checks"`
	Protect      []string `json:"protect"`
}

func (p *sweepPlan) asJSON() sweepPlanJSON {
	rules := p.settings.Rules()
	j := sweepPlanJSON{
		DryRun: true, Tenant: p.tenant, Organization: p.org, Sweep: p.cron.String(), Of: p.calls,
		Rate: p.settings.Rate, Reserve: p.settings.Reserve, SweepShare: p.limit.SweepShare, RateAnnounced: p.announced, TooSlow: p.tooSlow(),
		Rules: rulesJSON{int64(rules.Grace / time.Second), rules.AbsentChecks, append([]string{}, rules.Protect...)},
	}
	if j.Sweep != "" {
		j.Next, j.Interval = known(p.cron.Next(p.at)), new(int64(p.interval/time.Second))
	}
	if s := p.skipped; s.Tick != 0 {
		j.Skipped = &skipJSON{status.TickAt(s.Tick), s.Why, s.InRow}
	}
	if l := p.last; l != nil {
		j.Last = &summaryJSON{Summary: *l, Tick: status.TickAt(l.Tick), EndedAt: l.At}
	}
	if p.calls != nil {
		j.APICalls, j.Seconds = new(p.calls.sum()), new(int64(p.takes/time.Second))
	}
	return j
}
