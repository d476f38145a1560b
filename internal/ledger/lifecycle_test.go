package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestLifecycle has producers, scanners, dispatchers, workers and operators apply random
// operations to a few runs, from Create to Sweep. Connections are lost, Redis' clock jumps,
// and Redis, or the node of the tenant, loses the writes of its last second. Every
// committed run must be listed and end, with every row that a scan found. No row of a deleted
// run may be executed, no run may be deleted before its time, and no key may be left once the
// runs are deleted. It prints its seed: ORGOPS_TEST_SEED repeats one, and
// ORGOPS_TEST_LEDGER_WORLDS makes more worlds than usual.
func TestLifecycle(t *testing.T) {
	m := redistest.Mini(t)
	first, worlds := worldsOf(t, 20)
	lossy := redistest.New(t)
	f := &faults{}
	lossy.AddHook(f)
	for i := range worlds {
		seed := first + uint64(i)
		m.FlushAll()
		s := &lifecycle{
			worker: on(t, redistest.New(t)), lossy: ledger.New(lossy), faults: f, mini: m,
			rand: rand.New(rand.NewPCG(seed, 1)), now: time.Now(),
			sizes:     map[ledger.RunID]int{"run-0": int(seed % 4), "run-1": 1, "run-2": 3},
			producers: map[ledger.RunID]*producer{}, deleted: map[ledger.Incarnation]bool{},
		}
		if !world(t, seed, &s.log, s.run) {
			return
		}
	}
	t.Logf("%d worlds from seed %d on", worlds, first)
}

// world runs a world. If the test fails it prints the seed and the last operations.
func world(t *testing.T, seed uint64, log *[]string, run func()) (ok bool) {
	t.Helper()
	defer func() { // also after a Fatal
		if ok = !t.Failed(); !ok {
			t.Logf("ORGOPS_TEST_SEED=%d; the last operations:\n%s", seed, strings.Join((*log)[max(0, len(*log)-200):], "\n"))
		}
	}()
	run()
	return true
}

// worldsOf returns the seed of the first world and the number of worlds.
func worldsOf(t *testing.T, usual int) (first uint64, worlds int) {
	t.Helper()
	worlds = usual
	if !redistest.Long() {
		worlds = max(usual/5, 1)
	}
	if n, err := strconv.Atoi(os.Getenv("ORGOPS_TEST_LEDGER_WORLDS")); err == nil {
		worlds = n
	}
	if seed, err := strconv.ParseUint(os.Getenv("ORGOPS_TEST_SEED"), 10, 64); err == nil {
		return seed, 1
	}
	return rand.Uint64(), worlds
}

// keepFor is the retention of the runs.
const keepFor = 24 * time.Hour

type lifecycle struct {
	*worker
	lossy  *ledger.Ledger // by a connection with faults
	faults *faults
	mini   *miniredis.Miniredis
	rand   *rand.Rand
	log    []string

	now    time.Time     // the true time
	offset time.Duration // of Redis' clock

	sizes     map[ledger.RunID]int // in segments
	producers map[ledger.RunID]*producer
	deleted   map[ledger.Incarnation]bool // that Redis cannot forget any more
	losing    bool                        // some node loses the present writes
	recent    []ledger.Incarnation        // deleted meanwhile
	only      ledger.RunID                // the run of the operations, if not a random one
}

// producer is the state of a run's producer.
type producer struct {
	run       ledger.Run
	sums      []ledger.Sum
	size      int // in segments
	committed bool
	deleted   bool
	lost      bool // Redis lost something since the run was created
	touched   time.Time
	fresh     bool // created or committed within the second that Redis loses
}

func (s *lifecycle) run() {
	s.advance(0)
	for range 60 {
		if s.rand.IntN(10) == 0 {
			s.lose()
		} else {
			s.operate()
		}
		if s.t.Failed() {
			return
		}
	}
	s.end()
}

// operate does one operation, at times by a connection that is lost.
func (s *lifecycle) operate() {
	operations := []func(*ledger.Ledger){
		s.create, s.create, s.stage, s.stage, s.stage, s.commit, s.commit, s.commit, s.execute, s.execute,
		s.control, s.finish, s.finish, s.delete, s.sweep, s.sweep, s.scan, s.scan, s.scan,
	}
	l := s.Ledger
	if !s.losing {
		operations = append(operations, func(*ledger.Ledger) { s.pass() }, func(*ledger.Ledger) { s.pass() },
			func(*ledger.Ledger) { s.jump() })
		if s.rand.IntN(4) == 0 {
			l = s.lossy
			s.faults.arm(s.rand.IntN(8), s.rand.IntN(2) == 0)
			defer s.faults.disarm()
		}
	}
	operations[s.rand.IntN(len(operations))](l)
}

