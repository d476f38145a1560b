package view

import (
	"context"

	"orgops/internal/intake"
	"orgops/internal/ledger"
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

// Retryable returns how many rows [Run.Retry] would submit now.
func (r Run) Retryable(ctx context.Context, o intake.RetryOptions) (int64, error) {
	return r.view.store.cfg.Intake.Retryable(ctx, r.Run, o)
}

// Retry submits failed rows of the run again: see [intake.Intake.Retry]. All of them are of
// organizations of the user, or the run would not be theirs.
func (r Run) Retry(ctx context.Context, o intake.RetryOptions, s Submission) (intake.Submitted, error) {
	return r.view.intake(s).Retry(ctx, r.Run, o)
}
