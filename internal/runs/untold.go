package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Untold returns, in the order of their ids, the runs that have ended and of which
// nobody was told so: [Ledger.Told] was not called since they were created. Runs of the
// core are not among them: their dispatcher does what follows an end. A run that cannot
// be read is in the error, beside which the others are returned. Runs of tenants that
// are not ours are left out. It costs one round trip, another while there are runs
// that are open or others', and one for each run that it returns.
func (l *Ledger) Untold(ctx context.Context, ours func(tenant string) bool) ([]Run, error) {
	ids, err := l.rdb.SMembers(ctx, untoldKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list runs with a pending notification: %w", err)
	}
	slices.Sort(ids)
	ended := make([]*redis.SliceCmd, len(ids))
	if len(ids) > 0 {
		_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range ids {
				ended[i] = p.HMGet(ctx, key(id, "run"), "tenant", "ended_at")
			}
			return nil
		})
	}
	// What Redis says of one run comes up again where that is read.
	if _, said := errors.AsType[redis.Error](err); err != nil && !said {
		return nil, fmt.Errorf("list runs with a pending notification: %w", err)
	}
	var (
		untold []Run
		failed []error
	)
	for i, id := range ids {
		if state := ended[i].Val(); len(state) == 2 && state[0] != nil {
			tenant, _ := state[0].(string)
			if state[1] == nil || !ours(tenant) {
				continue // it goes on, or is another worker's to tell of
			}
		}
		run, err := l.get(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			failed = append(failed, l.Told(ctx, id)) // deleted, or forgotten after its time
		case err != nil:
			failed = append(failed, err)
		default:
			untold = append(untold, run)
		}
	}
	return untold, errors.Join(failed...)
}

// Told says that the run's end was told. To say it again is harmless.
func (l *Ledger) Told(ctx context.Context, run string) error {
	if err := l.rdb.SRem(ctx, untoldKey, run).Err(); err != nil {
		return fmt.Errorf("run %s: record that its end was notified: %w", run, err)
	}
	return nil
}
