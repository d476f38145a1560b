package ledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestModel applies random operations to the ledger and to a model of it and compares
// the two after each. Connections are lost before and after commands; Redis forgets its last
// writes. It prints its seed; ORGOPS_TEST_SEED
// repeats one, ORGOPS_TEST_LEDGER_WORLDS makes more worlds than usual.
func TestModel(t *testing.T) {
	first, worlds := worldsOf(t, 40)
	if os.Getenv(redistest.EnvURL) == "" {
		redistest.Mini(t).SetTime(time.Now()) // time stays: no world is too slow
	}
	rdb := redistest.New(t)
	lossy := redistest.New(t)
	f := &faults{}
	lossy.AddHook(f.hook())
	slow := 0
	for i := range worlds {
		seed := first + uint64(i)
		memory{}.restore(t, rdb, "") // remove the keys of the world before
		s := newSimulation(on(t, rdb), ledger.New(lossy), f, seed)
		if !world(t, seed, &s.log, func() { slow += flag(!s.run()) }) {
			return
		}
	}
	t.Logf("%d worlds from seed %d on", worlds, first)
	if slow > 0 {
		t.Skipf("%d of %d worlds ended early: the machine is too slow for them", slow, worlds)
	}
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
	worlds = redistest.Amount(max(usual/5, 1), usual)
	if n, err := strconv.Atoi(os.Getenv("ORGOPS_TEST_LEDGER_WORLDS")); err == nil {
		worlds = n
	}
	if seed, err := strconv.ParseUint(os.Getenv("ORGOPS_TEST_SEED"), 10, 64); err == nil {
		return seed, 1
	}
	return rand.Uint64(), worlds
}

type simulation struct {
	*worker
	lossy  *ledger.Ledger // by a connection with faults
	faults *faults
	rand   *rand.Rand
	log    []string
	start  time.Time

	model    *model
	subject  ledger.Run
	sessions []ledger.SessionID
	// tokens and nonces are those that were issued, also in a time that Redis has
	// forgotten.
	tokens []ledger.Token
	nonces []ledger.Execution

	// taken are the segments that the dispatcher has in memory, since rows of them are due.
	taken map[ledger.Segment]bool

	saved       memory
	savedModel  *model
	savedPassed []time.Duration // by which everything aged since
}

