package ledger_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestFleet has two dispatchers and four workers execute a run concurrently, while it is
// paused and resumed, rows are delivered twice, and sessions expire whose executions continue.
// Each row must be settled by one execution, and the run must end once.
func TestFleet(t *testing.T) {
	w := newWorker(t)
	size := redistest.Amount(15, 30)
	all := 3 * size
	run := w.submit("a", size, size, size)
	f := &fleet{worker: w, run: run, queue: make(chan delivery, 1000), settled: map[ledger.Segment]map[ledger.Row]int{}}
	var dispatchers, workers sync.WaitGroup
	for range 2 {
		dispatchers.Go(f.dispatch)
	}
	dispatchers.Go(f.control)
	for range 4 {
		workers.Go(f.work)
	}
	dispatchers.Wait()
	close(f.queue)
	workers.Wait()

	rows := 0
	for seg, of := range f.settled {
		for row, n := range of {
			if rows++; n != 1 {
				t.Errorf("row %d of %s was settled %d times", row, seg, n)
			}
		}
	}
	if rows != all {
		t.Errorf("%d rows were settled, want %d", rows, all)
	}
	if n := f.ended.Load(); n > 1 { // 0: it ended by a control, which does not report it
		t.Errorf("the run ended %d times", n)
	}
	if counts := w.get("a").Counts; counts[ledger.Done] != int64(all) {
		t.Errorf("counts %v", counts)
	}
}

type delivery struct {
	seg   ledger.Segment
	token ledger.Token
	row   ledger.Row
}

type fleet struct {
	*worker
	run   ledger.Run
	queue chan delivery
	ended atomic.Int64

	mu      sync.Mutex
	settled map[ledger.Segment]map[ledger.Row]int
}

// over reports whether the run has ended, or the test failed.
func (f *fleet) over() bool {
	run, err := f.Get(f.t.Context(), "", f.run.ID)
	if err != nil {
		f.t.Error(err)
	}
	return err != nil || run.Ended() || f.t.Failed()
}

func (f *fleet) check(err error) bool {
	if err != nil {
		f.t.Error(err)
	}
	return err == nil
}

func (f *fleet) dispatch() {
	for !f.over() {
		due, _, err := f.TakeDue(f.t.Context(), f.tenant, 2)
		f.check(err)
		for _, seg := range due {
			r, err := f.Release(f.t.Context(), seg, ledger.Quota{First: 10, Check: 10, Ready: 10})
			f.check(err)
			for _, row := range r.Rows {
				for range 1 + rand.IntN(2) {
					f.queue <- delivery{seg, r.Token, row.Row}
				}
			}
			if r.Due.Equal(ledger.DueNow) { // as one of which rows are still due
				f.check(ledger.AgeIndex(f.t.Context(), f.rdb, f.tenant, 10*time.Second))
			}
		}
	}
}

func (f *fleet) control() {
	for !f.over() {
		_ = f.Pause(f.t.Context(), tenant, f.run.ID) // fails after the end
		_ = f.Resume(f.t.Context(), tenant, f.run.ID)
	}
}

func (f *fleet) work() {
	for d := range f.queue {
		e := ledger.Execution{Token: d.token, Nonce: ledger.NewNonce(), Session: ledger.NewSessionID()}
		b, err := f.Begin(f.t.Context(), d.seg, e, d.row)
		if !f.check(err) {
			continue // read on, or the dispatchers would wait for ever
		}
		f.report(b.Receipt)
		if b.Rows[0].Status == ledger.RowAdmitted {
			f.execute(d, e)
		}
	}
}

// execute ends an execution in one of the ways in which one ends.
func (f *fleet) execute(d delivery, e ledger.Execution) {
	ctx := f.t.Context()
	switch rand.IntN(5) {
	case 0:
		_, r, err := f.Reclaim(ctx, d.seg, e.Session)
		f.check(err)
		f.report(r)
	case 1:
		r, err := f.Wait(ctx, d.seg, e.Nonce, ledger.Waiting{Stage: ledger.StageReady}, d.row)
		f.check(err)
		f.report(r)
		return
	case 2:
		r, err := f.GiveUp(ctx, d.seg, e.Nonce, 0, d.row)
		f.check(err)
		f.report(r)
		return
	case 3:
		_, err := f.Intend(ctx, d.seg, e.Nonce, []byte("PATCH"), d.row)
		f.check(err)
	}
	r, err := f.Settle(ctx, d.seg, e.Nonce, ledger.Result{Outcome: ledger.Done}, d.row)
	f.check(err)
	f.report(r)
	if len(r.Statuses) == 1 && r.Statuses[0] == ledger.RowWritten {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.settled[d.seg] == nil {
			f.settled[d.seg] = map[ledger.Row]int{}
		}
		f.settled[d.seg][d.row]++
	}
}

func (f *fleet) report(r ledger.Receipt) { f.ended.Add(int64(count(r.Ended))) }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
