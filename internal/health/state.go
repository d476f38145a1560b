package health

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/sweep"
)

// TenantState is the state of a tenant, for the whole fleet. A part that could not be read is
// nil.
type TenantState struct {
	Pace  *pace.State
	Sweep *sweep.Summary // of the last complete sweep; nil also if there was none
	Ticks *sweep.Ticks
}

// ReadState reads the state of a tenant. With an error it returns the parts that it could read.
func ReadState(ctx context.Context, rdb redis.UniversalClient, tenant string) (t TenantState, err error) {
	budget, paceErr := pace.New(pace.Config{Redis: rdb, Tenant: tenant}).State(ctx)
	if paceErr == nil {
		t.Pace = &budget
	}
	var sweepsErr error
	t.Sweep, sweepsErr = status.SummaryOf(ctx, rdb, tenant)
	ticks, ticksErr := sweep.NewStore(rdb, tenant).Ticks(ctx)
	if ticksErr == nil {
		t.Ticks = &ticks
	}
	return t, errors.Join(paceErr, sweepsErr, ticksErr)
}
