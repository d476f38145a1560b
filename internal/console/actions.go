package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"

	"orgops/internal/deliveries"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/view"
	"orgops/tasks"
)

const (
	// actionShown is how long the browser waits for an action, which continues without it.
	actionShown = 10 * time.Second
	// actionWithin bounds an action: a hundred million rows are enqueued at tens of
	// thousands a second.
	actionWithin = 2 * time.Hour
	// rowsAPage is how many rows a run's page has, of which some can be chosen for an action.
	rowsAPage = 50
)

// result is the result of an action.
type result struct {
	text string
	path string // of the page that shows it
	err  error
	// refused says that the error was found before anything was changed.
	refused bool
}

// carryOut executes an action on a run or tenant, and redirects the browser to its result. A
// long action continues after the redirect, or when the browser has gone; one that the end of
// this worker interrupts is continued by requesting it again.
func (s *site) carryOut(w http.ResponseWriter, r *http.Request, action, to, path string,
	do func(context.Context) result) {
	log := s.log.With("action", action, "of", to, "user", userOf(r.Context()))
	if _, busy := s.acting.LoadOrStore(to, true); busy {
		s.lead(w, r, path, "Not done: another action on "+to+" is in progress. Try again when it has finished.", true)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionWithin)
	done := make(chan result, 1)
	go func() {
		defer cancel()
		c := whole(ctx, log, do)
		s.acting.Delete(to) // before the answer, after which the user may act again
		if c.err != nil {
			log.WarnContext(ctx, "operator action failed", "error", c.err)
		} else {
			log.InfoContext(ctx, "operator action done", "result", c.text)
		}
		done <- c
	}()
	late := time.NewTimer(actionShown)
	defer late.Stop()
	select {
	case c := <-done:
		path = cmp.Or(c.path, path)
		switch {
		case c.err == nil:
			s.lead(w, r, path, c.text, false)
		case c.refused:
			s.lead(w, r, path, "Not done: "+c.err.Error(), true)
		default:
			s.lead(w, r, path, "Failed, possibly in part: "+c.err.Error(), true)
		}
	case <-r.Context().Done(): // the browser has gone, or the worker stops
	case <-late.C:
		s.lead(w, r, path,
			action+" of "+to+" is still in progress. This page shows its progress, and the worker's log will have its result.",
			false)
	}
}

// whole executes an action, and turns a panic, which would end the worker, into an error.
func whole(ctx context.Context, log *slog.Logger, do func(context.Context) result) (c result) {
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "operator action panicked", "panic", p, "stack", string(debug.Stack()))
			c = result{err: errors.New("internal error, the action may have been done in part: see the worker's log")}
		}
	}()
	return do(ctx)
}

// runAction is an action on a run, with the form of the request.
type runAction func(ctx context.Context, run view.Run, form url.Values) result

// runActions are the actions on runs, by the last part of their paths.
var runActions = map[string]runAction{
	"pause": byCommand(view.Run.Pause), "resume": byCommand(view.Run.Resume),
	"cancel": byCommand(view.Run.Cancel), "retry": retry, "check": checkRows, "everywhere": removeEverywhere,
}

// byCommand returns an action that is also a command.
func byCommand(do func(run view.Run, ctx context.Context, reason string) (string, error)) runAction {
	return func(ctx context.Context, run view.Run, form url.Values) result {
		effect, err := do(run, ctx, field(form, "reason"))
		return result{text: "run " + string(run.ID) + ": " + effect, err: err}
	}
}

// toRun executes an action on the run of the path.
func (s *site) toRun(action string, do runAction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
		defer cancel()
		run, err := s.found(s.view(ctx), r.WithContext(ctx))
		path := runLink(ledger.RunID(r.PathValue("id")), "", r.URL.Query().Get("tenant"))
		if err != nil {
			s.lead(w, r, path, "Not done: "+printable(err.Error()), true)
			return
		}
		s.carryOut(w, r, action, "run "+string(run.Tenant)+"/"+string(run.ID), path,
			func(ctx context.Context) result { return do(ctx, run, r.PostForm) })
	}
}

