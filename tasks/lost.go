package tasks

// Rows that are open and that nothing works on: their task was lost with Redis'
// last second, evicted, deleted, or archived. Such a row is found by looking for
// every task that may stand for it.
//
// A row of domain:verify is handed from task to task, each of which enqueues the
// next before it ends itself:
//
//	look <id> -> confirm <id>c -> look <id>.1 -> confirm <id>.1c -> look <id>.2 ...
//
// A confirm writes the next look's id down as a mark of the row before it enqueues
// it. So with the mark read first, the tasks asked for in this order (the mark's
// predecessor included, which may have written it and not yet enqueued), and the
// mark read once more at the end, none is missed: a task that is found to have
// ended has enqueued its successor before, which is asked for after; and where the
// last one of them ended meanwhile, it has settled the row or changed its mark.
// The second look reads all of it again, and a row counts as lost only if it is
// open, without a task, and marked the same in both.
//
// Were a row taken for lost all the same, as where someone puts an archived task
// back by hand at that moment, it would have two tasks. Each of them may run twice
// anyway, and the row settles once.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Queue is what a search needs of the queue.
type Queue interface {
	// Stand says of each id whether a task of it stands in the queue: see Queued.
	Stand(ctx context.Context, queue string, ids []string) ([]bool, error)
}

// Marks is what a search needs of the ledger.
type Marks interface {
	// Marked says of each item whether it is settled, and what Looked keeps of it
	// under that name, empty if nothing.
	Marked(ctx context.Context, run, name string, items []int64) (settled []bool, marks []string, err error)
}

// Search finds the open rows of a run for which no task stands.
type Search struct {
	Queue Queue
	Marks Marks
}

// keptNextLook is the mark with the id of the look that a confirm goes back to.
const keptNextLook = "next_look"

// unit is rows for which one task stands: one row, or a batch.
type unit struct {
	task  spec
	items []int64 // all of them, also the settled ones
	open  int64   // how many are not settled
	mark  string
}

// place is where a task may stand.
type place struct{ queue, id string }

// lost returns those of the units that are lost.
func (s Search) lost(ctx context.Context, r Run, units []unit) ([]unit, error) {
	first, err := s.look(ctx, r, units)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	second, err := s.look(ctx, r, first)
	if err != nil {
		return nil, err
	}
	before := map[int64]string{}
	for _, u := range first {
		before[u.items[0]] = u.mark
	}
	return slices.DeleteFunc(second, func(u unit) bool { return u.mark != before[u.items[0]] }), nil
}

// look returns those of the units that have an open row and no task.
func (s Search) look(ctx context.Context, r Run, units []unit) ([]unit, error) {
	open, err := s.read(ctx, r, units)
	if err != nil {
		return nil, err
	}
	places := make([][]place, len(open))
	for i, u := range open {
		places[i] = r.places(u.items, u.mark)
	}
	found := make([]bool, len(open))
	for step, left := 0, true; left; step++ {
		if left, err = s.ask(ctx, places, step, found); err != nil {
			return nil, err
		}
	}
	var without []unit
	for i, u := range open {
		if !found[i] {
			without = append(without, u)
		}
	}
	return without, nil
}

// read returns those of the units that have an open row, with their marks.
func (s Search) read(ctx context.Context, r Run, units []unit) (open []unit, err error) {
	var items []int64
	for _, u := range units {
		items = append(items, u.items...)
	}
	var settled []bool
	var marks []string
	for some := range slices.Chunk(items, askRows) {
		are, have, err := s.Marks.Marked(ctx, r.ID, keptNextLook, some)
		if err != nil {
			return nil, err
		}
		settled, marks = append(settled, are...), append(marks, have...)
	}
	at := 0
	for _, u := range units {
		u.mark, u.open = marks[at], 0
		for range u.items {
			if !settled[at] {
				u.open++
			}
			at++
		}
		if u.open > 0 {
			open = append(open, u)
		}
	}
	return open, nil
}