func newSimulation(w *worker, lossy *ledger.Ledger, f *faults, seed uint64) *simulation {
	s := &simulation{worker: w, lossy: lossy, faults: f, rand: rand.New(rand.NewPCG(seed, 0)),
		taken: map[ledger.Segment]bool{}}
	var err error
	if s.start, err = w.Now(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.tenant = ledger.Tenant("world-" + strconv.FormatUint(seed, 10))
	s.submitSome(ledger.RunID("run-" + strconv.FormatUint(seed, 10)))
	s.sessions = []ledger.SessionID{ledger.NewSessionID(), ledger.NewSessionID()}
	s.tokens = []ledger.Token{ledger.NewToken()}
	s.nonces = []ledger.Execution{{Nonce: ledger.NewNonce(), Session: s.sessions[0], Token: s.tokens[0]}}
	return s
}

// submitSome submits a few segments of rows, in groups or not. Some rows are settled, but
// never the first, and some are due later.
func (s *simulation) submitSome(id ledger.RunID) {
	s.t.Helper()
	s.model = &model{}
	run := s.create(id)
	var key func([]byte) string
	if s.rand.IntN(3) > 0 {
		key = modelKey
	}
	segments := 1 + s.rand.IntN(3)
	var sums []ledger.Sum
	for number := range segments {
		size, settled := 1+s.rand.IntN(9), map[ledger.Row]ledger.Result{}
		dues, times, later := map[ledger.Row]time.Duration{}, map[ledger.Row]time.Time{}, 1+s.rand.IntN(4)
		for row := range ledger.Row(size) {
			switch {
			case s.rand.IntN(later) > 0:
				dues[row] = time.Duration(s.rand.IntN(3)) * time.Hour
				times[row] = s.start.Add(dues[row])
			case row > 0 && s.rand.IntN(6) == 0:
				settled[row] = ledger.Result{Outcome: outcomes[s.rand.IntN(len(outcomes))],
					Detail: []string{"", "invalid"}[s.rand.IntN(2)]}
			}
		}
		sum, err := s.StageGrouped(s.t.Context(), run, number, content(0, size), key, settled, times)
		if err != nil {
			s.t.Fatal(err)
		}
		sums = append(sums, sum)
		s.model.add(size, key != nil, settled, dues)
	}
	var err error
	if s.subject, err = s.Commit(s.t.Context(), run, sums); err != nil {
		s.t.Fatal(err)
	}
}

// run executes the operations of the world, and then ends the run. It reports whether there
// was time for that.
func (s *simulation) run() (whole bool) {
	operations := []func(){
		s.dispatch, s.dispatch, s.dispatch, s.begin, s.begin, s.begin, s.settle, s.settle, s.wait, s.wait,
		s.intend, s.withdraw, s.giveUp, s.giveBack, s.dismiss, s.reclaim, s.pass, s.control, s.save, s.forget,
		s.endEach, s.endEach, s.receipt,
	}
	for range 120 {
		operations[s.rand.IntN(len(operations))]()
		s.compare()
		if s.t.Failed() {
			return true
		}
		if s.slow() {
			return false
		}
	}
	s.end()
	return true
}

// slow reports whether so much of Redis' time has passed that releases lapse by it: the
// model knows nothing of that time.
func (s *simulation) slow() bool {
	now, err := s.Now(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return now.Sub(s.start) > ledger.ReleaseTimeout/2
}

func (s *simulation) note(format string, a ...any) { s.log = append(s.log, fmt.Sprintf(format, a...)) }

func (s *simulation) fail(format string, a ...any) {
	s.t.Helper()
	s.t.Errorf(format, a...)
}

// pick returns a random segment.
func (s *simulation) pick() (ledger.Segment, *modelSegment) {
	n := s.rand.IntN(len(s.model.segments))
	return segment(s.subject, n), s.model.segments[n]
}

// some returns one to three different rows of a segment, with a preference for those of
// the phase.
func (s *simulation) some(m *modelSegment, phase ledger.Phase) []ledger.Row {
	var rows []ledger.Row
	for _, i := range s.rand.Perm(len(m.rows)) {
		if m.rows[i].phase == phase || s.rand.IntN(6) == 0 {
			rows = append(rows, ledger.Row(i))
		}
		if len(rows) == 3 {
			break
		}
	}
	if len(rows) == 0 {
		rows = []ledger.Row{ledger.Row(s.rand.IntN(len(m.rows)))}
	}
	return rows
}

// execution returns the execution of one of the rows, or, now and then, another one.
func (s *simulation) execution(m *modelSegment, rows []ledger.Row) ledger.Execution {
	for _, row := range rows {
		if n := m.rows[row].nonce; n != "" && s.rand.IntN(8) > 0 {
			i := slices.IndexFunc(s.nonces, func(e ledger.Execution) bool { return e.Nonce == n })
			return s.nonces[i]
		}
	}
	return s.nonces[s.rand.IntN(len(s.nonces))]
}

// attempt runs an operation on a segment. Now and then the connection is lost: then the
// ledger must be as before the operation, or as after it, and the model follows.
func (s *simulation) attempt(name string, seg ledger.Segment, on *modelSegment,
	do func(*ledger.Ledger) (ledger.Receipt, error), apply func(*modelSegment) []ledger.Status) {
	s.t.Helper()
	lossy := s.rand.IntN(6) == 0
	l := s.Ledger
	if lossy {
		l = s.lossy
		s.faults.arm(s.rand.IntN(2), s.rand.IntN(2) == 0)
	}
	receipt, err := do(l)
	lost := lossy && s.faults.disarm()
	before := modelSegment{control: on.control, grouped: on.grouped, groups: on.groups, rows: slices.Clone(on.rows)}
	statuses := apply(on)
	s.note("%s: %v, %v, lost %v", name, receipt.Statuses, err, lost)
	if lost {
		if s.difference() != "" {
			*on = before
		}
		return
	}
	if err != nil {
		s.fail("%s: %v", name, err)
		return
	}
	if fmt.Sprint(receipt.Statuses) != fmt.Sprint(statuses) {
		s.fail("%s: statuses %v, want %v", name, receipt.Statuses, statuses)
	}
}

// dispatch releases rows of every segment that the index has as due. These must be all
// that have rows to be released.
func (s *simulation) dispatch() {
	due, _, err := s.TakeDue(s.t.Context(), s.tenant, 100)
	if err != nil {
		s.fail("take due segments: %v", err)
		return
	}
	s.note("due: %v, taken before: %v", due, s.taken)
	for _, seg := range due {
		s.taken[seg] = true
	}
	for n := range s.model.segments {
		later := s.model.clone()
		later.lapse(later.segments[n])
		ready, check, waiting, queued := later.releasable(later.segments[n])
		if len(ready)+len(check)+len(waiting)+len(queued) > 0 && !s.taken[segment(s.subject, n)] {
			s.fail("segment %d has rows that are due: %v at stage ready, %v at check, %v never begun, %v never released", n,
				ready, check, waiting, queued)
		}
	}
	for n := range s.model.segments {
		seg := segment(s.subject, n)
		if !s.taken[seg] {
			continue
		}
		next, ok := s.release(seg, s.model.segments[n])
		if !ok {
			return
		}
		s.learn(seg, next)
	}
	if s.rand.IntN(10) == 0 { // its successor finds the segments ten seconds later
		s.taken = map[ledger.Segment]bool{}
		s.ageIndex(10 * time.Second)
	}
}

// learn keeps a segment in memory while rows of it are due.
func (s *simulation) learn(seg ledger.Segment, due time.Time) {
	delete(s.taken, seg)
	if due.Equal(ledger.DueNow) {
		s.taken[seg] = true
	}
}

func (s *simulation) release(seg ledger.Segment, m *modelSegment) (due time.Time, ok bool) {
	q := ledger.Quota{First: s.rand.IntN(4), Check: s.rand.IntN(4), Ready: s.rand.IntN(4),
		Pieces: s.rand.IntN(3), PieceRows: s.rand.IntN(4)}
	r, err := s.Release(s.t.Context(), seg, q)
	if err != nil {
		s.fail("release: %v", err)
		return due, false
	}
	s.model.lapse(m)
	rows := numbers(r)
	s.note("release %+v of segment %d: %v", q, seg.Number, rows)
	ready, check, waiting, queued := s.model.releasable(m)
	s.within("ready", rows, ready, q.Ready)
	s.within("check", rows, check, q.Check)
	s.within("first", rows, waiting, q.First)
	pieces := q.Pieces
	if pieces == 0 || !m.grouped {
		pieces = len(m.rows)
	}
	most := cmp.Or(q.PieceRows, len(m.rows))
	others := min(len(ready), q.Ready) + min(len(check), q.Check) + min(len(waiting), q.First)
	first := m.firstRelease(queued, q.First-min(len(waiting), q.First), pieces, most, others)
	if len(rows) < others || !slices.Equal(rows[others:], first) {
		s.fail("released %v: want %d rows that waited, then %v", rows, others, first)
	}
	for _, row := range r.Rows {
		if !strings.HasPrefix(string(row.Content), "row ") || row.Err != nil {
			s.fail("row %d: %q, %v", row.Row, row.Content, row.Err)
		}
	}
	s.model.release(m, r.Token, rows)
	s.tokens = append(s.tokens, r.Token)
	return r.Due, true
}

// within checks how many rows of a sort were released.
func (s *simulation) within(sort string, rows, of []ledger.Row, quota int) {
	n := 0
	for _, row := range rows {
		if slices.Contains(of, row) {
			n++
		}
	}
	if n != min(len(of), quota) {
		s.fail("released %v of %s: %d, want %d of %v", rows, sort, n, min(len(of), quota), of)
	}
}

func (s *simulation) begin() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseReleased)
	e := ledger.Execution{Token: s.tokens[s.rand.IntN(len(s.tokens))], Nonce: ledger.NewNonce(),
		Session: s.sessions[s.rand.IntN(len(s.sessions))]}
	if token := m.rows[rows[0]].token; token != "" && s.rand.IntN(8) > 0 {
		e.Token = token
	}
	if s.rand.IntN(8) == 0 {
		e = s.execution(m, rows) // once more
	}
	s.nonces = append(s.nonces, e)
	s.attempt(fmt.Sprintf("begin %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			b, err := l.Begin(s.t.Context(), seg, e, rows...)
			return b.Receipt, err
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status { return s.model.begin(m, e, row) })
		})
}

