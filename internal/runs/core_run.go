package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/internal/ledger"
)

const (
	// fewSegments is the largest number of segments of an open run whose counts are read
	// for a list; a larger run's are a minute old at most.
	fewSegments = 16
	// coreParallel is how many runs, or tenants, of the core are read at a time.
	coreParallel = 8
)

// FromCore returns a run of the core, with counts, as the readers of this package know
// runs.
func FromCore(r ledger.Run, counts ledger.Counts) Run {
	run := Run{
		Core: true, ID: string(r.ID), Kind: string(r.Kind), Tenant: string(r.Tenant),
		Label: quote(r.Description.Label, maxLabel), Digest: r.Description.Digest, Format: r.Description.Format,
		Parent: string(r.Description.Parent), Caller: quote(r.Description.Caller, maxLabel), Columns: r.Description.Columns,
		Sealed: !r.Staged() && !r.Growing, Stored: r.Rows, Settled: counts.Settled(), Counts: map[string]int64{},
		CreatedAt: r.CreatedAt, CancelledAt: r.CancelledAt, EndedAt: r.EndedAt,
		GiveUp: r.Description.GiveUp, KeepFor: r.Description.KeepFor, Priority: r.Description.Priority,
	}
	if run.Sealed {
		run.Total = r.Rows
	}
	if c := r.Control; !c.Cancelled { // else nothing is left to stop
		run.Paused, run.Held, run.Incomplete, run.NotBefore = c.Paused, c.Held, c.Incomplete, c.NotBefore
	}
	if r.Reserved > 0 {
		run.StoredAt = r.StagedAt
	}
	if r.Scan != nil {
		run.Walk = &Walk{Step: r.Scan.Step, Told: r.Scan.Progress, Note: r.Scan.Note, Next: r.Scan.NextAt}
	}
	for _, child := range r.Children {
		run.Children = append(run.Children, string(child))
	}
	for outcome, n := range counts {
		if n != 0 {
			run.Counts[string(outcome)] = n
		}
	}
	return run
}

// coreCounts returns the exact counts of a run.
func (l *Ledger) coreCounts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if run.Ended() && run.Counts.Settled() == run.Rows {
		return run.Counts, nil // the header's were summed after the end
	}
	counts, err := l.core.Counts(ctx, run)
	if err != nil {
		return nil, err
	}
	if lost := run.Rows - counts.Settled(); run.Ended() && lost > 0 {
		counts[ledger.Lost] += lost // the segments of these rows are missing
	}
	return counts, nil
}

// listCounts returns the counts of a run for a list.
func (l *Ledger) listCounts(ctx context.Context, run ledger.Run) (ledger.Counts, error) {
	if !run.Ended() && run.Segments > fewSegments {
		return run.Counts, nil
	}
	return l.coreCounts(ctx, run)
}

// getCore returns a run of the core with exact counts.
func (l *Ledger) getCore(ctx context.Context, run ledger.Run) (Run, error) {
	counts, err := l.coreCounts(ctx, run)
	if err != nil {
		return Run{}, err
	}
	return FromCore(run, counts), nil
}

// fromCore returns runs of the core for a list, in their order.
func (l *Ledger) fromCore(ctx context.Context, core []ledger.Run) ([]Run, error) {
	all := make([]Run, len(core))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(coreParallel)
	for i, run := range core {
		g.Go(func() error {
			counts, err := l.listCounts(ctx, run)
			all[i] = FromCore(run, counts)
			return err
		})
	}
	return all, g.Wait()
}

// listCore returns all runs of the core.
func (l *Ledger) listCore(ctx context.Context) ([]Run, error) {
	core, err := l.eachTenant(ctx, l.core.Runs)
	if err != nil {
		return nil, err
	}
	return l.fromCore(ctx, core)
}

// openCore returns the runs of the core that have not ended.
func (l *Ledger) openCore(ctx context.Context) ([]ledger.Run, error) {
	open, err := l.eachTenant(ctx, l.core.OpenRuns)
	return slices.DeleteFunc(open, ledger.Run.Ended), err
}

// eachTenant returns the runs that list returns of the tenants of the core.
func (l *Ledger) eachTenant(ctx context.Context, list func(context.Context, ledger.Tenant) ([]ledger.Run, error)) ([]ledger.Run, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]ledger.Run, len(tenants))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(coreParallel)
	for i, t := range tenants {
		g.Go(func() (err error) {
			lists[i], err = list(ctx, t)
			return err
		})
	}
	err = g.Wait()
	return slices.Concat(lists...), err
}

