package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/internal/untrusted"
)

const (
	// deletePage is how many entries of a list [Ledger.DeleteOld] reads at once.
	deletePage = 100
	// deleteFor bounds the time of a call, so that the next one advances the clock by which runs
	// are deleted. It is enough for some 100,000 runs.
	deleteFor = 30 * time.Second
)

// DeleteOld deletes finished runs of a tenant after their retention, and staged runs that are
// incomplete and abandoned, and returns their number. What it does not do in half a minute is
// left for the next call. It also completes deletions that were interrupted. No time counts in
// which DeleteOld is not called. If it fails for some runs it does the others and returns an
// error. The dispatcher calls it once a minute.
func (l *Ledger) DeleteOld(ctx context.Context, t Tenant) (deleted int, err error) {
	defer wrap(&err, "delete old runs of %s", t)
	a, err := l.onTenant(ctx, clockScript, t)
	if err != nil || len(a) == 1 {
		return 0, err
	}
	// Redis may have lost it, on another node than that of the tenant.
	if err := noMemory(l.rdb.SAdd(ctx, tenantsKey, string(t)).Err()); err != nil && !errors.Is(err, ErrNoMemory) {
		return 0, err
	}
	steady := fromMillis(a.int(1))
	now := fromMillis(a.int(2))
	end := time.Now().Add(deleteFor)
	ended, failed := l.deleteListed(ctx, t, "ended", steady, end, func(run Run) (bool, error) {
		return l.delete(ctx, run, "", "")
	})
	abandoned, some := l.deleteListed(ctx, t, "staged", steady.Add(-AbandonedAfter), end, func(run Run) (bool, error) {
		run, err := l.same(ctx, run)
		if err != nil || now.Sub(run.StagedAt) <= AbandonedAfter { // by both: Redis' clock may have jumped since
			return false, err
		}
		return l.DeleteStaged(ctx, run)
	})
	return ended + abandoned, joined("runs", append(failed, some...))
}

// deleteListed calls f for the runs of a list up to a time, several at a time, until that process
// time has come, and returns how many of them it has deleted.
func (l *Ledger) deleteListed(ctx context.Context, t Tenant, list string, until, end time.Time,
	f func(Run) (deleted bool, err error)) (deleted int, failed []error) {
	page := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(until.UnixMilli(), 10), Count: deletePage}
	for {
		entries, err := l.rdb.ZRangeByScore(ctx, tenantKey(t, list), page).Result()
		if err != nil {
			return deleted, append(failed, fmt.Errorf("read %s runs: %w", list, err))
		}

		// Several runs of a page at a time. Those that stay are passed over by the next page.
		var mu sync.Mutex
		var group errgroup.Group
		group.SetLimit(parallel)
		for _, entry := range entries {
			group.Go(func() error {
				run, err := listed(t, entry)
				gone := false
				if err == nil {
					gone, err = f(run)
				}
				mu.Lock()
				defer mu.Unlock()
				if wrap(&err, "run %s", untrusted.Value(entry)); err != nil && !isNotFound(err) {
					failed = append(failed, err)
				}
				if gone {
					deleted++
				} else {
					page.Offset++ // it stays in the list
				}
				return nil
			})
		}
		_ = group.Wait() // the functions return nil
		if len(entries) < deletePage || ctx.Err() != nil || time.Now().After(end) {
			return deleted, failed
		}
	}
}
