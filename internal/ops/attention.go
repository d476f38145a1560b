package ops

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"orgops/internal/cli"
	"orgops/internal/pace"
	"orgops/internal/watch"
)

// attention is what somebody has to know of a tenant, or to do, before anything else.
type attention struct {
	Tenant string
	Tone   string // a class of ops.css: bad, wait
	What   string
	Then   string // what to do, or how it goes on
	Sweep  string // the one whose breaker can be closed; empty: none
}

// attention tells of all tenants that this worker works for or that have open runs,
// or of the one that is named, and which tenants those are.
func (s *site) attention(ctx context.Context, only string) (all []attention, tenants []string, err error) {
	open, err := s.Ledger.OpenByTenant(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, t := range s.Tenants {
		known[t.Name] = true
	}
	for name := range open {
		known[name] = true
	}
	tenants = slices.Sorted(maps.Keys(known))
	for _, name := range tenants {
		if only != "" && name != only {
			continue
		}
		state, err := s.stateOf(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, state.attention(name)...)
	}
	return all, tenants, nil
}

// tenantState is how a tenant stands, for the whole fleet.
type tenantState struct {
	Pace   *pace.State // nil, as Sweeps and Ticks: it could not be read
	Sweeps *cli.SweepState
	Ticks  *watch.Ticks
	Paused string // the queue of rows, if it is paused
}

// stateOf reads the state of a tenant. What it could read it returns also with an error.
func (s *site) stateOf(ctx context.Context, tenant string) (t tenantState, err error) {
	budget, paceErr := pace.New(pace.Config{Redis: s.Redis, Tenant: tenant}).State(ctx)
	if paceErr == nil {
		t.Pace = &budget
	}
	sweeps, sweepsErr := cli.SweepStateOf(ctx, s.Redis, tenant)
	if sweepsErr == nil {
		t.Sweeps = &sweeps
	}
	ticks, ticksErr := watch.New(s.Redis, tenant).Ticks(ctx)
	if ticksErr == nil {
		t.Ticks = &ticks
	}
	t.Paused, err = cli.PausedQueue(s.Redis, tenant)
	return t, errors.Join(paceErr, sweepsErr, ticksErr, err)
}

// attention is what somebody has to know of the tenant, the worst first.
func (t tenantState) attention(tenant string) (all []attention) {
	add := func(a attention) {
		a.Tenant = tenant
		all = append(all, a)
	}
	budget := cmp.Or(t.Pace, &pace.State{})
	if budget.Stopped != nil {
		add(attention{
			Tone: "bad", What: "the tenant is " + printable(budget.Stopped.String()),
			Then: "No PATCH, POST or DELETE is sent; rows stay open. Start the tenant on the Tenants page, or with: enqueue tenant start " + tenant,
		})
	}
	for _, b := range budget.Blocks {
		operation := "the operation " + b.Operation
		if b.Operation == pace.All {
			operation = "every operation"
		}
		add(attention{
			Tone: "bad", What: operation + " is blocked: " + b.Reason,
			Then: "Fix the credentials or grant the missing scope. orgops sends a test request from time to time and resumes once it succeeds.",
		})
	}
	if t.Paused != "" {
		add(attention{
			Tone: "bad", What: "the queue " + printable(t.Paused) + " is paused",
			Then: "No row is released. To continue, " + cli.ResumeQueue + ".",
		})
	}
	if t.Sweeps != nil && t.Sweeps.Breaker != nil && t.Sweeps.Breaker.ID != "" {
		add(attention{
			Tone: "bad", What: "breaker of the sweeps: " + t.Sweeps.BreakerText(tenant), Sweep: t.Sweeps.Breaker.ID,
			Then: "First preview the next sweep: enqueue domains sweep --tenant " + tenant + " --dry-run",
		})
	}
	if budget.PausedUntil.After(time.Now()) {
		add(attention{
			Tone: "wait", What: "the API has asked this tenant to pause (429) until " + budget.PausedUntil.UTC().Format("15:04:05 UTC"),
			Then: "Work resumes by itself. If this happens often, lower --rate or raise --reserve.",
		})
	}
	if t.Ticks != nil && t.Ticks.Skipped.Tick != 0 && t.Ticks.Skipped.Tick == t.Ticks.Tick {
		add(attention{Tone: "wait", What: "a sweep was skipped: " + cli.Skipped(t.Ticks.Skipped), Then: "The next scheduled sweep starts once the cause is gone."})
	}
	return all
}
