package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/queues"
	"orgops/internal/release"
)

// release releases due rows of the segments in memory, as many as the window allows. It returns the
// number of tasks enqueued, and whether rows wait for a reason that may end within a fraction of a
// second.
func (d *Dispatcher) release(ctx context.Context, now time.Time) (tasks int, soon bool, err error) {
	start := time.Now()
	defer func() { d.took = time.Since(start) }()
	load, err := queues.ReadLoad(ctx, d.cfg.Redis, d.cfg.Queue)
	if err != nil {
		return 0, false, err
	}
	if err := d.refresh(ctx, now, load); err != nil {
		return 0, false, err
	}
	d.window.Took(d.took, load.Pending+load.Active)
	d.window.Observe(now, load.Pending)
	d.permits.Refill(now, d.cfg.Rate())
	round := Round{Now: now, Tenant: obstacle.State{Pace: d.pace}, Probed: d.probed, Line: d.cfg.Ahead()}
	if load.Paused {
		round.Tenant.Queue = &obstacle.Queue{Since: load.PausedSince}
	}
	free := d.window.Free(d.places(load), load.Pending, load.Active)

	// A plan grants tasks for rows that may be due. What a stage does not use, since fewer are, is
	// shared again: a release without rows ends its part in the round.
	for {
		round.Tasks = free - tasks
		round.Permits = d.permits
		round.Turn = d.turn
		round.Runs = d.candidates(now)
		plan := round.Plan()
		if len(plan.Grants) == 0 {
			soon = slices.ContainsFunc(plan.Waits, func(w Wait) bool { return w.Reason.brief() })
			return tasks, soon, nil
		}
		d.turn = plan.Turn
		for _, g := range plan.Grants {
			n, err := d.serve(ctx, g, now)
			tasks += n
			if err != nil {
				return tasks, false, err
			}
		}
	}
}

// stateEvery is how often the pace is read, and trialStateEvery the same while one row tries after
// a pause: all others wait for it.
const (
	stateEvery      = time.Second
	trialStateEvery = 100 * time.Millisecond
)

// refresh reads the state of the pace.
func (d *Dispatcher) refresh(ctx context.Context, now time.Time, load queues.Load) (err error) {
	every := stateEvery
	if len(d.pace.Trials) > 0 {
		every = trialStateEvery
	}
	if d.cfg.Pace == nil || now.Sub(d.stateAt) < every {
		return nil
	}
	if d.pace, err = d.cfg.Pace(ctx); err != nil {
		return err
	}
	burst := d.pace.Available
	if load.Pending+load.Active > 0 {
		burst = 0 // the outstanding work takes it
	}
	d.permits.Burst(float64(burst))
	d.stateAt = now
	return nil
}

// places returns how many tasks the workers of the tenant may have: the number in progress and
// the places of one more worker. The next worker begins to serve when it finds more tasks than
// the former ones execute, and released rows must not lapse until then.
func (d *Dispatcher) places(load queues.Load) int {
	return min(d.cfg.Places*d.cfg.Place().Workers, load.Active+d.cfg.Places)
}

// candidates returns the runs that may have due rows. Of those whose rows may share a task it
// returns one: the one that was probed the longest ago.
func (d *Dispatcher) candidates(now time.Time) (all []Candidate) {
	known := map[group]int{} // index of the group's candidate
	for _, r := range d.taken.ordered() {
		due := r.due(now)
		if due == (release.ByStage[bool]{}) {
			continue
		}
		c := Candidate{Run: r.ID, Class: ledger.ClassOf(r.Run), Kind: d.cfg.Kinds[r.Kind], Due: due,
			ServedAt: r.servedAt, ProbedAt: r.probedAt}
		g, grouped := d.group(r)
		if !grouped {
			all = append(all, c)
			continue
		}
		c.Due = release.ByStage[bool]{First: true} // see serveTogether
		i, found := known[g]
		if !found {
			known[g] = len(all)
			all = append(all, c)
			continue
		}
		if c.ProbedAt.Before(all[i].ProbedAt) {
			c.ServedAt = all[i].ServedAt
			all[i] = c
		}
	}
	return all
}

// serve releases rows of a run for its grant, and returns the number of tasks.
func (d *Dispatcher) serve(ctx context.Context, g Grant, now time.Time) (tasks int, err error) {
	r := d.taken[g.Run]
	if r == nil { // a grant of this plan for another stage has found that nothing is due
		return 0, nil
	}
	if _, grouped := d.group(r); grouped {
		tasks, err = d.serveTogether(ctx, r, g, now)
	} else {
		tasks, err = d.serveAlone(ctx, r, g, now)
	}
	if tasks > 0 && len(g.Probes) > 0 {
		r.probedAt = now
		for _, p := range g.Probes {
			d.probed[p] = now
		}
	}
	return tasks, err
}