func each(rows []ledger.Row, f func(ledger.Row) ledger.Status) []ledger.Status {
	var all []ledger.Status
	for _, row := range rows {
		all = append(all, f(row))
	}
	return all
}

var outcomes = []ledger.Outcome{ledger.Done, "unchanged", "failed", ledger.Cancelled}

func (s *simulation) settle() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	r := ledger.Result{Outcome: outcomes[s.rand.IntN(len(outcomes))], Detail: []string{"", "why: a:b"}[s.rand.IntN(2)]}
	s.attempt(fmt.Sprintf("settle %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.Settle(s.t.Context(), seg, n, r, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status { return m.finish(n, r.Outcome, r.Detail, row) })
		})
}

func (s *simulation) dismiss() {
	if s.rand.IntN(3) > 0 {
		return // else nothing is left for the others
	}
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseQueued)[:1]
	r := ledger.Result{Outcome: outcomes[s.rand.IntN(len(outcomes))], Detail: "dismissed"}
	s.attempt(fmt.Sprintf("dismiss %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.Dismiss(s.t.Context(), seg, r, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status { return m.dismiss(r.Outcome, r.Detail, row) })
		})
}

func (s *simulation) wait() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	w := ledger.Waiting{
		Stage: []ledger.Stage{ledger.StageCheck, ledger.StageReady}[s.rand.IntN(2)], CountAttempt: s.rand.IntN(2) == 0,
		After: time.Duration(s.rand.IntN(3)) * time.Hour, Memo: []byte([]string{"", "a;b,c:1", "\x00\xff"}[s.rand.IntN(3)]),
	}
	s.attempt(fmt.Sprintf("wait %v with %v of segment %d", w.After, rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.Wait(s.t.Context(), seg, n, w, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status {
				return m.end(n, ledger.RowEnd{Row: row, Ending: w}, s.model.now)
			})
		})
}

