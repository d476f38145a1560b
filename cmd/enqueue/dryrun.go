package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/tenant"
	"orgops/internal/terminal"
	"orgops/tasks/handlers"
)

// assumed is the pace of a tenant whose workers have announced none: the worker's defaults.
var assumed = tenant.Announced{Rate: "2/s", Burst: 2, Reserve: 20}

// dryRun prints the estimate of a submission. It changes nothing, in Redis either.
func (t *tool) dryRun(ctx context.Context, in intake.Input, name string) error {
	if err := t.openRedis(); err != nil {
		return err
	}
	settings, announced, err := t.announced(ctx, name)
	if err != nil {
		t.log.WarnContext(ctx, "tenant's settings not readable: assuming the default rate", "tenant", name, "rate",
			assumed.Rate, "error", err)
	}
	if !announced {
		settings = assumed
	}
	identity := ""
	if announced { // so Redis answers
		stored, err := tenant.ReadIdentity(ctx, t.redis, name)
		if err != nil {
			return err
		}
		if stored != nil {
			identity = stored.BaseURL
		}
	}
	in.Named = t.intake().Named(ctx, ledger.Tenant(name))
	plan, err := in.Plan(settings.MaxClientsPerRequest)
	t.printFound(in.Name, plan.Found)
	if err != nil {
		return interruptedOr(refusal(plan.Found, name, err))
	}
	limit, err := settings.Pace()
	if err != nil {
		return err
	}
	left, burst := limit.Effective()
	p := submissionPlan{
		Estimate: intake.Estimate{DryRun: true, Kind: in.Kind, Tenant: name, Plan: plan},
		BaseURL:  identity,
		pacing: pacing{
			Rate: settings.Rate, Reserve: limit.Reserve, Announced: announced,
			Seconds: int64(timeAt(left, burst, plan.Calls) / time.Second),
		},
	}
	if err := t.print(p, p.Write); err != nil || plan.Invalid.Total == 0 {
		return err
	}
	return &cli.StatusError{Status: cli.StatusRejected,
		Err: fmt.Errorf("bad rows: %d of %d; nothing was submitted", plan.Invalid.Total, plan.Rows)}
}

// printRead prints how many rows of a run of kind [handlers.Read] have found each state.
func (t *tool) printRead(ctx context.Context, r ledger.Run) error {
	found := map[string]int64{}
	for row, err := range t.ledger.Each(ctx, r, ledger.WithResult, 0) {
		if err != nil {
			return err
		}
		found[handlers.ReadState(row.Result)]++
	}
	listed := domainsFound{Run: string(r.ID), Tenant: string(r.Tenant), Domains: found}
	return t.print(listed, listed.Write)
}

// domainsFound is how many domains of a run are in each state of [handlers.ReadState].
type domainsFound struct {
	Run     string           `json:"run"`
	Tenant  string           `json:"tenant"`
	Domains map[string]int64 `json:"domains"`
}

// Write writes the numbers as text.
func (d domainsFound) Write(out io.Writer) error {
	w := terminal.NewTable(out)
	fmt.Fprintln(w, "\nDOMAINS\tNUMBER")
	for _, state := range slices.Sorted(maps.Keys(d.Domains)) {
		fmt.Fprintf(w, "%s\t%d\n", cmp.Or(stateLabels[state], state), d.Domains[state])
	}
	return w.Flush()
}

// stateLabels are the states of [handlers.ReadState] that need more words.
var stateLabels = map[string]string{
	string(schema.StatusVerified): "verified already",
	dnscheck.Present.String():     "pending, token present",
	dnscheck.Absent.String():      "pending, token absent",
	dnscheck.Unknown.String():     "pending, token unknown",
}

// submissionPlan is the estimate of a submission.
type submissionPlan struct {
	intake.Estimate
	// BaseURL is where the rows are executed; empty: no worker has served the tenant yet.
	BaseURL string `json:"base_url,omitempty"`
	pacing
}

// pacing is the rate of a tenant, and how long requests take at it.
type pacing struct {
	Rate      string  `json:"rate"`
	Reserve   float64 `json:"reserve"`        // the share of the rate that is left to others
	Announced bool    `json:"rate_announced"` // by a worker; else it is the default
	// that the requests take; 0: the rate is unlimited, or their number is not known
	Seconds int64 `json:"seconds,omitempty"`
}

// Write writes the plan as text.
func (p submissionPlan) Write(out io.Writer) error {
	w := terminal.NewTable(out)
	fmt.Fprintf(w, "rows\t%d\n", p.Rows)
	if p.BaseURL != "" {
		fmt.Fprintf(w, "executed at\t%s\n", p.BaseURL)
	}
	if p.Notes != "" {
		fmt.Fprintf(w, "file\t%s\n", p.Notes)
	}
	if p.Invalid.Total > 0 {
		fmt.Fprintf(w, "bad rows\t%d, left out\n", p.Invalid.Total)
	}
	if p.Duplicates.Total > 0 {
		fmt.Fprintf(w, "duplicates\t%d; %s\n", p.Duplicates.Total, resultOfDuplicates(p.Duplicates.Total))
	}
	fmt.Fprintf(w, "tasks\t%d\n", p.Tasks)
	fmt.Fprintf(w, "API calls\t%d, without retries\n", p.Calls)
	fmt.Fprintf(w, "time\t%s\n", p.time("as fast as the API answers", "", ""))
	if err := w.Flush(); err != nil || len(p.Organizations) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nORGANIZATION\tROWS")
	for _, org := range p.Organizations {
		fmt.Fprintf(w, "%s\t%d\n", org.ID, org.Rows)
	}
	if p.More > 0 {
		fmt.Fprintf(w, "and %d more\n", p.More)
	}
	return w.Flush()
}

// timeAt returns how long so many calls take, in whole seconds, rounded up.
func timeAt(rate pace.Rate, burst int, calls int64) time.Duration {
	if rate.IsUnlimited() {
		return 0
	}
	waiting := max(0, calls-int64(burst))
	const most = math.MaxInt64 / int64(time.Second) // about 292 years
	seconds := math.Ceil(float64(waiting) / rate.PerSecond())
	return time.Duration(min(seconds, float64(most))) * time.Second
}

// time describes how long the requests take.
func (p pacing) time(unlimited, share, more string) string {
	if p.Rate == "unlimited" {
		return unlimited + ": the tenant's rate is unlimited"
	}
	whose := "the default rate, since no worker has announced the tenant's"
	if p.Announced {
		whose = "the tenant's rate"
	}
	atLeast := "less than a second"
	if p.Seconds > 0 {
		atLeast = "at least " + (time.Duration(p.Seconds) * time.Second).String()
	}
	return fmt.Sprintf("%s, at %s%s (%s, %g %% of it left to others%s)", atLeast,
		share, whose, p.Rate, 100*p.Reserve, more)
}