// ask looks for the task at each unit's place number step, where it has one and
// none was found before; left says that any had.
func (s Search) ask(ctx context.Context, places [][]place, step int, found []bool) (left bool, err error) {
	ids, units := map[string][]string{}, map[string][]int{}
	for i, all := range places {
		if !found[i] && step < len(all) {
			p := all[step]
			ids[p.queue], units[p.queue] = append(ids[p.queue], p.id), append(units[p.queue], i)
		}
	}
	for queue, asked := range ids {
		stand, err := s.Queue.Stand(ctx, queue, asked)
		if err != nil {
			return false, err
		}
		for i, is := range stand {
			found[units[queue][i]] = is
		}
	}
	return len(ids) > 0, nil
}

// places are where the task of these rows may stand: in the order in which it gets
// there, for each generation that is not dropped.
func (r Run) places(items []int64, mark string) []place {
	var all []place
	for generation := r.Floor; generation <= r.Generation; generation++ {
		id := r.taskID(items, generation)
		for _, lane := range r.lanes() {
			if r.Kind == TypeRecheck {
				all = append(all, place{r.rowQueue(lane), id}, place{APIQueue(r.Tenant, lane), confirmTaskID(id)})
				continue
			}
			if r.Kind != TypeVerify {
				all = append(all, place{r.rowQueue(lane), id})
				continue
			}
			look, confirm := DNSQueue(r.Tenant, lane), APIQueue(r.Tenant, lane)
			all = append(all, place{look, id}, place{confirm, confirmTaskID(id)})
			if strings.HasPrefix(mark, id+".") {
				all = append(all, place{confirm, confirmTaskID(lookBefore(mark))}, place{look, mark}, place{confirm, confirmTaskID(mark)})
			}
		}
	}
	return all
}

func (r Run) taskID(items []int64, generation int) string {
	if r.Kind == TypeRemove {
		return batchTaskID(r.ID, items, generation)
	}
	return rowTaskID(r.ID, items[0], generation)
}

// lanes are those that the run's tasks may be on. A small run is on the normal one
// where its producer could not say beforehand how small it was.
func (r Run) lanes() []Lane {
	if r.lane() == Fast {
		return []Lane{Fast, Normal}
	}
	return []Lane{Normal}
}

// lookBefore is the id of the look before the one with that id, of which nextLookTaskID
// has made it.
func lookBefore(look string) string {
	base, round, _ := strings.Cut(look, ".")
	if n, err := strconv.Atoi(round); err == nil && n > 1 {
		return fmt.Sprintf("%s.%d", base, n-1)
	}
	return base
}

// Found is what a search has come to. Rows of a batch count if they are open.
type Found struct {
	Open, Tasks     int64 // open rows, and how many tasks are to stand for them
	Lost, LostTasks int64 // of these, those for which none does
}

// Add adds up what several windows have come to.
func (f *Found) Add(other Found) {
	f.Open += other.Open
	f.Tasks += other.Tasks
	f.Lost += other.Lost
	f.LostTasks += other.LostTasks
}

// StoredRow is a row as the ledger has it, read again: work, or one whose outcome
// has to be known already.
type StoredRow struct {
	Row     Row
	Outcome Outcome // empty: it is work
	Detail  string
}

// Window is rows of a run that is sealed, to be looked at together.
type Window struct {
	First, Past int64   // from a multiple of WindowRows on, up to the next or the run's end
	Open        []int64 // those that are not settled
	// Stored reads one of the rows. Of a kind whose rows are tasks of their own it is
	// called for those that are put back, else for all, in their order.
	Stored func(ctx context.Context, item int64) (StoredRow, error)
}

// WindowRows is how many of the run's rows are submitted, or looked at, together.
func (r Run) WindowRows() int {
	if r.Kind == TypeRemove {
		return windowRows
	}
	return ChunkRows
}

var errNoSearch = errors.New("no queue to search for tasks")

