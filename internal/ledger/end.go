package ledger

import "context"

// Finish stores that the follow-ups of a run's end, such as notifications, are done. The
// dispatcher calls it after them. Until then [Ledger.OpenRuns] returns the run, so that
// another dispatcher repeats follow-ups that were interrupted. The error is [ErrOpen] if
// the run has not ended.
func (l *Ledger) Finish(ctx context.Context, id RunID) (err error) {
	defer wrap(&err, "run %s: finish", id)
	p, err := l.sync(ctx, id) // stores the final counts
	if err != nil {
		return err
	}
	_, err = l.onHeader(ctx, finishScript, p.Run)
	return err
}

// retain takes a run that was finished a while ago out of the open runs of its tenant, and
// starts its retention. First it syncs the run once more: a node of Redis may have lost
// how rows were settled, or the end, and then the run is open again.
func (l *Ledger) retain(ctx context.Context, id RunID) error {
	p, err := l.sync(ctx, id)
	if err != nil || p.Run.FinishedAt.IsZero() {
		return err
	}
	return l.startRetention(ctx, p.Run)
}

// startRetention takes a run out of the open runs of its tenant. It is deleted after its
// retention.
func (l *Ledger) startRetention(ctx context.Context, run Run) error {
	_, err := l.onTenant(ctx, tenantFinishScript, run.Tenant, run.entry(), run.retention().Milliseconds())
	return err
}
