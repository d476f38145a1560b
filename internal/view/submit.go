package view

import (
	"context"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Submission has the parts of a submission that a server adds, and a user's reason. The functions
// are those of an [intake.Intake]; nil: there is none.
type Submission struct {
	Reason    string
	Admit     func(ctx context.Context, run ledger.RunID, rows int64) error
	Same      func(ledger.Run) error
	Committed func()
}

// intake returns an intake in the name of the user.
func (v View) intake(s Submission) intake.Intake {
	in := v.store.cfg.Intake
	in.By = v.author(s.Reason)
	in.Admit = s.Admit
	in.Same = s.Same
	in.Committed = s.Committed
	return in
}

// Submit submits rows to the tenant, as a run of the user: see [intake.Intake.Submit]. Rows of
// organizations that are not the user's are bad.
func (t Tenant) Submit(ctx context.Context, in intake.Input, n ledger.NewRun, s Submission) (intake.Submitted, error) {
	in.Organizations = t.view.ofOrganization
	n.Tenant = ledger.Tenant(t.name)
	n.Caller = t.view.user.Name
	return t.view.intake(s).Submit(ctx, in, n)
}

// Plan returns the estimate of a submission to the tenant, which changes nothing.
func (t Tenant) Plan(ctx context.Context, in intake.Input) (intake.Plan, error) {
	settings, _, err := t.Announced(ctx)
	if err != nil {
		return intake.Plan{}, err
	}
	in.Organizations = t.view.ofOrganization
	in.Named = t.view.store.cfg.Intake.Named(ctx, ledger.Tenant(t.name))
	return in.Plan(settings.MaxClientsPerRequest)
}

// ListClient submits the run that lists the organizations of the tenant that have a client: see
// [intake.Intake.BeginList]. It removes nothing.
func (t Tenant) ListClient(ctx context.Context, client string) (ledger.Run, error) {
	id := intake.ListID(ledger.RunID(tasks.NewRunID(time.Now())))
	run, _, err := t.view.intake(Submission{}).BeginList(ctx, client, ledger.NewRun{ID: id, Tenant: ledger.Tenant(t.name)})
	return run, err
}

// RemoveEverywhere submits the removal of a client from the organizations that the run lists, if
// counted is their number: see [intake.Intake.BeginEverywhere]. created is false if that was done
// before.
func (r Run) RemoveEverywhere(ctx context.Context, counted int64, reason string) (removal ledger.Run, created bool,
	err error) {
	in := r.view.intake(Submission{Reason: reason})
	return in.BeginEverywhere(ctx, r.Run, counted, ledger.NewRun{ID: intake.RemovalID(r.ID)})
}

// Retryable returns how many rows [Run.Retry] would submit now.
func (r Run) Retryable(ctx context.Context, o intake.RetryOptions) (int64, error) {
	return r.view.store.cfg.Intake.Retryable(ctx, r.Run, o)
}

// Retry submits failed rows of the run again: see [intake.Intake.Retry]. All of them are of
// organizations of the user, or the run would not be theirs.
func (r Run) Retry(ctx context.Context, o intake.RetryOptions, s Submission) (intake.Submitted, error) {
	return r.view.intake(s).Retry(ctx, r.Run, o)
}
