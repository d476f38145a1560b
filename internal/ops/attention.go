package ops

import (
	"context"
	"fmt"
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
		some, err := s.attentionOf(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	return all, tenants, nil
}

func (s *site) attentionOf(ctx context.Context, tenant string) (all []attention, err error) {
	state, err := pace.New(pace.Config{Redis: s.Redis, Tenant: tenant}).State(ctx)
	if err != nil {
		return nil, err
	}
	sweeps, err := cli.SweepStateOf(ctx, s.Redis, tenant)
	if err != nil {
		return nil, err
	}
	paused, err := cli.PausedQueue(s.Redis, tenant)
	if err != nil {
		return nil, err
	}
	ticks, err := watch.New(s.Redis, tenant).Ticks(ctx)
	if err != nil {
		return nil, err
	}
	add := func(a attention) {
		a.Tenant = tenant
		all = append(all, a)
	}
	if state.Stopped != nil {
		add(attention{
			Tone: "bad", What: "the tenant is " + printable(state.Stopped.String()),
			Then: "No PATCH, POST or DELETE is sent; rows stay open. Start the tenant on the Tenants page, or with: enqueue tenant start " + tenant,
		})
	}
	for _, b := range state.Blocks {
		operation := "the operation " + b.Operation
		if b.Operation == pace.All {
			operation = "every operation"
		}
		add(attention{
			Tone: "bad", What: operation + " is blocked: " + b.Reason,
			Then: "Fix the credentials or grant the missing scope. orgops sends a test request from time to time and resumes once it succeeds.",
		})
	}
	if paused != "" {
		add(attention{
			Tone: "bad", What: "the queue " + printable(paused) + " is paused",
			Then: "No row is released. To continue, " + cli.ResumeQueue + ".",
		})
	}
	if b := sweeps.Breaker; b != nil && b.ID != "" {
		a := attention{Tone: "bad", What: "breaker of the sweeps: " + sweeps.BreakerText(tenant), Sweep: b.ID}
		a.Then = fmt.Sprintf("First preview the next sweep: enqueue domains sweep --tenant %s --dry-run", tenant)
		add(a)
	}
	if state.PausedUntil.After(time.Now()) {
		add(attention{
			Tone: "wait", What: "the API has asked this tenant to pause (429) until " + state.PausedUntil.UTC().Format("15:04:05 UTC"),
			Then: "Work resumes by itself. If this happens often, lower --rate or raise --reserve.",
		})
	}
	if skipped := ticks.Skipped; skipped.Tick != 0 && skipped.Tick == ticks.Tick {
		add(attention{Tone: "wait", What: "a sweep was skipped: " + cli.Skipped(skipped), Then: "The next scheduled sweep starts once the cause is gone."})
	}
	return all, nil
}
