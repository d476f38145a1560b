package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// release releases rows of the segments in memory, as many as the window allows. It
// returns the number of tasks enqueued.
func (d *Dispatcher) release(ctx context.Context, now time.Time) (tasks int, err error) {
	start := time.Now()
	defer func() { d.took = time.Since(start) }()
	if d.load, err = d.queue.Load(ctx); err != nil {
		return 0, err
	}
	if err := d.refresh(ctx, now); err != nil {
		return 0, err
	}
	d.window.Took(d.took, d.load.Pending+d.load.Active)
	d.window.Observe(now, d.load.Pending)
	d.permits.Refill(now, d.cfg.Rate())
	d.line = d.cfg.Ahead()
	free := d.window.Free(d.places(), d.load.Pending, d.load.Active)
	if d.load.Paused {
		return 0, nil
	}
	// Tasks and permits that a run does not use are shared again among the others.
	unused := map[ledger.RunID]bool{}
	for tasks < free {
		n, granted, err := d.pass(ctx, now, free-tasks, unused)
		tasks += n
		if err != nil || !granted {
			return tasks, err
		}
	}
	return tasks, nil
}

// stateEvery is how often the pace is read, and trialStateEvery the same while one row tries after
// a pause: all others wait for it.
const (
	stateEvery      = time.Second
	trialStateEvery = 100 * time.Millisecond
)

// refresh reads the state of the pace.
func (d *Dispatcher) refresh(ctx context.Context, now time.Time) (err error) {
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
	if d.load.Pending+d.load.Active > 0 {
		burst = 0 // the outstanding work takes it
	}
	d.permits.Burst(float64(burst))
	d.stateAt = now
	return nil
}

// places returns how many tasks the workers of the tenant may have: the number in progress and
// the places of one more worker. The next worker begins to serve when it finds more tasks than
// the former ones execute, and released rows must not lapse until then.
func (d *Dispatcher) places() int {
	return min(d.cfg.Places*d.cfg.Place().Workers, d.load.Active+d.cfg.Places)
}

// pass shares free tasks once among the runs that are not in unused, and returns the number of
// tasks enqueued, and whether a run was granted any. It adds the runs that have used none.
func (d *Dispatcher) pass(ctx context.Context, now time.Time, free int,
	unused map[ledger.RunID]bool) (tasks int, granted bool, err error) {
	d.prober = d.nextProber(now, unused)
	for _, g := range Plan(free, d.permits, d.candidates(now, unused), &d.turn) {
		granted = true
		n, err := d.serve(ctx, d.taken[g.Run], g, now)
		tasks += n
		if err != nil {
			return tasks, granted, err
		}
		if n == 0 {
			unused[g.Run] = true
		}
	}
	return tasks, granted, nil
}

// candidates returns the runs that may have due rows, and are not in unused.
func (d *Dispatcher) candidates(now time.Time, unused map[ledger.RunID]bool) []Candidate {
	var all []Candidate
	groups := map[group]bool{}
	for _, r := range d.taken.ordered() {
		g, grouped := d.group(r)
		if groups[g] { // its first run has it released
			continue
		}
		if unused[r.ID] {
			groups[g] = grouped
		} else if limit, cost := d.limit(r, now); limit != 0 {
			groups[g] = grouped
			all = append(all, Candidate{Run: r.ID, Class: ClassOf(r.Run), ServedAt: r.servedAt, Limit: limit, Cost: cost,
				Held: d.held(r, cost)})
		}
	}
	return all
}

// limit returns the largest number of rows of a run to release now, -1: no limit, and the cost of
// the cheapest of them.
func (d *Dispatcher) limit(r *run, now time.Time) (most int, cost float64) {
	cost = math.Inf(1)
	for so := range sorts {
		n := 0
		if !r.idle(so, now) {
			n = d.gateRows(r, so, now)
		}
		if n == 0 {
			continue
		}
		cost = min(cost, d.cfg.Kinds[r.Kind].Cost.of(so))
		if n < 0 || most < 0 {
			most = -1
		} else {
			most = max(most, n)
		}
	}
	return most, cost
}