func (s *simulation) giveUp() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	after := time.Duration(s.rand.IntN(2)) * time.Hour
	s.attempt(fmt.Sprintf("give up %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.GiveUp(s.t.Context(), seg, n, after, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status {
				return m.end(n, ledger.RowEnd{Row: row, Ending: ledger.GiveBack{After: after}}, s.model.now)
			})
		})
}

func (s *simulation) giveBack() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseReleased)
	token := s.tokens[s.rand.IntN(len(s.tokens))]
	if own := m.rows[rows[0]].token; own != "" {
		token = own
	}
	s.attempt(fmt.Sprintf("give back %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.GiveBack(s.t.Context(), seg, token, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status {
				r := &m.rows[row]
				switch {
				case r.phase == ledger.PhaseSettled:
					return ledger.RowSettled
				case r.phase == ledger.PhaseReleased && r.token == token:
					r.ended = string(token)
				case r.ended == string(token):
					return ledger.RowEnded
				default:
					return ledger.RowSuperseded
				}
				m.wait(r, s.model.now)
				if r.phase == ledger.PhaseSettled {
					return ledger.RowCancelled
				}
				return ledger.RowWritten
			})
		})
}

func (s *simulation) reclaim() {
	seg, m := s.pick()
	dead := s.sessions[s.rand.IntN(len(s.sessions))]
	s.attempt(fmt.Sprintf("reclaim segment %d from %s", seg.Number, dead), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			_, r, err := l.Reclaim(s.t.Context(), seg, dead)
			return r, err
		}, func(m *modelSegment) []ledger.Status {
			for i := range m.rows {
				if r := &m.rows[i]; r.phase == ledger.PhaseInProgress && r.session == dead {
					m.die(r, s.model.now)
				}
			}
			return nil
		})
}

func (s *simulation) intend() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	intent := fmt.Sprintf("intent:%d", s.rand.IntN(3))
	s.attempt(fmt.Sprintf("intend %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.Intend(s.t.Context(), seg, n, []byte(intent), rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status {
				status := m.allowed(n, row)
				if status != ledger.RowAdmitted {
					return status
				}
				m.rows[row].intent = intent
				return ledger.RowWritten
			})
		})
}

func (s *simulation) withdraw() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	s.attempt(fmt.Sprintf("withdraw %v of segment %d", rows, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.Withdraw(s.t.Context(), seg, n, rows...)
		}, func(m *modelSegment) []ledger.Status {
			return each(rows, func(row ledger.Row) ledger.Status {
				r, status := m.owned(n, row)
				if r != nil {
					r.intent = ""
				}
				return status
			})
		})
}

