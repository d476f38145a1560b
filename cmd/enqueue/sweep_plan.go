package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/internal/terminal"
)

// sweepPlan is an estimate of the next sweep from the last one.
type sweepPlan struct {
	DryRun       bool          `json:"dry_run"`
	Tenant       string        `json:"tenant"`
	Organization string        `json:"organization_id,omitempty"` // "": all of them
	Schedule     string        `json:"schedule,omitempty"`        // its cron text; "": there is none
	Next         time.Time     `json:"next_tick,omitzero"`
	Skipped      *skippedTick  `json:"skipped,omitempty"`      // the last tick that was
	Last         *status.Sweep `json:"last_sweep,omitempty"`   // of the whole tenant; nil: none was complete
	Calls        int64         `json:"api_calls,omitempty"`    // without retries; 0: not known
	CallsOf      *sweepCalls   `json:"api_calls_of,omitempty"` // by purpose
	pacing
	SweepShare      float64    `json:"sweep_share"`                // the share of the rest that sweeps get
	IntervalSeconds int64      `json:"interval_seconds,omitempty"` // the least time between two ticks
	TooSlow         bool       `json:"too_slow,omitempty"`         // the calls take longer than that
	Rules           sweepRules `json:"rules"`

	schedule string
}

// sweepCalls are the requests to the API of a sweep without retries.
type sweepCalls struct {
	Pages   int64 `json:"organization_pages"`
	Lists   int64 `json:"domain_lists"` // one for each organization
	Records int64 `json:"records"`      // at most: one is read before its absence is recorded
}

type skippedTick struct {
	Tick   time.Time `json:"tick"`
	Reason string    `json:"reason"`
	InRow  int       `json:"in_a_row"`
	text   string
}

type sweepRules struct {
	GraceSeconds int64    `json:"grace_seconds"`
	AbsentChecks int      `json:"absent_checks"`
	Protect      []string `json:"protect,omitempty"`
	text         string
}

// organizationsAPage is the number of organizations on a page of their list, the API's
// maximum.
const organizationsAPage = 100

// planSweep prints the estimate of a sweep: by the settings of the tenant and the result of its
// last sweep.
func (t *tool) planSweep(ctx context.Context, name, org string) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	settings, announced, err := tenant.ReadAnnounced(ctx, t.redis, name)
	if err != nil {
		return err
	}
	if !announced {
		settings = assumed
	}
	limit, err := settings.Pace()
	if err != nil {
		return err
	}
	rules := settings.Rules()
	p := sweepPlan{
		DryRun: true, Tenant: name, Organization: org, SweepShare: limit.SweepShare,
		pacing: pacing{Rate: settings.Rate, Reserve: limit.Reserve, Announced: announced},
		Rules:  sweepRules{int64(rules.Grace / time.Second), rules.AbsentChecks, rules.Protect, status.RulesText(rules)},
	}
	cron, err := settings.Schedule()
	if err != nil {
		return err
	}
	now := time.Now()
	p.schedule = status.ScheduleText(cron, now)
	if cron != (sweep.Cron{}) {
		interval, _ := cron.Shortest(1)
		p.Schedule = cron.String()
		p.Next = cron.Next(now)
		p.IntervalSeconds = int64(interval / time.Second)
	}
	ticks, err := sweep.NewStore(t.redis, name).Ticks(ctx)
	if err != nil {
		return err
	}
	if s := ticks.Skipped; s.Tick != 0 {
		p.Skipped = &skippedTick{status.TickAt(s.Tick), s.Why, s.InRow, status.SkippedTick(s)}
	}
	if p.Last, err = status.SweepOf(ctx, t.redis, name); err != nil {
		return err
	}
	switch {
	case org != "":
		p.CallsOf = &sweepCalls{Lists: 1}
	case p.Last != nil:
		all := p.Last.Organizations
		p.CallsOf = &sweepCalls{max(1, (all+organizationsAPage-1)/organizationsAPage), all, p.Last.Absent}
	}
	if c := p.CallsOf; c != nil {
		p.Calls = c.Pages + c.Lists + c.Records
		rate, burst := limit.Sweeps()
		p.Seconds = int64(timeAt(rate, burst, p.Calls) / time.Second)
		p.TooSlow = org == "" && p.IntervalSeconds > 0 && p.Seconds > p.IntervalSeconds
	}
	return t.print(p, p.Write)
}

func (p sweepPlan) Write(out io.Writer) error {
	w := terminal.NewTable(out)
	w.Line("tenant", p.Tenant)
	w.Line("organization", p.Organization)
	w.Line("schedule", p.schedule)
	if p.Skipped != nil {
		w.Line("skipped", p.Skipped.text)
	}
	last := "no complete sweep has ended yet: the number of domains is not known"
	if p.Last != nil {
		last = p.Last.String()
	}
	w.Line("last sweep", last)
	calls := "one for each hundred organizations, one for the domains of each, and one for each absent record"
	if c := p.CallsOf; c != nil {
		calls = fmt.Sprintf("%d, without retries: ", p.Calls)
		if c.Pages > 0 {
			calls += fmt.Sprintf("%d for the list of organizations, ", c.Pages)
		}
		calls += fmt.Sprintf("%d for the domains of each", c.Lists)
		if c.Records > 0 {
			calls += fmt.Sprintf(", up to %d for absent records", c.Records)
		}
	}
	w.Line("API calls", calls)
	if p.CallsOf != nil {
		w.Line("time", p.time("as fast as the API and the DNS answer", "the sweeps' share of ",
			fmt.Sprintf(", %g %% of the rest for sweeps", 100*p.SweepShare)))
	}
	if p.TooSlow {
		w.Line("too slow",
			fmt.Sprintf(
				"ticks of the schedule are %s apart, and one is skipped while the last sweep runs: raise --rate or --sweep-share, or sweep less often",
				status.Span(time.Duration(p.IntervalSeconds)*time.Second)))
	}
	rules := p.Rules.text
	if !p.Announced {
		rules += " (the defaults, since no worker has announced the tenant's)"
	}
	w.Line("rules", rules)
	return w.Flush()
}
