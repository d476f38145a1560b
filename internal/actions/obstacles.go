package actions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"orgops/internal/activity"
	"orgops/internal/pace"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/status"
)

// recordedAfter is how long an obstacle lasts before it is recorded: the API pauses a tenant for a
// second now and then, and a receiver may fail once.
const recordedAfter = time.Minute

// lasting is an obstacle that lasts.
type lasting struct {
	what string
	// perhaps says that it may be over: it goes on if its beginning was recorded, and is none
	// otherwise.
	perhaps bool
}

// lastingOf returns the obstacles of a tenant that last, by name. It leaves out those that begin
// and end by an action that the activity has: stops, blocks, paused queues, and workers that start,
// stop or die.
func lastingOf(t status.Tenant) map[string]lasting {
	all := map[string]lasting{}
	add := func(name string, since time.Time, l lasting) {
		if !since.IsZero() && t.Pace.At.Sub(since) >= recordedAfter {
			all[name] = l
		}
	}

	// The token of this process.
	if t.Known.Token != nil {
		_, why := remedy.Of(t.Known.Token.Why)
		add("token", t.Known.Token.Since, lasting{what: why.Error() + ", since " + stamp.UTC(t.Known.Token.Since)})
	}

	// Pauses that the API has asked for. One that is over lasts until a request has tried whether the
	// API accepts any, for which there may be no row.
	refuses := func(operation string, since time.Time, perhaps bool) {
		what := "request"
		if operation != pace.All {
			what = operation
		}
		what = fmt.Sprintf("the API has accepted no %s since %s (429)", what, stamp.UTC(since))
		add("paused "+operation, since, lasting{what, perhaps})
	}
	for _, trial := range t.Pace.Trials {
		refuses(trial.Operation, trial.RefusedSince, true)
	}
	refuses(pace.All, t.Pace.RefusedSince, false)
	for _, p := range t.Pace.Pauses {
		refuses(p.Operation, p.RefusedSince, false)
	}
	if t.Refused != nil && t.Refused.Long && t.Refused.Requests > 0 {
		add("refused", t.Refused.Since, lasting{what: t.Refused.String()})
	}

	// Receivers of events.
	for name, failing := range t.Failing {
		what := "webhooks fail since " + stamp.UTC(failing.Since) + ": " + failing.Reason
		add("webhook "+name, failing.Since, lasting{what: what})
	}
	return all
}

// RecordObstacles records in the activity of a tenant which obstacles have begun or ended since the
// last call, each once in the fleet. They are stored until they end. t has the state of the tenant
// as [status.ReadDetails] has read it without an error.
func RecordObstacles(ctx context.Context, by activity.Author, t status.Tenant) error {
	key := "orgops:v3:{tenant:" + t.Name + "}:obstacles"
	before, err := by.Redis.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("read the recorded obstacles of tenant %s: %w", t.Name, err)
	}
	now := lastingOf(t)
	var failed error
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := before[name]; known || now[name].perhaps {
			continue
		}
		what := now[name].what
		first, err := by.Redis.HSetNX(ctx, key, name, what).Result()
		if first {
			by.Record(ctx, activity.Entry{Tenant: t.Name, Action: activity.ObstacleBegan, Result: what})
		}
		failed = errors.Join(failed, err)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, lasts := now[name]; lasts {
			continue
		}
		n, err := by.Redis.HDel(ctx, key, name).Result()
		if n > 0 {
			by.Record(ctx, activity.Entry{Tenant: t.Name, Action: activity.ObstacleEnded, Result: before[name]})
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