func (s *lifecycle) note(format string, a ...any) { s.log = append(s.log, fmt.Sprintf(format, a...)) }

// expect fails for an error that no state of a run and no lost connection explains.
func (s *lifecycle) expect(operation string, err error) {
	s.t.Helper()
	s.note("%s: %v", operation, err)
	if err == nil {
		return
	}
	for _, known := range []error{errFault, ledger.ErrNotFound, ledger.ErrOpen, ledger.ErrEnded, ledger.ErrLost,
		ledger.ErrReplaced} { // by its own repetition, whose answer was lost
		if errors.Is(err, known) {
			return
		}
	}
	s.t.Errorf("%s: %v", operation, err)
}

// id returns the id of one of a few runs.
func (s *lifecycle) id() ledger.RunID {
	if s.only != "" {
		return s.only
	}
	return ledger.RunID("run-" + strconv.Itoa(s.rand.IntN(4)))
}

// scanned is the run whose rows are found by a scan.
const scanned = ledger.RunID("run-3")

// scannedSteps is the number of its steps.
const scannedSteps = 6

// newRun returns the description of a run. Some may not begin at once.
func (s *lifecycle) newRun(id ledger.RunID) ledger.NewRun {
	n := ledger.NewRun{ID: id, Tenant: tenant, Kind: kind, Description: ledger.Description{KeepFor: keepFor}}
	if s.rand.IntN(4) == 0 {
		n.NotBefore = s.now.Add(time.Hour)
	}
	if id == scanned {
		n.Scan = []byte("position 0")
	}
	return n
}

// pick returns the producer of some run that can continue, or nil.
func (s *lifecycle) pick() *producer {
	p := s.producers[s.id()]
	if p == nil || p.deleted {
		return nil
	}
	return p
}

func (s *lifecycle) create(l *ledger.Ledger) {
	id := s.id()
	run, _, err := l.Create(s.t.Context(), s.newRun(id))
	s.expect(fmt.Sprintf("create %s %s", id, run.Incarnation), err)
	if err != nil {
		return
	}
	if s.deleted[run.Incarnation] {
		s.t.Errorf("create %s: a deleted run is there again", id)
	}
	if p := s.producers[id]; p != nil && p.run.Incarnation == run.Incarnation {
		p.deleted, p.fresh = false, p.fresh || s.losing
		return
	}
	s.producers[id] = &producer{run: run, size: s.sizes[id], touched: s.now, fresh: s.losing}
}

func (s *lifecycle) stage(l *ledger.Ledger) {
	p := s.pick()
	if p == nil || len(p.sums) == p.size {
		return
	}
	n := len(p.sums)
	sum, err := l.Stage(s.t.Context(), p.run, n, content(n*10, 1+n))
	s.expect(fmt.Sprintf("stage segment %d of %s", n, p.run.ID), err)
	if err == nil {
		p.sums, p.touched = append(p.sums, sum), s.now
	}
}

// commit commits a run whose segments are staged.
func (s *lifecycle) commit(l *ledger.Ledger) {
	p := s.pick()
	if p == nil || len(p.sums) < p.size || p.run.ID == scanned {
		return
	}
	_, err := l.Commit(s.t.Context(), p.run, p.sums)
	s.expect(fmt.Sprintf("commit %s", p.run.ID), err)
	if errors.Is(err, ledger.ErrLost) {
		p.sums = nil // the producer begins again
	}
	p.committed = p.committed || err == nil
	p.fresh = p.fresh || s.losing
}

// verify verifies a run as a producer does two seconds after it has created or committed it.
func (s *lifecycle) verify(p *producer) {
	if p.committed {
		now, err := s.Run(s.t.Context(), tenant, p.run.ID)
		s.expect(fmt.Sprintf("verify %s: staged %v", p.run.ID, now.Staged()), err)
		if err == nil && now.Incarnation == p.run.Incarnation && now.Staged() {
			p.sums, p.committed = nil, false // the producer begins again
		}
		return
	}
	run, _, err := s.Create(s.t.Context(), s.newRun(p.run.ID))
	s.expect(fmt.Sprintf("create %s again", p.run.ID), err)
	if err == nil && run.Incarnation != p.run.Incarnation {
		s.producers[p.run.ID] = &producer{run: run, size: p.size, touched: s.now, lost: true}
	}
}

