package console

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
)

// attention is a warning.
type attention struct {
	Tenant string // "": it is about this worker, or Redis
	Tone   string // a class of ops.css: bad, wait
	What   string
	Then   string // the remedy, or the next step
	Path   string // of the page with more about it; "": none
}

// overview is the state of all tenants that have work, or of one of them.
type overview struct {
	Warnings []attention
	Tenants  []string        // all that are known
	Workers  int             // that live
	held     map[string]bool // tenants of which no row is executed until somebody acts
}

// overview reads the state of all known tenants, or of one of them.
func (s *site) overview(ctx context.Context, only string) (o overview, err error) {
	if o.Tenants, err = s.tenantNames(ctx, nil); err != nil {
		return o, err
	}
	slices.Sort(o.Tenants)
	wanted := o.Tenants
	if only != "" {
		wanted = slices.DeleteFunc(slices.Clone(o.Tenants), func(name string) bool { return name != only })
	}
	sessions, err := s.Ledger.Sessions(ctx)
	if err != nil {
		return o, err
	}
	fleet := status.FleetOf(sessions)
	o.Workers, o.held = len(sessions), map[string]bool{}
	states, found := make([]status.Tenant, len(wanted)), make([][]attention, len(wanted))
	err = redisconn.Batch(ctx, s.Redis, len(wanted), func(i int, rdb redis.UniversalClient) (err error) {
		states[i], found[i], err = attentionOf(ctx, rdb, wanted[i], fleet)
		return err
	})
	for _, t := range states {
		o.held[t.Name] = slices.ContainsFunc(t.Obstacles, func(o status.Obstacle) bool {
			return o.Kind != status.TenantPaused && o.Kind != status.OperationPaused
		})
	}
	o.Warnings = append(s.faults(), slices.Concat(found...)...)
	return o, err
}

// faults returns the warnings about this worker and the data in Redis.
func (s *site) faults() (all []attention) {
	if s.Faults == nil {
		return nil
	}
	for _, f := range s.Faults() {
		all = append(all, attention{Tone: "bad", What: capital(printable(f.Text)), Then: capital(f.Fix)})
	}
	return all
}

// attentionOf reads the state of a tenant, and returns its warnings.
func attentionOf(ctx context.Context, rdb redis.UniversalClient, tenant string,
	fleet status.Fleet) (t status.Tenant, all []attention, err error) {
	t, err = status.ReadDetails(ctx, rdb, tenant, fleet)
	warn := func(tone, what, then, path string) {
		all = append(all, attention{tenant, tone, capital(what), capital(then), path})
	}
	for _, o := range t.Obstacles {
		tone := "bad"
		if o.Kind == status.TenantPaused || o.Kind == status.OperationPaused {
			tone = "wait"
		}
		warn(tone, printable(o.What), o.Fix, "")
	}
	if t.Ticks != nil && t.Ticks.Skipped.Tick != 0 && t.Ticks.Skipped.Tick == t.Ticks.Tick {
		warn("wait", "a sweep was skipped: "+status.SkippedTick(t.Ticks.Skipped),
			"the next scheduled sweep starts once the cause is gone", "")
	}
	if s := t.Sweep; s != nil && s.Lost > 0 {
		warn("bad", fmt.Sprintf("the sweep of %s found %s lost: the proven record is gone for the grace period",
			status.Stamp(s.Tick), plural(s.Lost, "domain", "domains")),
			"ask the customers to publish it again, or revoke the domains: enqueue domains revoke --tenant "+tenant,
			runLink(ledger.RunID(s.Run), "", tenant))
	}
	if s := t.Sweep; s != nil && s.Unknown > 0 {
		warn("wait", fmt.Sprintf("the sweep of %s got no clear answer for %s", status.Stamp(s.Tick),
			plural(s.Unknown, "domain", "domains")),
			"the next sweep checks them again",
			runLink(ledger.RunID(s.Run), "", tenant))
	}
	given, givenErr := deliveries.GivenUp(ctx, rdb, tenant)
	if given > 0 {
		warn("wait", plural(given, "webhook delivery was", "webhook deliveries were")+" given up",
			"fix the receiver, then send them again", webhooksPath(tenant))
	}
	return t, all, errors.Join(err, givenErr)
}
