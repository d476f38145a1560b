package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orgops/internal/activity"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Status is how far a row is.
type Status struct {
	// Outcome is the row's outcome, such as done or expired: docs/reference/outcomes.md lists them
	// all. Empty: the row is open.
	Outcome string
	// Succeeded reports whether the outcome is a success.
	Succeeded bool
	// Reason says why the row has this outcome, or why it is open. It may quote DNS and the API, with
	// characters escaped that are not printable.
	Reason string
	// NextCheck is when an open row is checked again; zero: that is not known.
	NextCheck time.Time
}

// Status returns the status of the row that was submitted under that id; tenant is empty for
// the default. The error is [ErrNotFound] if there is none, or no longer.
func (p *Producer) Status(ctx context.Context, tenant, id string) (Status, error) {
	run, err := p.single(ctx, tenant, id)
	if err != nil {
		return Status{}, err
	}
	for row, err := range p.ledger.Each(ctx, run, ledger.Every, 0) {
		switch {
		case err != nil:
			return Status{}, fmt.Errorf("status of row %s: %w", id, err)
		case row.Result.Outcome != "":
			return Status{string(row.Result.Outcome), ledger.Succeeded(row.Result.Outcome), row.Result.Detail, time.Time{}}, nil
		case run.Paused:
			return Status{Reason: "paused"}, nil
		}
		open := evidence.ReadOpen(run.Kind, row)
		return Status{Reason: cmp.Or(open.Reason, "waiting for a worker"), NextCheck: open.Next}, nil
	}
	return Status{}, fmt.Errorf("row %s: %w", id, ErrNotFound) // it was deleted meanwhile
}

// Cancel ends the row unless it has ended. A request of it that is under way is finished, and the
// row has the outcome of that. The tenant's list of activity has by as the author, such as the name
// of the service. The error is [ErrNotFound] if there is no such row.
func (p *Producer) Cancel(ctx context.Context, tenant, id, by string) error {
	run, err := p.single(ctx, tenant, id)
	if err != nil {
		return err
	}
	switch err := p.ledger.Cancel(ctx, run.Tenant, run.ID); {
	case errors.Is(err, ledger.ErrEnded):
		return nil
	case err != nil:
		return fmt.Errorf("cancel row %s: %w", id, err)
	}
	author := activity.Author{Redis: p.redis, Logger: slog.Default(), Name: by, Claimed: true}
	author.Record(ctx, activity.OfRun(run.Tenant, run.ID, activity.Cancelled, ""))
	return nil
}

// single returns the run of a row. For a run of many rows the error is [ErrNotFound].
func (p *Producer) single(ctx context.Context, tenant, id string) (ledger.Run, error) {
	run, err := p.ledger.Get(ctx, ledger.Tenant(cmp.Or(tenant, tasks.DefaultTenant)), ledger.RunID(id))
	if err == nil && !run.Single {
		err = ErrNotFound
	}
	if err != nil {
		return run, fmt.Errorf("row %s: %w", id, err)
	}
	return run, nil
}