// scan executes the row of the scan, if it is due: it makes up to two steps, and may die.
func (s *lifecycle) scan(l *ledger.Ledger) {
	run, err := l.Get(s.t.Context(), "", scanned)
	if err != nil {
		return
	}
	at, ok, err := takeScan(s.t.Context(), l, run, s.session)
	var ending ledger.Ending = done
	for n := 0; ok && err == nil && at.step < scannedSteps; n++ {
		if ending = (ledger.GiveBack{}); n == 2 {
			break
		}
		var status ledger.Status
		status, err = l.AddStep(s.t.Context(), scanRow(run), at.nonce,
			scanStep(at.step, at.step == scannedSteps-1, s.stepRows(at.step)...))
		ok = status == ledger.RowWritten
		at.step, ending = at.step+1, done
	}
	if ok && err == nil && s.rand.IntN(8) > 0 {
		_, err = l.End(s.t.Context(), scanRow(run), at.nonce, ledger.Ends(ending, 0)...)
	}
	s.expect(fmt.Sprintf("scan %s, before step %d: %v", run.Incarnation, at.step, ok), err)
}

// stepRows returns the rows that a step finds. Their contents are always the same.
func (s *lifecycle) stepRows(step int64) []ledger.FoundRow {
	rows := foundRows(int(step)*10, int(step)%4)
	if len(rows) > 1 {
		rows[1].Due = s.now.Add(s.offset + time.Hour)
	}
	if len(rows) > 2 {
		rows[2].Result = invalid
	}
	return rows
}

// execute executes some rows of the segments that are due.
func (s *lifecycle) execute(l *ledger.Ledger) { s.work(l, 3) }

// work executes up to n rows of each segment that is due, and leaves some of them open.
func (s *lifecycle) work(l *ledger.Ledger, n int) {
	due, err := l.TakeDue(s.t.Context(), tenant, 100)
	s.expect(fmt.Sprintf("take %v", due), err)
	for _, seg := range due.Segments {
		if seg.Number == ledger.ScanSegment {
			s.scan(l)
			continue
		}
		r, err := l.Release(s.t.Context(), seg, ledger.Quota{First: n, Check: n, Ready: n})
		s.expect(fmt.Sprintf("release %v of %s", numbers(r), seg), err)
		if s.deleted[seg.Incarnation] && len(r.Rows) > 0 {
			s.t.Errorf("rows %v of segment %s of a deleted run are released", numbers(r), seg)
		}
		if err == nil && len(r.Rows) > 0 {
			s.settle(l, seg, r, n < 100)
		}
	}
}

// settle settles released rows; some remain open.
func (s *lifecycle) settle(l *ledger.Ledger, seg ledger.Segment, r ledger.Release, leave bool) {
	e := ledger.Execution{Token: r.Token, Nonce: ledger.NewNonce(), Session: s.session}
	rows := numbers(r)
	_, err := l.Begin(s.t.Context(), seg, e, rows...)
	s.expect("begin", err)
	if err != nil || leave && s.rand.IntN(6) == 0 {
		return // the worker is killed
	}
	if leave && s.rand.IntN(4) == 0 {
		_, err = l.Wait(s.t.Context(), seg, e.Nonce,
			ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute}, rows...)
	} else {
		_, err = l.Settle(s.t.Context(), seg, e.Nonce, ledger.Result{Outcome: ledger.Done}, rows...)
	}
	s.expect(fmt.Sprintf("end %v of %s", rows, seg), err)
}

func (s *lifecycle) control(l *ledger.Ledger) {
	id := s.id()
	controls := map[string]func(context.Context, ledger.Tenant, ledger.RunID) error{
		"pause": l.Pause, "resume": l.Resume, "cancel": l.Cancel,
	}
	names := slices.Sorted(maps.Keys(controls))
	name := names[s.rand.IntN(len(names))]
	if name == "cancel" && s.staged(id) {
		return
	}
	s.expect(name+" "+string(id), controls[name](s.t.Context(), tenant, id))
}

