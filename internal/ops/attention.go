package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/sweep"
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
	if tenants, err = s.tenantNames(ctx, nil); err != nil {
		return nil, nil, err
	}
	slices.Sort(tenants)
	wanted := tenants
	if only != "" {
		wanted = slices.DeleteFunc(slices.Clone(tenants), func(name string) bool { return name != only })
	}
	found := make([][]attention, len(wanted))
	err = redisconn.Batch(ctx, s.Redis, len(wanted), func(i int, rdb redis.UniversalClient) (err error) {
		_, found[i], err = attentionOf(ctx, rdb, wanted[i])
		return err
	})
	return slices.Concat(found...), tenants, err
}

// tenantState is the state of a tenant, for the whole fleet.
type tenantState struct {
	Pace   *pace.State // nil, as Sweeps and Ticks: it could not be read
	Sweeps *status.SweepState
	Ticks  *sweep.Ticks
}

// stateOf reads the state of a tenant. With an error it returns the parts that it could read.
func stateOf(ctx context.Context, rdb redis.UniversalClient, tenant string) (t tenantState, err error) {
	budget, paceErr := pace.New(pace.Config{Redis: rdb, Tenant: tenant}).State(ctx)
	if paceErr == nil {
		t.Pace = &budget
	}
	sweeps, sweepsErr := status.SweepStateOf(ctx, rdb, tenant)
	if sweepsErr == nil {
		t.Sweeps = &sweeps
	}
	ticks, ticksErr := sweep.NewStore(rdb, tenant).Ticks(ctx)
	if ticksErr == nil {
		t.Ticks = &ticks
	}
	return t, errors.Join(paceErr, sweepsErr, ticksErr)
}

// attentionOf reads the state of a tenant, and returns what somebody has to know of it.
func attentionOf(ctx context.Context, rdb redis.UniversalClient, tenant string) (tenantState, []attention, error) {
	state, err := stateOf(ctx, rdb, tenant)
	paused, pausedErr := status.PausedQueue(rdb, tenant)
	return state, state.attention(tenant, paused), errors.Join(err, pausedErr)
}

// attention is what somebody has to know of the tenant, whose queue of rows may be paused;
// the worst first.
func (t tenantState) attention(tenant, paused string) (all []attention) {
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
	if paused != "" {
		add(attention{
			Tone: "bad", What: "the queue " + printable(paused) + " is paused",
			Then: "No row is released. To continue, " + status.ResumeQueue + ".",
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
		add(attention{Tone: "wait", What: "a sweep was skipped: " + status.Skipped(t.Ticks.Skipped), Then: "The next scheduled sweep starts once the cause is gone."})
	}
	return all
}
