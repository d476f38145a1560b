package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

var (
	paceLimit = redisDesc("orgops_pace_limit_per_second",
		"Requests per second that all workers together may send: the tenant's rate minus the reserve; +Inf if unlimited.",
		"tenant")
	paceUsed = redisDesc("orgops_pace_used_per_second",
		"Permits per second given to all workers in the last minute; 0 if the rate is unlimited, since permits are not counted then.", "tenant")
	paceStopped = redisDesc("orgops_tenant_stopped",
		"1 while an operator has stopped the tenant: nothing is changed there, and its rows wait.", "tenant")
	pacePaused = redisDesc("orgops_pace_paused_seconds",
		"Remaining time of the pause that the API requested; 0 if there is none.", "tenant")
	paceBlocked = redisDesc("orgops_pace_blocked",
		"1 while an operation is blocked for all workers. Operation *: all operations.", "tenant", "operation")
	runsStuck = redisDesc("orgops_runs_stuck",
		"Runs that make no progress until somebody acts: rows of them cannot be read, no worker knows their kind, or the follow-ups of their end fail.", "tenant")
	sweepDomains = redisDesc("orgops_sweep_domains",
		"Domains of the last complete sweep by state: present, absent (without those that are lost or unproven), lost (and not revoked since), unproven (absent for as long, but their token was never proven), unknown.", "tenant", "state")
	sweepStarted = redisDesc("orgops_sweep_started_timestamp_seconds",
		"Start of the last sweep of the whole tenant, as Unix time, without cancelled and deleted sweeps; absent before the first sweep.", "tenant")
	sweepEnded = redisDesc("orgops_sweep_ended_timestamp_seconds",
		"End of the last complete sweep, as Unix time; absent before the first one.", "tenant")
)

// tenantMetrics reads pace and sweeps of a tenant, for the whole fleet.
func tenantMetrics(ctx context.Context, rdb redis.Cmdable, t tenant.Announced) ([]prometheus.Metric, error) {
	state, stateErr := status.ReadTenant(ctx, rdb, t.Tenant)
	budget, budgetErr := budgetMetrics(t, state.Pace)
	sweeps, sweepsErr := sweepMetrics(ctx, ledger.New(rdb), t.Tenant, state)
	stuck := []prometheus.Metric{gauge(runsStuck, float64(len(state.Stuck)), t.Tenant)}
	return slices.Concat(budget, stuck, sweeps), errors.Join(stateErr, budgetErr, sweepsErr)
}

func budgetMetrics(t tenant.Announced, state *pace.State) ([]prometheus.Metric, error) {
	if state == nil {
		return nil, nil
	}
	limit, err := t.Pace()
	if err != nil {
		return nil, err
	}
	rate, _ := limit.Effective()
	paused := 0.0
	if !state.PausedUntil.IsZero() {
		paused = state.PausedUntil.Sub(state.At).Seconds()
	}
	metrics := []prometheus.Metric{
		gauge(paceLimit, rate.PerSecond(), t.Tenant),
		gauge(paceUsed, float64(state.UsedLastMinute)/60, t.Tenant),
		gauge(pacePaused, paused, t.Tenant),
		gauge(paceStopped, oneIf(state.Stopped != nil), t.Tenant),
	}
	for _, b := range state.Blocks {
		metrics = append(metrics, gauge(paceBlocked, 1, t.Tenant, b.Operation))
	}
	return metrics, nil
}

func sweepMetrics(ctx context.Context, l *ledger.Ledger, tenant string,
	state status.Tenant) (metrics []prometheus.Metric, err error) {
	summary := state.Sweep
	if summary != nil {
		metrics = append(metrics,
			gauge(sweepEnded, unixSeconds(summary.At), tenant),
			gauge(sweepDomains, float64(summary.Present), tenant, "present"),
			gauge(sweepDomains, float64(summary.Absent-summary.Lost-summary.Unproven), tenant, "absent"),
			gauge(sweepDomains, float64(summary.StillLost()), tenant, "lost"),
			gauge(sweepDomains, float64(summary.Unproven), tenant, "unproven"),
			gauge(sweepDomains, float64(summary.Unknown), tenant, "unknown"))
	}
	if state.Ticks == nil {
		return metrics, nil
	}
	var last time.Time
	for _, sweep := range []sweep.TenantSweep{state.Ticks.Sweep, state.Ticks.ByHand} {
		counts, err := counts(ctx, l, tenant, sweep, summary)
		if err != nil {
			return metrics, err
		}
		if counts && sweep.At.After(last) {
			last = sweep.At
		}
	}
	if !last.IsZero() {
		metrics = append(metrics, gauge(sweepStarted, unixSeconds(last), tenant))
	}
	return metrics, nil
}

// counts reports whether a sweep was started and has ended, or will. A cancelled sweep does not
// count, nor one whose run is deleted.
func counts(ctx context.Context, l *ledger.Ledger, tenant string, started sweep.TenantSweep,
	last *status.Sweep) (bool, error) {
	if started.Run == "" {
		return false, nil
	}
	if last != nil && !last.At.Before(started.At) {
		return true, nil
	}
	run, err := l.Get(ctx, ledger.Tenant(tenant), ledger.RunID(started.Run))
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("tenant %s: read the last sweep: %w", tenant, err)
	}
	return run.CancelledAt.IsZero(), nil
}

func unixSeconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
