package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

// assumed is the pace of a tenant whose workers have announced none: the worker's defaults.
var assumed = tenant.Announced{Rate: "2/s", Burst: 2, Reserve: 0.2}

// dryRun prints the estimate of a submission. It changes nothing, in Redis either.
func (t *tool) dryRun(ctx context.Context, in intake.Input, name string) error {
	if err := t.openRedis(); err != nil {
		return err
	}
	settings, announced, err := t.announced(ctx, name)
	if err != nil {
		t.log.WarnContext(ctx, "tenant's settings not readable: assuming the default rate", "tenant", name, "rate", assumed.Rate, "error", err)
	}
	if !announced {
		settings = assumed
	}
	plan, err := in.Plan(settings.MaxClientsPerRequest)
	t.printFound(in.Name, plan.Found)
	if err != nil {
		return interruptedOr(refusal(plan.Found, err))
	}
	if err := t.printPlan(in.Kind, name, plan, settings, announced); err != nil || plan.Invalid.Total == 0 {
		return err
	}
	return &cli.StatusError{Status: cli.StatusRejected, Err: fmt.Errorf("bad rows: %d of %d; nothing was submitted", plan.Invalid.Total, plan.Rows)}
}

// planJSON is the output of --json for a dry run.
type planJSON struct {
	DryRun        bool                      `json:"dry_run"`
	Kind          string                    `json:"kind"`
	Tenant        string                    `json:"tenant"`
	Rows          int64                     `json:"rows"`
	Invalid       int64                     `json:"invalid,omitempty"` // rows among these that are left out
	Duplicates    intake.Duplicates         `json:"duplicates,omitzero"`
	Tasks         int64                     `json:"tasks"`
	APICalls      int64                     `json:"api_calls"` // without retries
	Rate          string                    `json:"rate"`      // of the tenant
	Reserve       float64                   `json:"reserve"`   // the share of the rate that is left to others
	RateAnnounced bool                      `json:"rate_announced"`
	Seconds       int64                     `json:"seconds"` // that the calls take; 0: the rate is unlimited
	Organizations []intake.OrganizationRows `json:"organizations"`
	More          int64                     `json:"more_organizations"`
	Further       int64                     `json:"rows_of_further_organizations"` // always 0: all are counted
}

func (t *tool) printPlan(kind, name string, plan intake.Plan, settings tenant.Announced, announced bool) error {
	limit, err := settings.Limit()
	if err != nil {
		return err
	}
	left, burst := limit.Effective()
	takes := timeAt(left, burst, plan.Calls)
	if t.json {
		return t.printJSON(planJSON{
			DryRun: true, Kind: kind, Tenant: name, Rows: plan.Rows, Invalid: plan.Invalid.Total, Duplicates: plan.Duplicates, Tasks: plan.Tasks, APICalls: plan.Calls,
			Rate: settings.Rate, Reserve: settings.Reserve, RateAnnounced: announced, Seconds: int64(takes / time.Second),
			Organizations: append([]intake.OrganizationRows{}, plan.Organizations...), More: plan.More,
		})
	}
	w := status.NewTable(t.Stdout)
	fmt.Fprintf(w, "rows\t%d\n", plan.Rows)
	if plan.Invalid.Total > 0 {
		fmt.Fprintf(w, "bad rows\t%d, left out\n", plan.Invalid.Total)
	}
	if plan.Duplicates.Total > 0 {
		fmt.Fprintf(w, "duplicates\t%d, settled without a request\n", plan.Duplicates.Total)
	}
	fmt.Fprintf(w, "tasks\t%d\n", plan.Tasks)
	fmt.Fprintf(w, "API calls\t%d, without retries\n", plan.Calls)
	fmt.Fprintf(w, "time\t%s\n", inWords(takes, settings, announced))
	if err := w.Flush(); err != nil || len(plan.Organizations) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nORGANIZATION\tROWS")
	for _, org := range plan.Organizations {
		fmt.Fprintf(w, "%s\t%d\n", org.ID, org.Rows)
	}
	if plan.More > 0 {
		fmt.Fprintf(w, "and %d more\n", plan.More)
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

func inWords(takes time.Duration, settings tenant.Announced, announced bool) string {
	if settings.Rate == "unlimited" {
		return "as fast as the API answers: the tenant's rate is unlimited"
	}
	return fmt.Sprintf("at least %s, at %s (%s, %g %% of it left to others)", takes, whoseRate(announced), settings.Rate, 100*settings.Reserve)
}

func whoseRate(announced bool) string {
	if announced {
		return "the tenant's rate"
	}
	return "the default rate, since no worker has announced the tenant's"
}
