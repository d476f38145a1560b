package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// listPage is how many headers are read in one round trip.
const listPage = 500

// Tenants returns the tenants that have, or had, a run, in order.
func (l *Ledger) Tenants(ctx context.Context) ([]Tenant, error) {
	names, err := l.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	slices.Sort(names)
	tenants := make([]Tenant, len(names))
	for i, name := range names {
		tenants[i] = Tenant(name)
	}
	return tenants, nil
}

// Runs returns all runs of a tenant, the newest first.
func (l *Ledger) Runs(ctx context.Context, t Tenant) ([]Run, error) {
	return l.list(ctx, t, runsList)
}

// OpenRuns returns the runs of a tenant that are staged or open, or that have ended but
// are not finished, the newest first.
func (l *Ledger) OpenRuns(ctx context.Context, t Tenant) ([]Run, error) {
	runs, err := l.list(ctx, t, openList)
	return slices.DeleteFunc(runs, func(r Run) bool { return !r.FinishedAt.IsZero() }), err
}

func (l *Ledger) list(ctx context.Context, t Tenant, list int) ([]Run, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	entries, err := l.rdb.ZRevRange(ctx, tenantKeys(t)[list], 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list runs of %s: %w", t, err)
	}
	var all []Run
	for page := range slices.Chunk(entries, listPage) {
		found, err := l.headers(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("list runs of %s: %w", t, err)
		}
		for _, run := range found {
			if run.ID != "" && run.DeletingAt.IsZero() {
				all = append(all, run)
			}
		}
	}
	return all, nil
}

// headers returns the runs of a list's entries, each the zero Run if there is no such
// header any more, or not yet.
func (l *Ledger) headers(ctx context.Context, entries []string) ([]Run, error) {
	hashes := make([]*redis.MapStringStringCmd, len(entries))
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, entry := range entries {
			id, _, _ := strings.Cut(entry, "/")
			hashes[i] = p.HGetAll(ctx, headerKeys(RunID(id))[0])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	found := make([]Run, len(entries))
	for i, entry := range entries {
		id, inc, _ := strings.Cut(entry, "/")
		if hashes[i].Val()["inc"] != inc {
			continue
		}
		if found[i], err = parseRun(RunID(id), hashes[i].Val()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// relist stores a run in its tenant's lists again: a node of Redis may have lost the entry,
// and a run that no list has is never released. At maxmemory it leaves the list of tenants
// as it is. The error is [ErrNotFound] if the run is being deleted.
func (l *Ledger) relist(ctx context.Context, run Run) error {
	if err := l.listTenant(ctx, run.Tenant); err != nil {
		return err
	}
	_, err := l.onTenant(ctx, tenantAddScript, run.Tenant, run.entry())
	return err
}

// listTenant stores a tenant in the list of tenants, unless Redis is at maxmemory.
func (l *Ledger) listTenant(ctx context.Context, t Tenant) error {
	err := noMemory(l.rdb.SAdd(ctx, tenantsKey, string(t)).Err())
	if errors.Is(err, ErrNoMemory) {
		return nil
	}
	return err
}

// unlist takes a run out of its tenant's lists.
func (l *Ledger) unlist(ctx context.Context, run Run) error {
	keys := tenantKeys(run.Tenant)
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, list := range []int{runsList, openList, endedList} {
			p.ZRem(ctx, keys[list], run.entry())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take the run out of its tenant's lists: %w", err)
	}
	return nil
}