// staged reports whether a run is staged. Its producer could not continue if it was cancelled.
func (s *lifecycle) staged(id ledger.RunID) bool {
	run, err := s.Get(s.t.Context(), "", id)
	return err != nil || run.Staged()
}

// finish does the follow-ups of runs that have ended.
func (s *lifecycle) finish(l *ledger.Ledger) {
	runs, err := l.OpenRuns(s.t.Context(), tenant)
	s.expect("open runs", err)
	for _, run := range runs {
		if run.Ended() {
			s.expect("finish "+string(run.ID), l.Finish(s.t.Context(), tenant, run.ID))
			if p := s.producers[run.ID]; p != nil {
				p.touched = s.now
			}
		}
	}
}

func (s *lifecycle) delete(l *ledger.Ledger) {
	p := s.pick()
	if p == nil {
		return
	}
	have, _ := s.Get(s.t.Context(), "", p.run.ID)
	err := l.Delete(s.t.Context(), tenant, p.run.ID)
	s.expect("delete "+string(p.run.ID), err)
	p.deleted = err == nil || errors.Is(err, errFault)
	if have.Incarnation != p.run.Incarnation {
		return // the header has gone back to a former run of that id
	}
	if err == nil && s.losing {
		s.recent = append(s.recent, p.run.Incarnation)
	} else if err == nil {
		s.deleted[p.run.Incarnation] = true
	}
}

// sweep sweeps. A run that it deletes must have been abandoned or retained for long enough,
// by the true time.
func (s *lifecycle) sweep(l *ledger.Ledger) {
	n, err := l.Sweep(s.t.Context(), tenant)
	s.expect(fmt.Sprintf("sweep %d", n), err)
	for id, p := range s.producers {
		if p.deleted || p.lost {
			continue
		}
		if _, err := s.Get(s.t.Context(), "", id); errors.Is(err, ledger.ErrNotFound) {
			p.deleted = true
			if age := s.now.Sub(p.touched); age < keepFor {
				s.t.Errorf("run %s was deleted %v after its last change", id, age)
			}
		}
	}
}

// advance lets true time pass.
func (s *lifecycle) advance(d time.Duration) {
	s.now = s.now.Add(d)
	s.mini.SetTime(s.now.Add(s.offset))
}

// pass lets time pass: less than a minute at a time while Redis' clock is another one.
func (s *lifecycle) pass() {
	d := []time.Duration{time.Second, 20 * time.Second, 20 * time.Minute, 50 * time.Minute}[s.rand.IntN(4)]
	if s.offset != 0 {
		d = min(d, 20*time.Second)
	}
	s.note("%v pass", d)
	s.advance(d)
}

// jump makes Redis' clock jump, or return to the true time.
func (s *lifecycle) jump() {
	const year = 365 * 24 * time.Hour
	if s.offset != 0 {
		s.offset = 0
	} else {
		s.offset = []time.Duration{year, -year}[s.rand.IntN(2)]
	}
	s.note("the clock is %v ahead", s.offset)
	s.advance(0)
}

// lose has Redis, or one node, lose the operations of a second. The producers of that second
// notice.
func (s *lifecycle) lose() {
	s.advance(2 * time.Minute) // no other loss is as recent
	saved := remember(s.t, s.rdb)
	s.losing, s.recent = true, nil
	if s.rand.IntN(2) == 0 {
		s.story()
	} else {
		for range 1 + s.rand.IntN(4) {
			s.operate()
		}
	}
	s.losing = false
	parts := []string{"", "{tenant:", "orgops:v3:tenants"}
	part := parts[s.rand.IntN(len(parts))]
	s.note("lose %q", part)
	saved.restore(s.t, s.rdb, part)
	s.advance(2 * time.Second)
	for _, id := range slices.Sorted(maps.Keys(s.producers)) {
		p := s.producers[id]
		p.lost = true
		if p.fresh && !p.deleted {
			s.verify(p)
		}
		p.fresh = false
	}
}