// longestLine is how long requests may wait for their permits before rows of bulk runs wait.
const longestLine = time.Second

// held reports whether rows of a run that cost so many requests wait for the line to become
// shorter.
//
// The line is of the requests of rows that wait for their permits: scans and sweeps are behind
// them, and do not count. It is long if executions make more requests than they cost on average,
// or the rate is lower than it is set to be: requests of small runs would wait behind all of
// them, so rows of bulk runs wait. Beside small runs that keep the line long, each ninth portion
// goes to a bulk run all the same: see [Plan]. A line that stands still is one of a pause, or of
// an API that does not answer, and ends with it: each request leaves the line when it has waited
// too long.
func (d *Dispatcher) held(r *run, cost float64) bool {
	return ClassOf(r.Run) == Bulk && cost > 0 && d.line >= longestLine
}

// gateRows returns the largest number of rows of a sort that stop, pause and blocks allow to be
// released now; -1: no limit.
func (d *Dispatcher) gateRows(r *run, so sort, now time.Time) int {
	n := d.probeRows(r, so, now)
	if n > 0 && r != d.prober {
		return 0
	}
	return n
}

// probeRows is gateRows of a run that has the next probe.
func (d *Dispatcher) probeRows(r *run, so sort, now time.Time) int {
	kind := d.cfg.Kinds[r.Kind]
	return d.gate.Rows(now, d.pace, kind.Operations.of(so), kind.Cost.of(so))
}

// nextProber returns the run whose row is the next probe of a blocked operation, or tries after a
// pause: of those not in unused the one that was probed the longest ago, since no row of another
// one may be able to end the block. nil: no probe is due.
func (d *Dispatcher) nextProber(now time.Time, unused map[ledger.RunID]bool) (next *run) {
	if len(d.pace.Blocks)+len(d.pace.Trials) == 0 {
		return nil
	}
	for _, r := range d.taken.ordered() {
		for so := range sorts {
			due := !unused[r.ID] && !r.idle(so, now) && d.probeRows(r, so, now) > 0
			if due && (next == nil || r.probedAt.Before(next.probedAt)) {
				next = r
			}
		}
	}
	return next
}

// serve releases rows of a run for its grant, and returns the number of tasks: proven
// rows of any segment first, and rows that were never released last.
func (d *Dispatcher) serve(ctx context.Context, r *run, g Grant, now time.Time) (tasks int, err error) {
	if all := d.together(r, now); len(all) > 1 {
		return d.serveTogether(ctx, all, g.Rows, now)
	}
	segments := slices.Clone(r.segments)
	for so := range sorts {
		if !g.Turn && d.held(r, d.cfg.Kinds[r.Kind].Cost.of(so)) {
			continue
		}
		some, err := d.serveSort(ctx, r, segments, so, g.Rows-tasks, now)
		tasks += some
		if err != nil {
			return tasks, err
		}
	}
	if tasks > 0 {
		r.servedAt = now
	}
	for _, s := range segments {
		d.put(s, now)
	}
	return tasks, nil
}

// serveSort releases rows of one sort for up to n tasks.
func (d *Dispatcher) serveSort(ctx context.Context, r *run, segments []*segment, so sort, n int,
	now time.Time) (tasks int, err error) {
	limit := d.gateRows(r, so, now)
	if limit >= 0 { // 0 also if another run has the probe
		n = min(n, limit)
	}
	for _, s := range segments {
		if tasks >= n || now.Before(s.until[so]) {
			continue
		}
		some, err := d.releaseSort(ctx, r, s, so, n-tasks, now)
		tasks += some
		if err != nil {
			return tasks, err
		}
	}
	if tasks > 0 {
		kind := d.cfg.Kinds[r.Kind]
		d.gate.Probed(now, d.pace, kind.Operations.of(so), kind.Cost.of(so))
		if limit > 0 {
			r.probedAt = now
		}
	}
	return tasks, nil
}

// releaseMost is how many rows of a sort one call of [ledger.Ledger.Release] releases.
const releaseMost = 250

