package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

const (
	tenant = ledger.Tenant("acme")
	kind   = ledger.Kind("domain:verify")
)

// all is the largest quota.
var all = ledger.Quota{First: 1000, Check: 1000, Ready: 1000}

// worker is a session of a worker, and a ledger on the test's Redis.
type worker struct {
	*ledger.Ledger
	t       testing.TB
	rdb     redis.Cmdable
	session ledger.SessionID
	tenant  ledger.Tenant
}

func newWorker(t testing.TB) *worker {
	t.Helper()
	return on(t, redistest.New(t))
}

func on(t testing.TB, rdb redis.Cmdable) *worker {
	return &worker{Ledger: ledger.New(rdb), t: t, rdb: rdb, session: ledger.NewSessionID(), tenant: tenant}
}

// content returns the rows from first on, each with its number.
func content(first, n int) [][]byte {
	rows := make([][]byte, n)
	for i := range rows {
		rows[i] = fmt.Appendf(nil, "row %d", first+i)
	}
	return rows
}

// create creates a staged run.
func (w *worker) create(id ledger.RunID) ledger.Run {
	w.t.Helper()
	return w.createWith(id, ledger.Control{})
}

// createWith creates a staged run with a control.
func (w *worker) createWith(id ledger.RunID, c ledger.Control) ledger.Run {
	w.t.Helper()
	run, created, err := w.Create(w.t.Context(), ledger.NewRun{ID: id, Tenant: w.tenant, Kind: kind, Control: c})
	if err != nil || !created {
		w.t.Fatalf("create %s: created %v, %v", id, created, err)
	}
	return run
}

// submit creates and commits a run with segments of these sizes.
func (w *worker) submit(id ledger.RunID, sizes ...int) ledger.Run {
	w.t.Helper()
	return w.submitWith(id, ledger.Control{}, sizes...)
}

// submitWith is like submit, with a control.
func (w *worker) submitWith(id ledger.RunID, c ledger.Control, sizes ...int) ledger.Run {
	w.t.Helper()
	run := w.createWith(id, c)
	var sums []ledger.Sum
	first := 0
	for number, size := range sizes {
		sum, err := w.Stage(w.t.Context(), run, number, content(first, size))
		if err != nil {
			w.t.Fatal(err)
		}
		sums = append(sums, sum)
		first += size
	}
	run, err := w.Commit(w.t.Context(), run, sums)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// notBefore sets the time before which no row of the run may begin to d from now. If d is not
// positive, the run may begin.
func (w *worker) notBefore(id ledger.RunID, d time.Duration) {
	w.t.Helper()
	at := time.Time{}
	if d > 0 {
		at = w.redisNow().Add(d)
	}
	if err := ledger.SetNotBefore(w.t.Context(), w.rdb, w.get(id), at); err != nil {
		w.t.Fatal(err)
	}
}

// TakeDue takes due segments of one tenant.
func (w *worker) TakeDue(ctx context.Context, t ledger.Tenant,
	n int) (due []ledger.Segment, next time.Time, err error) {
	all, err := w.Ledger.TakeDue(ctx, t, n)
	return all.Segments, all.Next, err
}

func segment(run ledger.Run, number int) ledger.Segment {
	return ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation, Number: number}
}

// release releases rows, and fails unless their contents are their numbers.
func (w *worker) release(seg ledger.Segment, q ledger.Quota) ledger.Release {
	w.t.Helper()
	r, err := w.Release(w.t.Context(), seg, q)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Err != nil || !strings.HasPrefix(string(row.Content), "row ") {
			w.t.Errorf("row %d is %q, %v", row.Row, row.Content, row.Err)
		}
	}
	return r
}

func numbers(r ledger.Release) []ledger.Row {
	var rows []ledger.Row
	for _, row := range r.Rows {
		rows = append(rows, row.Row)
	}
	return rows
}

// execution is a started execution.
type execution struct {
	ledger.Begun
	nonce ledger.Nonce
}

// begin begins rows of a release, and returns the execution.
func (w *worker) begin(seg ledger.Segment, token ledger.Token, rows ...ledger.Row) execution {
	w.t.Helper()
	nonce := ledger.NewNonce()
	b, err := w.Begin(w.t.Context(), seg, ledger.Execution{Token: token, Nonce: nonce, Session: w.session}, rows...)
	if err != nil {
		w.t.Fatal(err)
	}
	return execution{Begun: b, nonce: nonce}
}

