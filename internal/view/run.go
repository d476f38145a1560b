package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/internal/status"
)

// Run is a run of the user.
type Run struct {
	ledger.Run

	view View
}

// In returns its tenant.
func (r Run) In() Tenant { return Tenant{r.view, string(r.Tenant)} }

// Run returns the user's run of that id, of the tenant, or of whatever tenant if none is named. The
// error is a [NotFoundError], of the tenant if that does not exist for the user, or, if the user
// has such a run in several tenants, a [ledger.AmbiguousError] with these.
func (v View) Run(ctx context.Context, tenant, id string) (Run, error) {
	if ids.CheckRun(id) != nil || (tenant != "" && ids.CheckTenant(tenant) != nil) {
		return Run{}, missing(nil, false, "run", id)
	}
	if tenant != "" {
		if _, err := v.Tenant(tenant); err != nil {
			return Run{}, err
		}
	}
	run, err := v.ledger.Get(ctx, ledger.Tenant(tenant), ledger.RunID(id))

	// Of several tenants those of the user count.
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); ok {
		return v.oneOf(ctx, several)
	}

	mine := false
	if err == nil {
		mine, err = v.ofRun(ctx, run)
	}
	if errors.Is(err, ledger.ErrNotFound) && tenant != "" {
		if err := v.noTenant(status.CheckExists(ctx, v.redis, tenant)); err != nil {
			return Run{}, err
		}
	}
	if err := missing(err, mine, "run", id); err != nil {
		return Run{}, err
	}
	return Run{run, v}, nil
}

// oneOf returns the user's run among those of an id.
func (v View) oneOf(ctx context.Context, several *ledger.AmbiguousError) (Run, error) {
	var last Run
	var tenants []ledger.Tenant
	for _, t := range several.Tenants {
		run, err := v.Run(ctx, string(t), string(several.Run))
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return Run{}, err
		}
		last = run
		tenants = append(tenants, t)
	}
	switch len(tenants) {
	case 0:
		return Run{}, missing(nil, false, "run", string(several.Run))
	case 1:
		return last, nil
	}
	return Run{}, &ledger.AmbiguousError{Run: several.Run, Tenants: tenants}
}

// own returns those of the runs that are the user's.
func (v View) own(ctx context.Context, runs []ledger.Run) (own []Run, err error) {
	for _, run := range runs {
		mine, err := v.ofRun(ctx, run)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) { // deleted meanwhile
			return nil, err
		}
		if mine {
			own = append(own, Run{run, v})
		}
	}
	return own, nil
}

// Runs returns a page of the user's runs that a filter selects, open ones first: see
// [status.RunFilter.List].
func (v View) Runs(ctx context.Context, f status.RunFilter, after ledger.Place,
	limit int) (runs []Run, left bool, next ledger.Place, err error) {
	f.May = v.ofTenant
	all, left, next, err := f.List(ctx, v.ledger, after, limit)
	if err != nil {
		return nil, false, next, err
	}
	runs, err = v.own(ctx, all)
	return runs, left, next, err
}

// Submitted returns a page of the runs that the user has submitted and that a filter selects, the
// newest first. Of the page those are left out that are not theirs any more. A tenant of the filter
// that does not exist for the user is a [NotFoundError].
func (v View) Submitted(ctx context.Context, f status.RunFilter, after ledger.Place,
	limit int) (runs []Run, next ledger.Place, err error) {
	if f.Tenant != "" {
		if _, err := v.Tenant(f.Tenant); err != nil {
			return nil, next, err
		}
	}
	f.May = v.ofTenant
	f.Caller = v.user.Name
	if f.State == "attention" {
		if err := f.ReadHeld(ctx, v.redis); err != nil {
			return nil, next, err
		}
	}
	q := f.Query(after, limit)
	q.MaxRead = 0 // no page is short
	page, next, err := v.ledger.Page(ctx, q)
	if err != nil {
		return nil, next, err
	}
	runs, err = v.own(ctx, page)
	if err == nil && len(runs) == 0 && f.Tenant != "" {
		err = v.noTenant(status.CheckExists(ctx, v.redis, f.Tenant))
	}
	return runs, next, err
}