// chosen returns the numbers of the rows that are chosen in a form.
func chosen(form url.Values) (items []int64, err error) {
	for _, text := range form["row"] {
		item, err := strconv.ParseInt(text, 10, 64)
		if err != nil || item < 0 || len(items) == rowsAPage {
			return nil, fmt.Errorf("the form has an invalid row, or more than %d", rowsAPage)
		}
		items = append(items, item)
	}
	return items, nil
}

// checkRows has workers check chosen open rows of the run now.
func checkRows(ctx context.Context, run view.Run, form url.Values) result {
	items, err := chosen(form)
	if err == nil && len(items) == 0 {
		err = errors.New("no row is chosen: choose at least one that is open")
	}
	if err != nil {
		return result{err: err}
	}
	rows, err := run.CheckRows(ctx, items)
	return result{text: plural(int64(rows), "chosen row is", "chosen rows are") + " checked now; the others do not wait " +
		"for a check, or their last attempt failed and the next is made by itself.", err: err}
}

// retryOrder returns which rows a form has retried: those that a search finds, those that are
// chosen, or else those of chosen outcomes.
func retryOrder(ctx context.Context, run view.Run, form url.Values) (o intake.RetryOptions, err error) {
	if form.Has("found") {
		q := rowsQuery{which: form.Get("which"), cause: form.Get("cause"), text: form.Get("q")}
		if !q.mayRetry(run) {
			return o, errors.New("nothing was submitted: the search finds no row that can be retried")
		}
		o, found, err := q.retried(ctx, run)
		if err == nil && (found.Cut || found.Rows == 0 || strconv.FormatInt(found.Rows, 10) != form.Get("found")) {
			err = fmt.Errorf("nothing was submitted: the search finds %s now that can be retried, and not %s: look at them again",
				plural(found.Rows, "row", "rows"), printable(form.Get("found")))
		}
		return o, err
	}
	o.Outcomes = form["outcome"]
	o.ID = ledger.RunID(field(form, "run"))
	o.Items, err = chosen(form)
	if err == nil && len(o.Outcomes) == 0 && len(o.Items) == 0 {
		err = errors.New("nothing is chosen: choose at least one outcome, or one failed row")
	}
	return o, err
}

// retry submits rows of the run again.
func retry(ctx context.Context, run view.Run, form url.Values) result {
	o, err := retryOrder(ctx, run, form)
	if err != nil {
		return result{err: err}
	}
	child := ""
	o.Created = func(r ledger.Run) { child = string(r.ID) }
	sub, err := run.Retry(ctx, o, view.Submission{Reason: field(form, "reason")})
	switch {
	case errors.Is(err, intake.ErrNothingToRetry):
		return result{text: err.Error()}
	case err != nil:
		c := result{err: err}
		if open, ok := errors.AsType[*intake.RetriedError](err); ok && !open.Incomplete {
			c.path = runPath(open.Child) // an incomplete one is completed from here
		}
		return c
	}
	of := " of run " + string(run.ID)
	return result{text: plural(sub.Rows, "row"+of+" was", "rows"+of+" were") + " submitted again as this run.",
		path: runPath(ledger.RunID(child))}
}

// sweepNow starts a sweep: POST /sweeps.
func (s *site) sweepNow(w http.ResponseWriter, r *http.Request) {
	organization := field(r.PostForm, "organization")
	if err := tasks.CheckOrganization(organization); organization != "" && err != nil {
		s.lead(w, r, "/runs", "Not done: "+err.Error(), true)
		return
	}
	s.toTenant(w, r, "sweep", "/runs", func(ctx context.Context, t view.Tenant) result {
		run, created, announced, err := t.Sweep(ctx, organization, r.PostForm.Has("pending"))
		text := "The sweep has started as this run."
		switch {
		case err != nil:
			return result{err: err}
		case !announced:
			text = "The sweep is created, but no worker of tenant " + t.Name() +
				" was ever seen on this Redis. It starts once a worker starts."
		case !created:
			text = "This sweep already exists."
		}
		return result{text: text, path: runPath(run.ID)}
	})
}