// pass lets time pass for the ledger and the model.
func (s *simulation) pass() {
	d := []time.Duration{20 * time.Second, 20 * time.Minute, time.Hour}[s.rand.IntN(3)]
	s.note("%v pass", d)
	for n := range s.model.segments {
		s.worker.pass(segment(s.subject, n), d)
	}
	s.ageIndex(d)
	s.model.now += d
	s.savedPassed = append(s.savedPassed, d)
}

// control changes the run's control. At times the command is killed; that of a cancel is then
// repeated.
func (s *simulation) control() {
	change, do := "resume", (*ledger.Ledger).Resume
	switch s.rand.IntN(5) {
	case 0:
		change, do = "cancel", (*ledger.Ledger).Cancel
	case 1, 2:
		change, do = "pause", (*ledger.Ledger).Pause
	}
	l, lossy := s.Ledger, s.rand.IntN(2) == 0
	if lossy {
		l = s.lossy
		s.faults.arm(s.rand.IntN(6), s.rand.IntN(2) == 0)
	}
	err := do(l, s.t.Context(), s.tenant, s.subject.ID)
	lost := lossy && s.faults.disarm()
	s.note("control %s: %v, lost %v", change, err, lost)
	if lost && s.model.header.cancelled { // whose header no longer shows whether it was paused
		err, lost = do(s.Ledger, s.t.Context(), s.tenant, s.subject.ID), false
	}
	now := s.get(s.subject.ID)
	switch {
	case s.model.ended() || change == "pause" && s.model.header.cancelled:
		if !lost && !errors.Is(err, ledger.ErrEnded) {
			s.fail("%s of a run that has ended or was cancelled: %v, want %v", change, err, ledger.ErrEnded)
		}
		return
	case !lost && err != nil:
		s.fail("control %s: %v", change, err)
	case change == "cancel" && !now.Cancelled, change != "cancel" && now.Paused != (change == "pause"):
		if !lost {
			s.fail("control %s: %+v", change, now.Control)
		}
		return // the command was lost
	}
	s.model.change(change)
	if change == "cancel" {
		if err := s.Cancel(s.t.Context(), s.tenant, s.subject.ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
			s.fail("cancel again: %v", err)
		}
		for _, m := range s.model.segments { // it inspects them
			s.model.lapse(m)
		}
		s.ageIndex(10 * time.Second) // those with due rows were taken by that
	}
}

// save stores the present state, to which Redis may go back.
func (s *simulation) save() {
	s.saved, s.savedModel, s.savedPassed = remember(s.t, s.rdb), s.model.clone(), nil
	s.note("save")
}

// forget makes Redis lose all writes since save. Time does not go back.
func (s *simulation) forget() {
	if s.saved == nil {
		return
	}
	var aged time.Duration
	for _, d := range s.savedPassed {
		aged += d
	}
	s.note("forget")
	now := s.model.now
	s.saved.restore(s.t, s.rdb, "")
	s.model = s.savedModel.clone()
	s.model.now = now
	for n := range s.model.segments {
		s.worker.pass(segment(s.subject, n), aged)
	}
	s.ageIndex(aged + 10*time.Second) // segments that were taken then are due again
}

// compare checks every row.
func (s *simulation) compare() {
	if d := s.difference(); d != "" {
		s.fail("the ledger differs:\n%s", d)
	}
}