// Lost looks for tasks of the window's open rows by the run's search.
func (p *Producer) Lost(ctx context.Context, r Run, w Window) (Found, error) {
	if r.Lost == nil {
		return Found{}, errNoSearch
	}
	found, _, err := p.find(ctx, r, w)
	return found, err
}

// PutBack enqueues, in the run's generation, a task for those open rows of the
// window for which none stands; without a search, for every open row. An open row
// which is no work is settled.
func (p *Producer) PutBack(ctx context.Context, r Run, w Window) (Found, error) {
	found, lost, err := p.find(ctx, r, w)
	if err != nil {
		return found, err
	}
	s, err := p.Begin(r)
	if err != nil {
		return found, err
	}
	specs := tasksOf(lost.units)
	if r.Kind != TypeRemove {
		specs, err = s.readAgain(ctx, w, lost.units)
	} else {
		err = s.settleKnown(ctx, lost.rows, w.First, lost.settled)
	}
	if err == nil {
		err = s.enqueueAll(ctx, specs)
	}
	if err != nil {
		return found, fmt.Errorf("put back rows from %d of run %s: %w", w.First, r.ID, err)
	}
	return found, nil
}

// formed are the units of a window that have an open row. Of batches these are
// whole tasks, since they are formed of all rows, which are kept with them.
type formed struct {
	units   []unit
	rows    []held
	settled []bool
}

// find returns what is lost of the window.
func (p *Producer) find(ctx context.Context, r Run, w Window) (found Found, lost formed, err error) {
	lost, err = p.form(ctx, r, w)
	if err != nil {
		return found, lost, err
	}
	for _, u := range lost.units {
		found.Open += u.open
	}
	found.Tasks = int64(len(lost.units))
	if r.Lost != nil {
		if lost.units, err = r.Lost.lost(ctx, r, lost.units); err != nil {
			return found, lost, err
		}
	}
	for _, u := range lost.units {
		found.Lost += u.open
	}
	found.LostTasks = int64(len(lost.units))
	for i, h := range lost.rows {
		if h.outcome != "" && !lost.settled[i] { // no work, and its outcome forgotten
			found.Open++
			found.Lost++
		}
	}
	return found, lost, nil
}

// form forms the window's units.
func (p *Producer) form(ctx context.Context, r Run, w Window) (f formed, err error) {
	if r.Kind != TypeRemove {
		for _, item := range w.Open {
			f.units = append(f.units, unit{items: []int64{item}, open: 1})
		}
		return f, nil
	}
	s, err := p.Begin(r)
	if err != nil {
		return f, err
	}
	if f.rows, err = w.held(ctx, w.all()); err != nil {
		return f, err
	}
	f.settled = slices.Repeat([]bool{true}, len(f.rows))
	for _, item := range w.Open {
		f.settled[item-w.First] = false
	}
	f.units = s.batches(f.rows, w.First, f.settled)
	return f, nil
}

func (w Window) all() []int64 {
	items := make([]int64, 0, w.Past-w.First)
	for item := w.First; item < w.Past; item++ {
		items = append(items, item)
	}
	return items
}

func (w Window) held(ctx context.Context, items []int64) ([]held, error) {
	window := make([]held, len(items))
	for i, item := range items {
		row, err := w.Stored(ctx, item)
		if err != nil {
			return nil, err
		}
		window[i] = held{row: row.Row, outcome: row.Outcome, detail: row.Detail}
	}
	return window, nil
}

// readAgain makes the tasks of rows that are a task each; one that is no work is
// settled.
func (s *Submission) readAgain(ctx context.Context, w Window, units []unit) ([]spec, error) {
	var specs []spec
	for _, u := range units {
		row, err := w.held(ctx, u.items)
		if err != nil {
			return nil, err
		}
		if err := s.settleKnown(ctx, row, u.items[0], []bool{false}); err != nil {
			return nil, err
		}
		specs = append(specs, tasksOf(s.rowTasks(row, u.items[0], []bool{false}))...)
	}
	return specs, nil
}