// listClient submits the run that lists the organizations of a client: POST /clients/list.
func (s *site) listClient(w http.ResponseWriter, r *http.Request) {
	client := field(r.PostForm, "client")
	if err := tasks.CheckClient(client); err != nil {
		s.lead(w, r, "/runs", "Not done: "+err.Error(), true)
		return
	}
	s.toTenant(w, r, "list", "/runs", func(ctx context.Context, t view.Tenant) result {
		run, err := t.ListClient(ctx, client)
		if err != nil {
			return result{err: err}
		}
		return result{text: "The organizations of client " + client + " are listed as this run. Nothing is removed.",
			path: runLink(run.ID, "", t.Name())}
	})
}

// removeEverywhere removes a client from the organizations that the run lists, whose number the
// user has typed: POST /runs/{id}/everywhere.
func removeEverywhere(ctx context.Context, run view.Run, form url.Values) result {
	if _, err := intake.ListOf(run.Run); err != nil {
		return result{err: err, refused: true}
	}
	counted, err := strconv.ParseInt(field(form, "organizations"), 10, 64)
	if err != nil {
		return result{err: errors.New("type the number of organizations that this run lists"), refused: true}
	}
	removal, created, err := run.RemoveEverywhere(ctx, counted, field(form, "reason"))
	if err != nil {
		_, refused := errors.AsType[*intake.CountError](err)
		return result{err: err, refused: refused}
	}
	text := "The removal is this run. It reads all organizations again first, and removes nothing if more have the client."
	if !created {
		text = "This removal was submitted before."
	}
	return result{text: text, path: runLink(removal.ID, "", string(removal.Tenant))}
}

// resend sends deliveries of an endpoint again, those that were given up or those that wait: POST
// /webhooks/resend.
func (s *site) resend(w http.ResponseWriter, r *http.Request) {
	endpoint := field(r.PostForm, "endpoint")
	which := deliveries.GivenUp
	if r.PostForm.Has("waiting") {
		which = deliveries.Waiting
	}
	s.toTenant(w, r, "send webhooks again to "+printable(endpoint), "", func(ctx context.Context, t view.Tenant) result {
		effect, err := t.Resend(ctx, endpoint, which)
		return result{text: capital(effect) + ".", err: err}
	})
}

// stopTenant stops a tenant: POST /tenants/stop. It takes two seconds, after which the stop is
// effective.
func (s *site) stopTenant(w http.ResponseWriter, r *http.Request) {
	s.toTenant(w, r, "stop", "", func(ctx context.Context, t view.Tenant) result {
		stop, err := t.Stop(ctx, field(r.PostForm, "reason"))
		return result{text: "The tenant is " + stop.String() + ". Nothing is changed there until it is started.", err: err}
	})
}

// startTenant ends the stop and the pauses of a tenant: POST /tenants/start.
func (s *site) startTenant(w http.ResponseWriter, r *http.Request) {
	s.toTenant(w, r, "start", "", func(ctx context.Context, t view.Tenant) result {
		effect, err := t.Start(ctx)
		return result{text: "Tenant " + t.Name() + ": " + effect + ".", err: err}
	})
}

// toTenant executes an action on the tenant of the form. path is the page of the result; empty: the
// tenant's.
func (s *site) toTenant(w http.ResponseWriter, r *http.Request, action, path string,
	do func(context.Context, view.Tenant) result) {
	t, err := tenantOf(s.view(r.Context()), field(r.PostForm, "tenant"))
	if err != nil {
		s.lead(w, r, cmp.Or(path, tenantsPath("")), "Not done: "+err.Error(), true)
		return
	}
	s.carryOut(w, r, action, "tenant "+t.Name(), cmp.Or(path, tenantsPath(t.Name())), func(ctx context.Context) result {
		return do(ctx, t)
	})
}