func (s *simulation) difference() string {
	now, err := s.Now(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var all [][]ledger.RowState
	for n := range s.model.segments {
		all = append(all, s.rows(segment(s.subject, n)))
	}
	want := map[string]int{}
	for n, m := range s.model.segments {
		for _, r := range m.rows {
			if r.phase == ledger.PhaseInProgress {
				want[fmt.Sprintf("%s,%s", r.session, segment(s.subject, n))]++
			}
		}
	}
	// A row whose worker died for the second time waits for 0.74 s or more, by chance.
	d := s.model.difference(all, now.Add(700*time.Millisecond))
	if have := s.inProgress(); fmt.Sprint(have) != fmt.Sprint(want) {
		d += fmt.Sprintf("\nin progress\n\thave %v\n\twant %v", have, want)
	}
	return d
}

// end resumes the run, executes due rows until none is left, and checks that the run has ended
// once, with the counts of the model.
func (s *simulation) end() {
	_ = s.Resume(s.t.Context(), s.tenant, s.subject.ID) // fails after the end, which is checked below
	if !s.model.ended() {
		s.model.change("resume")
	}
	for range 4 {
		s.pass()
		for n, m := range s.model.segments {
			seg := segment(s.subject, n)
			s.worker.pass(seg, 3*time.Hour)
			r := s.worker.release(seg, all)
			s.settleRows(seg, m, r)
		}
	}
	run, counts := s.get(s.subject.ID), s.model.counts()
	if !run.Ended() || !equalCounts(run.Counts, counts) {
		s.fail("run %+v, want it ended with %v", run, counts)
	}
	var sum int
	for _, segment := range s.segments(s.subject.ID) {
		sum += segment.Settled
	}
	if int64(sum) != run.Rows {
		s.fail("%d rows settled in the segments, want %d", sum, run.Rows)
	}
	if due, _, err := s.TakeDue(s.t.Context(), s.tenant, 100); err != nil || len(due) > 0 {
		s.fail("due after the end: %v, %v", due, err)
	}
}

func (s *simulation) settleRows(seg ledger.Segment, m *modelSegment, r ledger.Release) {
	if len(r.Rows) > 0 {
		e := s.worker.begin(seg, r.Token, numbers(r)...)
		s.worker.settle(seg, e, numbers(r)...)
	}
	for i := range m.rows {
		row := &m.rows[i]
		switch {
		case slices.Contains(numbers(r), ledger.Row(i)):
			row.settle(ledger.Done, "")
		case row.phase != ledger.PhaseSettled && m.control.cancelled && row.intent == "" && row.phase != ledger.PhaseQueued:
			row.settle(ledger.Cancelled, "") // its execution lapsed
		}
	}
}

// endEach ends an execution of rows, each in its own way.
func (s *simulation) endEach() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	var ends []ledger.RowEnd
	for _, row := range rows {
		ends = append(ends, ledger.RowEnd{Row: row, Ending: s.ending()})
	}
	s.attempt(fmt.Sprintf("end %+v of segment %d", ends, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.End(s.t.Context(), seg, n, ends...)
		}, func(m *modelSegment) (all []ledger.Status) {
			for _, e := range ends {
				all = append(all, m.end(n, e, s.model.now))
			}
			return all
		})
}

// ending returns a random ending.
func (s *simulation) ending() ledger.Ending {
	after := time.Duration(s.rand.IntN(2)) * time.Hour
	switch s.rand.IntN(3) {
	case 0:
		return ledger.Result{Outcome: outcomes[s.rand.IntN(len(outcomes))], Detail: []string{"", "why: a:b"}[s.rand.IntN(2)]}
	case 1:
		stage := []ledger.Stage{ledger.StageCheck, ledger.StageReady}[s.rand.IntN(2)]
		return ledger.Waiting{Stage: stage, After: after, CountAttempt: s.rand.IntN(2) == 0, Memo: []byte("memo")}
	}
	return ledger.GiveBack{After: after, Note: []string{"", "a;b,1:2"}[s.rand.IntN(2)]}
}

// receipt compares the reports of a receipt and of a release with the model of the segment.
func (s *simulation) receipt() {
	seg, m := s.pick()
	var rows []ledger.Row
	for row := range m.rows {
		rows = append(rows, ledger.Row(row))
	}
	r, err := s.Withdraw(s.t.Context(), seg, ledger.NewNonce(), rows...) // changes nothing
	if err != nil {
		s.fail("withdraw: %v", err)
		return
	}
	released, err := s.Release(s.t.Context(), seg, ledger.Quota{})
	if err != nil || len(released.Rows) > 0 {
		s.fail("release none: %v, %v", numbers(released), err)
		return
	}
	s.learn(seg, released.Due)
	s.model.lapse(m)
	s.note("receipt of segment %d: %+v, open %+v", seg.Number, r, released.Open)
	have, open := released.Open, m.report(s.model.now)
	if m.control.cancelled { // releases ended by the cancel remain until they lapse
		have.Released, open.Released = 0, 0
	}
	if have != open || r.Stopped != m.control.paused || r.Cancelled != m.control.cancelled {
		s.fail("receipt %+v, want %+v", r, open)
	}
}
