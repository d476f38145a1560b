package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// group identifies runs of one row whose rows share tasks.
type group struct {
	kind ledger.Kind
	name string
}

// group returns the group of a run; ok is false if its row shares no task.
func (d *Dispatcher) group(r *run) (g group, ok bool) {
	g = group{r.Kind, r.Group}
	return g, g.name != "" && r.Rows == 1 && d.cfg.Kinds[r.Kind].Batch > 1
}

// together returns the runs whose rows may be released in one task with that of r, the
// oldest first; nil if r has no group. A probe of a blocked operation is of one run.
func (d *Dispatcher) together(r *run, now time.Time) (all []*run) {
	g, ok := d.group(r)
	if !ok {
		return nil
	}
	for _, other := range d.taken.ordered() {
		if of, ok := d.group(other); ok && of == g {
			if limit, _ := d.limit(other, now); limit != 0 {
				all = append(all, other)
			}
		}
	}
	return all
}

// serveTogether releases rows of runs of one group in up to n tasks, and returns the number
// of tasks.
func (d *Dispatcher) serveTogether(ctx context.Context, all []*run, n int, now time.Time) (tasks int, err error) {
	kind := d.cfg.Kinds[all[0].Kind]
	for batch := range slices.Chunk(all, kind.Batch) {
		if tasks >= n || d.permits.Rows(1, kind.Cost.First) == 0 {
			break
		}
		some, err := d.releaseTogether(ctx, batch, now)
		tasks += some
		if err != nil {
			return tasks, err
		}
	}
	return tasks, nil
}

// released is a released row of a run of one row.
type released struct {
	run *run
	seg ledger.Segment
	ledger.Release
}

// releaseTogether releases the rows of the runs, and enqueues one task for all of them. It
// returns 1, or 0 if no row was due.
func (d *Dispatcher) releaseTogether(ctx context.Context, batch []*run, now time.Time) (tasks int, err error) {
	var all []released
	for _, r := range batch {
		var some []released
		some, err = d.releaseOne(ctx, r, now)
		all = append(all, some...)
		if err != nil {
			break // rows that were released before are enqueued
		}
	}
	if len(all) > 0 {
		failed := d.enqueueTogether(ctx, all)
		if failed == nil {
			tasks = 1
			d.permits.Spend(tasks, d.cfg.Kinds[batch[0].Kind].Cost.First)
			d.window.Released(tasks)
		}
		err = errors.Join(err, failed)
	}
	for _, r := range batch {
		for _, s := range slices.Clone(r.segments) {
			d.put(s, now)
		}
	}
	return tasks, err
}

// releaseOne releases the row of a run, whatever its sort.
func (d *Dispatcher) releaseOne(ctx context.Context, r *run, now time.Time) (all []released, err error) {
	for _, s := range r.segments {
		release, err := d.releaseFrom(ctx, s, ledger.Quota{First: 1, Check: 1, Ready: 1}, now)
		if err != nil {
			return all, err
		}
		if release.Rows, err = d.readable(ctx, s.id, release.Rows); err != nil {
			return all, err
		}
		if len(release.Rows) > 0 {
			r.servedAt = now
			all = append(all, released{r, s.id, release})
		}
	}
	return all, nil
}

// enqueueTogether enqueues a task for all of the rows, or gives them back.
func (d *Dispatcher) enqueueTogether(ctx context.Context, all []released) error {
	task := engine.NewTask(all[0].run.Run, all[0].seg, all[0].Token, all[0].Rows...)
	for _, one := range all[1:] {
		task.Add(engine.NewTask(one.run.Run, one.seg, one.Token, one.Rows...))
	}
	err := d.queue.Enqueue(ctx, task)
	if err == nil {
		d.cfg.Enqueued()
		return nil
	}
	for _, one := range all {
		err = errors.Join(err, d.giveBack(ctx, one.seg, one.Token, one.Rows[0].Row))
	}
	return err
}