// serveAlone releases rows of a run, of one segment after the other.
func (d *Dispatcher) serveAlone(ctx context.Context, r *run, g Grant, now time.Time) (tasks int, err error) {
	for _, s := range slices.Clone(r.segments) {
		if tasks >= g.Tasks {
			break
		}
		if now.Before(s.until[g.Stage]) {
			continue
		}
		some, err := d.releaseStage(ctx, r, s, g.Stage, g.Tasks-tasks, now)
		tasks += some
		if err != nil {
			return tasks, err
		}
		d.put(s, now)
	}
	if tasks > 0 {
		r.servedAt = now
	}
	return tasks, nil
}

// releaseMost is how many rows of a stage one call of [ledger.Ledger.Release] releases.
const releaseMost = 250

// releaseStage releases rows of one stage for up to n tasks. Of a kind with groups, rows that
// waited may have less in common than a batch holds, and make up to releaseMost tasks.
func (d *Dispatcher) releaseStage(ctx context.Context, r *run, s *segment, stage release.Stage, n int,
	now time.Time) (tasks int, err error) {
	kind := d.cfg.Kinds[r.Kind]
	batch := max(kind.Batch, 1)
	quota := quotaOf(stage, min(n*batch, releaseMost-releaseMost%batch)) // whole batches
	if kind.Group != nil {
		quota.Pieces = n
		quota.PieceRows = batch
	}
	due, err := d.releaseFrom(ctx, s, quota, now)
	if err != nil {
		return 0, err
	}
	if len(due.Rows) == 0 { // also if the run is stopped
		s.until[stage] = now.Add(emptyFor(d.taken.segments()))
	}
	var all [][]released
	for _, rows := range batches(kind, due.Rows) {
		all = append(all, []released{{r.Run, s.id, due.Token, rows}})
	}
	return d.enqueue(ctx, kind.Cost.Of(stage), all...)
}

// releaseFrom releases rows of a segment that can be read, and learns its due time and counts. It
// releases none of one that does not exist any more, and of which nothing is due then, and none
// while a Cluster moves the segment's slot: until that is finished, which an interrupted
// redis-cli leaves undone, each script fails. One that its script cannot read steps aside, until
// the index returns it again, and stops no other run.
func (d *Dispatcher) releaseFrom(ctx context.Context, s *segment, q ledger.Quota,
	now time.Time) (ledger.Release, error) {
	due, err := d.cfg.Ledger.Release(ctx, s.id, q)
	if redis.IsTryAgainError(err) {
		d.cfg.Logger.WarnContext(ctx, "rows wait: a slot of the Cluster is being moved", "tenant", d.cfg.Tenant, "run",
			s.id.Run, "segment", s.id.Number, "error", err)
		due = ledger.Release{Receipt: ledger.Receipt{Due: ledger.DueNow}} // put keeps it in memory
		err = nil
	}
	if errors.Is(err, ledger.ErrDamaged) {
		d.stuck(ctx, s.id.OfRun(), fmt.Sprintf("segment %d of its rows is damaged in Redis: restore Redis from a backup, or cancel "+
			"the run and submit its rows that have no result again", s.id.Number), err)
		due = ledger.Release{Receipt: ledger.Receipt{Due: ledger.DueNow}}
		err = nil
	}
	if errors.Is(err, ledger.ErrNotFound) { // the whole run has usually been deleted: then nothing is noted
		d.stuck(ctx, s.id.OfRun(), fmt.Sprintf("segment %d of its rows is missing in Redis: restore Redis from a backup, or cancel "+
			"the run and submit its rows that have no result again", s.id.Number), err)
		err = nil
	}
	if err != nil {
		return due, err
	}
	s.learn(due, now.Add(emptyFor(d.taken.segments())))
	due.Rows, err = d.readable(ctx, s.id, due.Rows)
	return due, err
}

// stuck notes that a run makes no progress for a reason that a person has to remove, and logs it.
func (d *Dispatcher) stuck(ctx context.Context, run ledger.Run, why string, cause error) {
	err := d.cfg.Ledger.NoteStuck(ctx, run, why)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrEnded) { // it was deleted or finished meanwhile
		return
	}
	d.cfg.Logger.WarnContext(ctx, "run makes no progress", "tenant", d.cfg.Tenant, "run", run.ID, "reason", why, "error",
		errors.Join(cause, err))
}

// put drops a segment of which nothing is due now: the index has when something is.
func (d *Dispatcher) put(s *segment, now time.Time) {
	if s.idle(now) && !s.due.Equal(ledger.DueNow) {
		d.taken.drop(s.id)
	}
}

// released are released rows of a segment.
type released struct {
	run   ledger.Run
	seg   ledger.Segment
	token ledger.Token
	rows  []ledger.ReleasedRow
}

// enqueuers is how many tasks are enqueued at a time, to hide round trips.
const enqueuers = 16

