package console

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/status"
)

// attention is a warning about a tenant.
type attention struct {
	Tenant string
	Tone   string // a class of ops.css: bad, wait
	What   string
	Then   string // the remedy, or the next step
}

// attention returns the warnings about all known tenants, or about one of them, and the names
// of all.
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

// attentionOf reads the state of a tenant, and returns its warnings.
func attentionOf(ctx context.Context, rdb redis.UniversalClient,
	tenant string) (t status.Tenant, all []attention, err error) {
	t, err = status.ReadDetails(ctx, rdb, tenant)
	for _, o := range t.Obstacles {
		tone := "bad"
		if o.Kind == status.TenantPaused || o.Kind == status.OperationPaused {
			tone = "wait"
		}
		all = append(all, attention{tenant, tone, printable(o.What), capital(o.Fix)})
	}
	if t.Ticks != nil && t.Ticks.Skipped.Tick != 0 && t.Ticks.Skipped.Tick == t.Ticks.Tick {
		all = append(all, attention{tenant, "wait", "a sweep was skipped: " + status.SkippedTick(t.Ticks.Skipped),
			"The next scheduled sweep starts once the cause is gone."})
	}
	return t, all, err
}