// addOpenCore adds the open runs of the core to those of the old ledger.
func (l *Ledger) addOpenCore(ctx context.Context, open map[string]Open) error {
	core, err := l.openCore(ctx)
	if err != nil {
		return err
	}
	core = slices.DeleteFunc(core, func(r ledger.Run) bool { return r.Kind == checksBetween })
	core, rows := splitRows(core)
	for _, r := range rows { // that have not ended: they are open
		o := open[string(r.Tenant)]
		o.Runs++
		o.Rows += r.Rows
		open[string(r.Tenant)] = o
	}
	all, err := l.fromCore(ctx, core)
	if err != nil {
		return err
	}
	for _, r := range all {
		o := open[r.Tenant]
		o.Runs++
		o.Rows += max(0, r.Stored-r.Settled)
		open[r.Tenant] = o
	}
	return nil
}

// checksBetween is the kind of the checks between two sweeps. A run of these is open in every
// hour while a domain is watched, and is no backlog.
const checksBetween = "domain:relook"

// splitRows divides runs into those of many rows, and single rows.
func splitRows(all []ledger.Run) (others, rows []ledger.Run) {
	for _, r := range all {
		if r.Description.Single && r.Rows <= 1 {
			rows = append(rows, r)
		} else {
			others = append(others, r)
		}
	}
	return others, rows
}

// unsettledCore returns the ids of the runs of the core that have not ended and wait for
// no producer.
func (l *Ledger) unsettledCore(ctx context.Context) ([]string, error) {
	open, err := l.openCore(ctx)
	var ids []string
	for _, run := range open {
		if !run.Staged() {
			ids = append(ids, string(run.ID))
		}
	}
	return ids, err
}

// coreIDs returns the ids of all runs of the core, also of single rows.
func (l *Ledger) coreIDs(ctx context.Context) ([]string, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	lists, err := l.core.Entries(ctx, time.Time{}, 0, tenants...)
	if err != nil {
		return nil, err
	}
	for _, t := range tenants {
		singles, err := l.core.Singles(ctx, t)
		if err != nil {
			return nil, err
		}
		lists = append(lists, singles)
	}
	var ids []string
	for _, e := range slices.Concat(lists...) {
		ids = append(ids, string(e.Run))
	}
	return ids, nil
}

// pauseCore pauses a run of the core.
func (l *Ledger) pauseCore(ctx context.Context, run ledger.Run) error {
	if run.Control.Cancelled {
		return ErrEnded
	}
	return l.core.Pause(ctx, run.ID)
}

// resumeCore resumes a run of the core, whose dispatcher does the rest.
func (l *Ledger) resumeCore(ctx context.Context, run ledger.Run) error {
	if run.Control.Cancelled && !run.Ended() {
		return nil
	}
	return l.core.Resume(ctx, run.ID)
}

// cancelCore cancels a run of the core and returns how many rows that settled. A staged
// run ends without rows. It is not deleted, so that its producer does not create it again.
func (l *Ledger) cancelCore(ctx context.Context, run ledger.Run) (rows int64, err error) {
	if run.Staged() {
		if run, err = l.core.CommitPart(ctx, run, nil); err != nil { // harmless if it was committed meanwhile
			return 0, err
		}
	}
	before, err := l.coreCounts(ctx, run)
	if err != nil {
		return 0, err
	}
	if err := l.core.Cancel(ctx, run.ID); err != nil {
		if errors.Is(err, ledger.ErrEnded) {
			return 0, nil
		}
		return 0, err
	}
	after, err := l.core.Counts(ctx, run)
	return after[ledger.Cancelled] - before[ledger.Cancelled], err
}

// deleteCore deletes a run of the core, also a staged one.
func (l *Ledger) deleteCore(ctx context.Context, run ledger.Run) error {
	if err := l.core.Delete(ctx, run.ID); err != nil {
		return err
	}
	if run.Description.Parent == "" {
		return nil
	}
	return l.disown(ctx, string(run.Description.Parent), string(run.ID))
}

// adoptInCore is [Ledger.Adopt] for a parent in the core.
func (l *Ledger) adoptInCore(ctx context.Context, parent Run, child string) error {
	run, err := l.core.Get(ctx, ledger.RunID(parent.ID))
	if err != nil {
		return err
	}
	if !slices.Equal(FromCore(run, nil).Children, parent.Children) {
		return ErrRaced
	}
	return l.core.Adopt(ctx, run, ledger.RunID(child))
}
