package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/remedy"
	"orgops/internal/spelling"
	"orgops/internal/status"
	"orgops/tasks"
)

func (t *tool) place() string { return "Redis " + redisconn.Mask(t.at.URL) }

// unknownRun adds to the error of a run that was not found the id that was probably meant, of the
// newest, and to that of an id that several tenants have how to choose one.
func (t *tool) unknownRun(ctx context.Context, tenant string, ids []string, err error) error {
	if _, ok := errors.AsType[*ledger.AmbiguousError](err); ok {
		return cli.Usage(remedy.With(err, "name it by --tenant"))
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	if tenant != "" {
		if err := t.mustBeKnown(ctx, tenant); err != nil {
			return err
		}
	}
	of := func(name ledger.Tenant) bool { return tenant == "" || tenant == string(name) }
	newest, _, _ := t.ledger.Page(ctx, ledger.Query{Tenant: of, Limit: 1000, MaxRead: 1000}) // best effort
	var known []string
	for _, r := range newest {
		known = append(known, string(r.ID))
	}
	for _, id := range ids {
		if near := spelling.Nearest(id, known); near != "" && near != id {
			return remedy.With(err, "did you mean: %s", near)
		}
	}
	return remedy.With(err, "for the runs of %s: enqueue runs list", t.place())
}

// unknownTenant is the error of a tenant that no worker has served here, with the names of others.
// advice is added to the remedy; empty: there is no other.
func (t *tool) unknownTenant(ctx context.Context, name, advice string) error {
	known, _ := status.Tenants(ctx, t.ledger) // best effort
	sessions, _ := t.ledger.Sessions(ctx)
	for _, s := range sessions {
		for _, other := range s.Tenants {
			known = append(known, string(other))
		}
	}
	slices.Sort(known)
	known = slices.DeleteFunc(slices.Compact(known), func(other string) bool { return other == name })
	there := "there are no others"
	if near := spelling.Nearest(name, known); near != "" {
		there = "did you mean " + near + "?"
	} else if len(known) > 0 {
		there = "others are " + strings.Join(known[:min(len(known), 10)], ", ")
	}
	return cli.Usage(remedy.With(fmt.Errorf("no worker has served tenant %s on %s; %s", name, t.place(), there),
		"check its name and --redis-url%s", advice))
}

// onlyTenant returns the name of the tenant if Redis knows only one; "": it knows several. The
// default one is that of a Redis without any.
func (t *tool) onlyTenant(ctx context.Context) string {
	sessions, _ := t.ledger.Sessions(ctx) // best effort
	names, _ := status.Tenants(ctx, t.ledger, sessions...)
	switch len(names) {
	case 0:
		return tasks.DefaultTenant
	case 1:
		return names[0]
	}
	return ""
}

// control are the commands for which the user operator of deploy/redis is enough.
var control = []string{"runs pause", "runs resume", "runs cancel", "runs delete", "tenant stop", "tenant start",
	"tenant reassign", "tenant deliver"}

// refused adds to an answer by which Redis refuses this command how to fix it.
func (t *tool) refused(command string, err error) error {
	fix := redisconn.Remedy(err)
	fixed, ok := errors.AsType[*remedy.Error](err)
	switch {
	case fix == "" || (ok && !redisconn.Denied(err)):
		return err
	case ok: // repeating the command does not help
		err = fixed.Err
	}
	if redisconn.Denied(err) {
		command, _, _ = strings.Cut(command, " <")
		user := "producer"
		if t.reads {
			user = "reader"
		} else if slices.Contains(control, command) {
			user = "operator"
		}
		err = fmt.Errorf("%s: its user may not run enqueue %s: %w", t.place(), command, err)
		fix = "use the user " + user + " of deploy/redis: redis://" + user + "@…, with its password"
	}
	return remedy.With(err, "%s", fix)
}

// interruptedIn returns the error of a submission. If an interruption of this command has ended it,
// that is the reason, whatever call it has failed.
func interruptedIn(ctx context.Context, err error) error {
	_, part := errors.AsType[*intake.UnfinishedError](err)
	with, ok := errors.AsType[*remedy.Error](err)
	if !part || !ok || ctx.Err() == nil {
		return err
	}
	return &cli.StatusError{Status: cli.StatusInterrupted, Err: with.About(errors.New("interrupted"))}
}
