package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// process is a worker process that executes tasks side by side. It dies once each of them has
// ended or is in its handler, if the row is among the latter that takes it down.
type process struct {
	settled chan ledger.Row // rows that are in the handler, and rows whose task has ended
	poison  atomic.Bool
	decided chan struct{}
}

func (p *process) handle(_ context.Context, _ *engine.Execution, row *engine.Row) (ledger.Result, error) {
	if string(row.Content) == `{"poison":true}` {
		p.poison.Store(true)
	}
	p.settled <- row.Number
	<-p.decided
	if p.poison.Load() {
		runtime.Goexit() // as all others of this process
	}
	return ledger.Result{}, nil
}

// TestCrashLoop has a row take its worker down again and again, and twenty rows in progress at a
// time: that row fails in the end, and each of 300 others is done without an attempt lost.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	clock, now := redistest.Mini(t), time.Now()
	rows := []string{`{"poison":true}`}
	for i := range 300 {
		rows = append(rows, fmt.Sprintf(`{"n":%d}`, i))
	}
	s.submit("test", rows...)
	deaths := 0
	for range 1000 {
		now = now.Add(40 * time.Minute) // each row that waits is due
		clock.SetTime(now)
		r, err := s.Release(t.Context(), s.segment(), ledger.Quota{First: 10, Check: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) == 0 {
			break
		}
		p := &process{settled: make(chan ledger.Row, 2*len(r.Rows)), decided: make(chan struct{})}
		e, session := s.worker(func(c *engine.Config) { c.Handlers["test"] = engine.One(p.handle) })
		var tasks sync.WaitGroup
		for _, row := range r.Rows {
			tasks.Go(func() {
				defer func() { p.settled <- row.Row }()
				_ = e.ProcessTask(t.Context(), s.task(engine.NewTask(s.run, s.segment(), r.Token, row)))
			})
		}
		for rows := map[ledger.Row]bool{}; len(rows) < len(r.Rows); {
			rows[<-p.settled] = true
		}
		close(p.decided)
		tasks.Wait()
		if p.poison.Load() {
			deaths++
			if _, _, err := s.Reclaim(t.Context(), s.segment(), session); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, row := range s.rows() {
		switch failed := row.Result.Outcome == engine.Failed; {
		case i == 0 && (!failed || !strings.Contains(row.Result.Detail, "given up after 17 attempts")):
			t.Errorf("the row that took %d workers down: %+v", deaths, row.Result)
		case i > 0 && row.Result.Outcome != ledger.Done:
			t.Errorf("row %d beside it: %+v", i, row)
		}
	}
	if deaths != engine.MaxAttempts+2 {
		t.Errorf("%d workers died, want %d", deaths, engine.MaxAttempts+2)
	}
}
