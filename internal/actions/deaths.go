package actions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"orgops/internal/activity"
	"orgops/internal/ledger"
)

// reclaimedBy is how long after its last sign of life the rows of a dead worker are due again: once
// it is dead, dispatchers look for them every [ledger.RenewEvery].
const reclaimedBy = 2 * ledger.DeadAfter

// deathKept is how long a recorded death is known: longer than a dead session, a day.
const deathKept = 48 * time.Hour

// RecordReclaimed records the workers that have died while they executed rows of a tenant, which
// are due again. [RecordDeaths] does not record them again.
func RecordReclaimed(ctx context.Context, by activity.Author, t ledger.Tenant, all []ledger.Reclaimed) error {
	rows := map[ledger.SessionID]int{}
	for _, r := range all {
		rows[r.Session] += r.Rows
	}
	var failed error
	for _, session := range slices.Sorted(maps.Keys(rows)) {
		_, err := firstDeath(ctx, by, t, session)
		failed = errors.Join(failed, err)
		recordDeath(ctx, by, t, session, fmt.Sprintf("rows that others take over: %d; none is lost", rows[session]))
	}
	return failed
}

// RecordDeaths records the workers of a tenant that have died while they executed none of its rows,
// each once in the fleet. died are those of all tenants.
func RecordDeaths(ctx context.Context, by activity.Author, t ledger.Tenant, died []ledger.Session) error {
	var failed error
	for _, s := range died {
		if !slices.Contains(s.Tenants, t) || time.Since(s.SeenAt) < reclaimedBy {
			continue
		}
		first, err := firstDeath(ctx, by, t, s.ID)
		failed = errors.Join(failed, err)
		if first {
			recordDeath(ctx, by, t, s.ID, "it executed no row of this tenant; none is lost")
		}
	}
	return failed
}

func recordDeath(ctx context.Context, by activity.Author, t ledger.Tenant, session ledger.SessionID, effect string) {
	by.Record(ctx, activity.Entry{Tenant: string(t), Action: activity.WorkerDied,
		Result: fmt.Sprintf("worker %s; %s", session, effect)})
}

// firstDeath reports whether the death of a worker was not recorded for the tenant before.
func firstDeath(ctx context.Context, by activity.Author, t ledger.Tenant, session ledger.SessionID) (bool, error) {
	key := fmt.Sprintf("orgops:v3:{tenant:%s}:died:%s", t, session)
	first, err := by.Redis.SetNX(ctx, key, "recorded", deathKept).Result()
	if err != nil {
		return false, fmt.Errorf("note the death of worker %s: %w", session, err)
	}
	return first, nil
}