// take releases and begins one row that was never released.
func (w *worker) take(seg ledger.Segment) (execution, ledger.Row) {
	w.t.Helper()
	r := w.release(seg, ledger.Quota{First: 1})
	if len(r.Rows) != 1 {
		w.t.Fatalf("%d rows released, want 1", len(r.Rows))
	}
	e := w.begin(seg, r.Token, r.Rows[0].Row)
	want(w.t, e.Receipt, ledger.RowAdmitted)
	return e, r.Rows[0].Row
}

// settle settles rows as done.
func (w *worker) settle(seg ledger.Segment, e execution, rows ...ledger.Row) ledger.Receipt {
	w.t.Helper()
	r, err := w.Settle(w.t.Context(), seg, e.nonce, ledger.Result{Outcome: ledger.Done}, rows...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// settleAll executes every row of the segment that is due.
func (w *worker) settleAll(seg ledger.Segment) (last ledger.Receipt) {
	w.t.Helper()
	for {
		r := w.release(seg, all)
		if len(r.Rows) == 0 {
			return last
		}
		last = w.settle(seg, w.begin(seg, r.Token, numbers(r)...), numbers(r)...)
	}
}

// want compares the statuses of a receipt.
func want(t testing.TB, r ledger.Receipt, statuses ...ledger.Status) {
	t.Helper()
	if fmt.Sprint(r.Statuses) != fmt.Sprint(statuses) {
		t.Fatalf("statuses %v, want %v", r.Statuses, statuses)
	}
}

func (w *worker) get(id ledger.RunID) ledger.Run {
	w.t.Helper()
	run, err := w.Get(w.t.Context(), "", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// segments returns the states of a run's segments.
func (w *worker) segments(id ledger.RunID) []ledger.SegmentState {
	w.t.Helper()
	all, err := w.Segments(w.t.Context(), w.get(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// dispatch inspects all segments that are due, as a dispatcher does that releases nothing.
func (w *worker) dispatch() {
	w.t.Helper()
	due, _ := w.takeDue()
	for _, seg := range due {
		w.release(seg, ledger.Quota{})
	}
}

// rows returns the states of a segment's rows.
func (w *worker) rows(seg ledger.Segment) []ledger.RowState {
	w.t.Helper()
	var all []ledger.RowState
	for len(all) < ledger.SegmentRows {
		page, err := w.Rows(w.t.Context(), seg, ledger.Row(len(all)), ledger.SegmentRows)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	return all
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// must fails the test unless the operation succeeds.
func (w *worker) must(operation func(context.Context, ledger.Tenant, ledger.RunID) error, id ledger.RunID) {
	w.t.Helper()
	if err := operation(w.t.Context(), w.tenant, id); err != nil {
		w.t.Fatal(err)
	}
}

// keysOf returns the keys that belong to a run, or to any where inc is empty.
func keysOf(t testing.TB, run ledger.Run) []string {
	t.Helper()
	return append(redistest.Keys(t, "*:run:"+string(run.ID)+":*"), redistest.Keys(t, "*:"+string(run.Incarnation)+".*")...)
}

// remove deletes the run, and checks that nothing is left of it.
func (w *worker) remove(run ledger.Run) {
	w.t.Helper()
	w.must(w.Delete, run.ID)
	if keys := keysOf(w.t, run); len(keys) > 0 {
		w.t.Errorf("keys %q remain", keys)
	}
}

// store stores a field of a hash, as no script does.
func (w *worker) store(key, field, value string) {
	w.t.Helper()
	if err := w.rdb.HSet(w.t.Context(), key, field, value).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// setMemory sets Redis' maxmemory: "1" refuses writes, "0" allows them again.
func setMemory(t testing.TB, rdb redis.Cmdable, limit string) {
	t.Helper()
	if err := rdb.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
		t.Error(err)
	}
}

// pass lets time pass, by moving all stored times of a segment back: only the clock of
// miniredis can be set.
func (w *worker) pass(seg ledger.Segment, d time.Duration) {
	w.t.Helper()
	if err := ledger.Age(w.t.Context(), w.rdb, seg, d); err != nil {
		w.t.Fatal(err)
	}
}