// enqueue enqueues tasks of these parts, which cost so many permits each, and returns their number.
// It gives back the rows of tasks that were not enqueued. A task that was enqueued all the same
// finds its rows with another token.
func (d *Dispatcher) enqueue(ctx context.Context, cost float64, all ...[]released) (tasks int, err error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(enqueuers)
	for _, parts := range all {
		group.Go(func() error {
			failed := d.enqueueOne(ctx, parts)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				tasks++
			} else {
				err = failed
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	if tasks > 0 {
		d.cfg.Enqueued()
	}
	d.permits.Spend(tasks, cost)
	d.window.Enqueued(tasks)
	return tasks, err
}

// enqueueOne enqueues a task, or gives its rows back.
func (d *Dispatcher) enqueueOne(ctx context.Context, parts []released) error {
	first := parts[0]
	task := engine.NewTask(first.run, first.seg, first.token, first.rows...)
	for _, p := range parts[1:] {
		task.Add(engine.NewTask(p.run, p.seg, p.token, p.rows...))
	}
	err := d.queue.Enqueue(ctx, task)
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFor)
	defer cancel()
	for _, p := range parts {
		var rows []ledger.Row
		for _, row := range p.rows {
			rows = append(rows, row.Row)
		}
		_, failed := d.cfg.Ledger.GiveBack(ctx, p.seg, p.token, rows...)
		err = errors.Join(err, failed)
	}
	return err
}

// batches divides rows into those of one task each, in the order of their first rows.
func batches(k release.Kind, rows []ledger.ReleasedRow) (all [][]ledger.ReleasedRow) {
	if k.Group == nil {
		return slices.Collect(slices.Chunk(rows, max(k.Batch, 1)))
	}
	open := map[string]int{} // group -> index of its last batch
	for _, row := range rows {
		group := k.Group(row.Content)
		i, ok := open[group]
		if !ok || len(all[i]) >= max(k.Batch, 1) {
			i = len(all)
			open[group] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], row)
	}
	return all
}

// readable returns the rows whose content can be read, and settles the others as failed.
func (d *Dispatcher) readable(ctx context.Context, seg ledger.Segment,
	rows []ledger.ReleasedRow) (good []ledger.ReleasedRow, err error) {
	for _, row := range rows {
		if row.Err == nil {
			good = append(good, row)
			continue
		}
		result := ledger.Result{Outcome: ledger.Failed, Detail: fmt.Sprintf("the stored row cannot be read: %v", row.Err)}
		if _, err := d.cfg.Ledger.Dismiss(ctx, seg, result, row.Row); err != nil {
			return nil, err
		}
	}
	return good, nil
}

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

// serveTogether releases rows of the runs of one group for its grant, and returns the number of
// tasks. Each run's row is released at whatever stage it is: its kind needs the same operations at
// each. A probe is of one run.
func (d *Dispatcher) serveTogether(ctx context.Context, of *run, g Grant, now time.Time) (tasks int, err error) {
	all := []*run{of}
	if len(g.Probes) == 0 {
		all = d.together(of, now)
	}
	kind := d.cfg.Kinds[of.Kind]
	for batch := range slices.Chunk(all, kind.Batch) {
		if err != nil || tasks >= g.Tasks {
			break
		}
		var parts []released
		for _, r := range batch {
			if parts, err = d.releaseOne(ctx, r, parts, now); err != nil {
				break // rows that were released before are enqueued
			}
		}
		if len(parts) > 0 {
			some, failed := d.enqueue(ctx, kind.Cost.First, parts)
			tasks += some
			err = errors.Join(err, failed)
		}
		for _, r := range batch {
			for _, s := range slices.Clone(r.segments) {
				d.put(s, now)
			}
		}
	}
	return tasks, err
}

// together returns the runs of the group of r that may have due rows, the oldest first.
func (d *Dispatcher) together(r *run, now time.Time) (all []*run) {
	g, _ := d.group(r)
	for _, other := range d.taken.ordered() {
		of, grouped := d.group(other)
		if grouped && of == g && other.due(now) != (release.ByStage[bool]{}) {
			all = append(all, other)
		}
	}
	return all
}

// releaseOne releases the row of a run, whatever its stage, and adds it to the parts of a task.
func (d *Dispatcher) releaseOne(ctx context.Context, r *run, parts []released, now time.Time) ([]released, error) {
	for _, s := range r.segments {
		due, err := d.releaseFrom(ctx, s, ledger.Quota{First: 1, Check: 1, Ready: 1}, now)
		if err != nil {
			return parts, err
		}
		if len(due.Rows) == 0 { // also if the run is stopped
			s.rest(now.Add(emptyFor(d.taken.segments())))
			continue
		}
		r.servedAt = now
		parts = append(parts, released{r.Run, s.id, due.Token, due.Rows})
	}
	return parts, nil
}