// releaseSort releases rows of one sort for up to n tasks. Of a kind with groups, rows that
// waited may have less in common than a batch holds, and make up to releaseMost tasks.
func (d *Dispatcher) releaseSort(ctx context.Context, r *run, s *segment, so sort, n int,
	now time.Time) (tasks int, err error) {
	kind := d.cfg.Kinds[r.Kind]
	n = d.permits.Rows(n, kind.Cost.of(so))
	if n == 0 {
		return 0, nil
	}
	batch := max(kind.Batch, 1)
	quota := so.quota(min(n*batch, releaseMost-releaseMost%batch)) // whole batches
	if kind.Group != nil {
		quota.Pieces = n
	}
	release, err := d.releaseFrom(ctx, s, quota, now)
	if err != nil {
		return 0, err
	}
	if len(release.Rows) == 0 { // also if the run is stopped
		s.until[so] = now.Add(emptyFor(d.taken.segments()))
	}
	var all [][]released
	for _, rows := range kind.batches(release.Rows) {
		all = append(all, []released{{r.Run, s.id, release.Token, rows}})
	}
	return d.enqueue(ctx, kind.Cost.of(so), all...)
}

// releaseFrom releases rows of a segment that can be read, and learns its due time and counts. It
// releases none of one that does not exist any more, and of which nothing is due then, and none
// while a Cluster moves the segment's slot: until that is finished, which an interrupted
// redis-cli leaves undone, each script fails. One that its script cannot read steps aside, until
// the index returns it again, and stops no other run.
func (d *Dispatcher) releaseFrom(ctx context.Context, s *segment, q ledger.Quota,
	now time.Time) (ledger.Release, error) {
	release, err := d.cfg.Ledger.Release(ctx, s.id, q)
	if redis.IsTryAgainError(err) {
		d.cfg.Logger.WarnContext(ctx, "rows wait: a slot of the Cluster is being moved", "tenant", d.cfg.Tenant, "run",
			s.id.Run, "segment", s.id.Number, "error", err)
		release, err = ledger.Release{Receipt: ledger.Receipt{Due: ledger.DueNow}}, nil // put keeps it in memory
	}
	if errors.Is(err, ledger.ErrDamaged) {
		d.stuck(ctx, s.id.OfRun(), fmt.Sprintf("segment %d of its rows is damaged in Redis: restore Redis from a backup, or cancel "+
			"the run and submit its rows that have no result again", s.id.Number), err)
		release = ledger.Release{Receipt: ledger.Receipt{Due: ledger.DueNow}}
		err = nil
	}
	if errors.Is(err, ledger.ErrNotFound) { // the whole run has usually been deleted: then nothing is noted
		d.stuck(ctx, s.id.OfRun(), fmt.Sprintf("segment %d of its rows is missing in Redis: restore Redis from a backup, or cancel "+
			"the run and submit its rows that have no result again", s.id.Number), err)
		err = nil
	}
	if err != nil {
		return release, err
	}
	s.learn(release, now.Add(emptyFor(d.taken.segments())))
	release.Rows, err = d.readable(ctx, s.id, release.Rows)
	return release, err
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
	d.window.Released(tasks)
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
func (k Kind) batches(rows []ledger.ReleasedRow) (all [][]ledger.ReleasedRow) {
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
		result := ledger.Result{Outcome: engine.Failed, Detail: fmt.Sprintf("the stored row cannot be read: %v", row.Err)}
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
		if err != nil || tasks >= n || d.permits.Rows(1, kind.Cost.First) == 0 {
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

// releaseOne releases the row of a run, whatever its sort, and adds it to the parts of a task.
func (d *Dispatcher) releaseOne(ctx context.Context, r *run, parts []released, now time.Time) ([]released, error) {
	for _, s := range r.segments {
		release, err := d.releaseFrom(ctx, s, ledger.Quota{First: 1, Check: 1, Ready: 1}, now)
		if err != nil {
			return parts, err
		}
		if len(release.Rows) > 0 {
			r.servedAt = now
			parts = append(parts, released{r.Run, s.id, release.Token, release.Rows})
		}
	}
	return parts, nil
}