// EachRun calls do for the user's newest runs.
func (v View) EachRun(ctx context.Context, do func(ledger.Run)) error {
	var failed error
	q := status.RunFilter{May: v.ofTenant}.Query(ledger.Place{}, 0)
	q.Match = func(r ledger.Run) bool {
		mine, err := v.ofRun(ctx, r)
		if err != nil && failed == nil {
			failed = err
		}
		if mine {
			do(r)
		}
		return false // all are read
	}
	if _, _, err := v.ledger.Page(ctx, q); err != nil {
		return err
	}
	return failed
}

// Estimate returns the estimates of runs.
func (v View) Estimate(ctx context.Context, runs ...Run) []status.Estimate {
	return v.store.estimator.Estimate(ctx, time.Now(), facts(runs))
}

// Describe describes the runs of a list: see [status.Describe].
func (v View) Describe(ctx context.Context, runs []Run, ahead []status.Estimate) ([]status.Run, error) {
	return status.Describe(ctx, v.redis, facts(runs), ahead)
}

func facts(runs []Run) []ledger.Run {
	all := make([]ledger.Run, len(runs))
	for i, r := range runs {
		all[i] = r.Run
	}
	return all
}

// Details returns the run with the members for readers and operators: see [status.DetailsOf].
func (r Run) Details(ctx context.Context, sample int) (status.RunDetails, error) {
	return status.DetailsOf(ctx, r.view.redis, r.view.ledger, r.Run, sample)
}

// FailedByReason counts its failed rows by reason; nil: none has failed.
func (r Run) FailedByReason(ctx context.Context) (*status.FailedReasons, error) {
	return status.FailedByReason(ctx, r.view.redis, r.view.ledger, r.Run)
}

// RowsPage returns a page of its rows: see [status.RowsPage].
func (r Run) RowsPage(ctx context.Context, q status.RowsQuery) (page []status.Row, next int64, err error) {
	page, next, err = status.RowsPage(ctx, r.view.ledger, r.Run, q)
	if err == nil {
		err = status.ReadRevoked(ctx, r.view.redis, r.Run, page)
	}
	return page, next, err
}

// FoundFailed returns the numbers of its failed rows that a query selects: see
// [status.FoundFailed].
func (r Run) FoundFailed(ctx context.Context, q status.RowsQuery) (items []int64, cut bool, err error) {
	return status.FoundFailed(ctx, r.view.ledger, r.Run, q)
}

// ExportFailed writes its failed rows: see [results.ExportFailed].
func (r Run) ExportFailed(ctx context.Context, o results.FailedOptions, out io.Writer) error {
	o.Revoked = status.RevokedBy(r.view.redis, r.Tenant)
	_, err := results.ExportFailed(ctx, r.view.ledger, r.Run, o, out)
	return err
}

// Submitter returns who has submitted it: see [status.SubmitterOf].
func (r Run) Submitter(ctx context.Context) (string, error) {
	return status.SubmitterOf(ctx, r.view.redis, r.Run)
}

// ExportResults writes its rows: see [results.Export].
func (r Run) ExportResults(ctx context.Context, o results.Options, out io.Writer) error {
	o.Revoked = status.RevokedBy(r.view.redis, r.Tenant)
	_, err := results.Export(ctx, r.view.ledger, r.Run, o, out)
	return err
}

// Pause pauses it, and returns the effect in words.
func (r Run) Pause(ctx context.Context, reason string) (effect string, err error) {
	return actions.Pause(ctx, r.view.author(reason), r.view.ledger, r.Run)
}

// Resume resumes it, and returns the effect in words.
func (r Run) Resume(ctx context.Context, reason string) (effect string, err error) {
	return actions.Resume(ctx, r.view.author(reason), r.view.ledger, r.Run)
}

// Cancel cancels it, and returns the effect in words.
func (r Run) Cancel(ctx context.Context, reason string) (effect string, err error) {
	return actions.Cancel(ctx, r.view.author(reason), r.view.ledger, r.Run)
}

// CheckRows has its open rows of those numbers checked now, and returns how many are: see
// [actions.CheckRows].
func (r Run) CheckRows(ctx context.Context, items []int64) (checked int, err error) {
	checked, err = actions.CheckRows(ctx, r.view.ledger, r.Run, items)
	if checked > 0 {
		r.view.author("").Record(ctx, activity.OfRun(r.Tenant, r.ID, activity.Checked, fmt.Sprintf("rows: %d", checked)))
	}
	return checked, err
}