// story does, with one run, several operations that belong together.
func (s *lifecycle) story() {
	s.only = s.id()
	defer func() { s.only = "" }()
	cancel := func(l *ledger.Ledger) {
		if s.staged(s.only) {
			return
		}
		s.expect("cancel "+string(s.only), l.Cancel(s.t.Context(), tenant, s.only))
	}
	all := func(l *ledger.Ledger) { s.work(l, 100) }
	stories := [][]func(*ledger.Ledger){
		{s.create, s.stage, s.stage, s.stage, s.commit},
		{s.create, s.stage, s.stage, s.stage, s.commit, all},
		{all, s.finish, s.sweep},
		{cancel, s.finish, s.sweep},
		{cancel, s.delete},
		{cancel, s.delete, s.create, s.stage, s.stage, s.stage, s.commit},
		{s.delete, s.sweep},
		{s.create, s.scan, s.scan, s.scan},
		{s.scan, s.scan, all, s.scan},
		{s.scan, s.scan, cancel},
	}
	for _, do := range stories[s.rand.IntN(len(stories))] {
		do(s.Ledger)
	}
}

// end acts as dispatchers, producers and operators do until no run is open, and then sweeps
// until every run is deleted.
func (s *lifecycle) end() {
	s.offset = 0
	s.note("the end")
	for range 12 {
		s.advance(16 * time.Minute)
		s.start()
		for range 3 {
			s.scan(s.Ledger)
		}
		for range 5 {
			s.advance(11 * time.Second) // what another dispatcher has taken is due again
			s.work(s.Ledger, 100)
		}
		s.finish(s.Ledger)
		s.sweep(s.Ledger)
	}
	s.listed()
	for range 40 * 24 {
		if s.t.Failed() {
			return
		}
		s.advance(50 * time.Minute)
		if n, err := s.Sweep(s.t.Context(), tenant); err != nil {
			s.t.Errorf("sweep: %d, %v", n, err)
		}
		if len(s.left()) == 0 {
			return
		}
	}
	s.t.Errorf("keys %q are left", s.left())
}

// start lets every open run proceed: it resumes the run, or deletes it if it is staged.
func (s *lifecycle) start() {
	runs, err := s.OpenRuns(s.t.Context(), tenant)
	s.expect("open runs", err)
	for _, run := range runs {
		if run.Staged() {
			s.expect("delete "+string(run.ID), s.Delete(s.t.Context(), tenant, run.ID))
			s.producers[run.ID] = nil
			continue
		}
		s.expect("resume", s.Resume(s.t.Context(), tenant, run.ID))
	}
	maps.DeleteFunc(s.producers, func(_ ledger.RunID, p *producer) bool { return p == nil })
}

// listed checks that every run with a header is listed and has ended.
func (s *lifecycle) listed() {
	open, err := s.OpenRuns(s.t.Context(), tenant)
	if err != nil || len(open) > 0 {
		s.t.Errorf("open runs %+v, %v, want none", open, err)
	}
	runs, err := s.Runs(s.t.Context(), tenant)
	if err != nil {
		s.t.Error(err)
	}
	for _, key := range s.mini.Keys() {
		_, rest, _ := strings.Cut(key, ":run:")
		id, part, _ := strings.Cut(rest, ":")
		if part != "header" {
			continue
		}
		run, err := s.Get(s.t.Context(), "", ledger.RunID(id))
		if errors.Is(err, ledger.ErrNotFound) {
			continue // the run is being deleted: the remaining keys show whether it is
		}
		if !slices.ContainsFunc(runs, func(r ledger.Run) bool { return r.Incarnation == run.Incarnation }) {
			s.t.Errorf("run %s, committed %v, is not listed: %v", id, !run.Staged(), err)
		}
		if !run.Staged() && !run.Ended() {
			s.t.Errorf("run %s has not ended: %+v, scan %+v", id, run, run.Scan)
		}
		if run.Scan != nil && !run.Cancelled {
			s.complete(run)
		}
	}
}

// complete checks that a run has every row that its scan found.
func (s *lifecycle) complete(run ledger.Run) {
	contents := s.contents(run)
	for step := range int64(scannedSteps) {
		for _, row := range s.stepRows(step) {
			if !slices.Contains(contents, string(row.Content)) {
				s.t.Errorf("%s of step %d is not there: %q", row.Content, step, contents)
			}
		}
	}
}

// left returns the keys of runs, and entries of the tenant's lists, that exist.
func (s *lifecycle) left() []string {
	return slices.DeleteFunc(s.mini.Keys(), func(key string) bool {
		return key == "orgops:v3:tenants" || strings.HasSuffix(key, ":clock") || strings.Contains(key, "{sessions}")
	})
}
