package actions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/deliveries"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/remedy"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// StopTenant stops a tenant in the name of a user: see [pace.Limiter.Stop].
func StopTenant(ctx context.Context, by activity.Author, tenant, reason string) (pace.Stop, error) {
	stop, err := pace.New(pace.Config{Redis: by.Redis, Tenant: tenant}).Stop(ctx, by.Name, reason)
	if err == nil && stop.By == by.Name { // else an earlier stop stays
		by.Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Stopped, Result: stop.Reason})
	}
	return stop, err
}

// StartTenant ends the stop and the pauses of a tenant in the name of a user, has its blocks
// tested, and returns the effect in words: see [pace.Limiter.Start].
func StartTenant(ctx context.Context, by activity.Author, tenant string) (effect string, err error) {
	started, err := pace.New(pace.Config{Redis: by.Redis, Tenant: tenant}).Start(ctx)
	var was []string
	if started.Stop != nil {
		was = append(was, started.Stop.String())
	}
	if started.Paused {
		was = append(was, "paused by the API (429): one request tries now")
	}
	if started.Blocked {
		was = append(was, "blocked: one request tries within 30 seconds if a row waits, and the block ends if it is accepted")
	}
	if len(was) == 0 {
		return "was neither stopped, paused nor blocked", err
	}
	effect = "it was " + strings.Join(was, ", and ")
	by.Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Started, Result: effect})
	return "started, and its rows are executed again within two minutes; " + effect, err
}

// Resend sends deliveries of a tenant to an endpoint of webhooks again now, in the name of a user,
// and returns the effect in words: see [deliveries.Resend].
func Resend(ctx context.Context, by activity.Author, tenant, endpoint string,
	which deliveries.Which) (effect string, err error) {
	n, err := deliveries.Resend(ctx, by.Redis, tenant, endpoint, which)
	if err != nil {
		return "", err
	}
	what := "delivery"
	if n != 1 {
		what = "deliveries"
	}
	if which == deliveries.Waiting {
		what = "waiting " + what
	}
	sent := status.Grouped(int64(n)) + " " + what
	by.Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Resent, Result: "to " + endpoint + ": " + sent})
	return "endpoint " + endpoint + " gets deliveries: " + sent + " sent again, within seconds; if it has not answered for a " +
		"while, one within two minutes and the others after it", nil
}

// ReassignTenant lets the worker of the tenant that is started next decide which tenant of the
// platform its name stands for, in the name of a user, and returns the effect in words. With same
// it is the same one, at another address.
func ReassignTenant(ctx context.Context, by activity.Author, l *ledger.Ledger, name string,
	same bool) (effect string, err error) {
	// A living worker would claim the name again, or execute rows of another tenant until it does.
	sessions, err := l.Sessions(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range sessions {
		if slices.Contains(s.Tenants, ledger.Tenant(name)) {
			return "", remedy.With(fmt.Errorf("tenant %s is served by worker %s", name, status.WorkerText(s, time.Now())),
				"stop its workers, or take the tenant out of their file")
		}
	}

	// Rows belong to the tenant of the platform for which they were submitted.
	if !same {
		if err := unfinished(ctx, l, name); err != nil {
			return "", err
		}
	}

	former, err := tenant.GiveUp(ctx, by.Redis, name, same)
	if err != nil {
		return "", err
	}
	effect = "it stood for " + former.BaseURL + "; the worker that is started next decides"
	if same {
		effect += " the address of the same tenant"
	}
	by.Record(ctx, activity.Entry{Tenant: name, Action: activity.Reassigned, Result: effect})
	return effect, nil
}

// unfinished returns an error that names the runs of a tenant that are not finished; nil: all are.
func unfinished(ctx context.Context, l *ledger.Ledger, name string) error {
	runs, err := l.OpenRuns(ctx, ledger.Tenant(name))
	if err != nil {
		return err
	}
	singles, err := l.CountSingles(ctx, ledger.Tenant(name))
	if err != nil {
		return err
	}
	if n := singles[ledger.Tenant(name)]; n > 0 {
		return remedy.With(fmt.Errorf("tenant %s has rows that are not finished: %s", name, status.CountOf(n, "single row")), "%s", finishFirst)
	}
	if len(runs) == 0 {
		return nil
	}
	const most = 5
	var ids []string
	for _, r := range runs[:min(len(runs), most)] {
		ids = append(ids, string(r.ID))
	}
	if len(runs) > most {
		ids = append(ids, fmt.Sprintf("%d more", len(runs)-most))
	}
	return remedy.With(fmt.Errorf("tenant %s has runs that are not finished: %s", name, strings.Join(ids, ", ")), "%s", finishFirst)
}

// finishFirst says how a tenant gets no open rows.
const finishFirst = "start its former workers until none is open, cancel what shall not go on (enqueue runs cancel RUN), " +
	"and stop them again; with --keep open rows stay: they are executed in the tenant that the next worker names"

// Sweep starts a sweep of the tenant, or of one organization if it is named, and of
// pending domains too if pending or the tenant's settings say so. announced is false if no
// worker has served the tenant on this Redis.
func Sweep(ctx context.Context, rdb redis.Cmdable, in intake.Intake, r ledger.NewRun, organization string,
	pending bool) (run ledger.Run, created, announced bool, err error) {
	name := string(r.Tenant)
	settings, announced, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err != nil {
		return ledger.Run{}, false, false, err
	}
	r.ID = cmp.Or(r.ID, ledger.RunID(tasks.NewRunID(time.Now())))
	order := progress.Scan{Organization: organization, Pending: pending || settings.VerifyPending}
	run, created, err = schedule.Now(ctx, in, sweep.NewStore(rdb, name), r, order)
	return run, created, announced, err
}
