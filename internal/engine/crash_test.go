package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// process is a worker process that executes tasks side by side. It dies once each of them has
// ended or is in its handler, if a row of the latter takes it down.
type process struct {
	settled chan int // tasks that are in the handler, and tasks that have ended
	poison  atomic.Bool
	decided chan struct{}
}

type taskKey struct{}

// Execute implements [engine.Handler].
func (p *process) Execute(ctx context.Context, x *engine.Execution) (engine.Answers, error) {
	for _, row := range x.Rows {
		if string(row.Content) == `{"poison":true}` {
			p.poison.Store(true)
		}
	}
	p.settled <- ctx.Value(taskKey{}).(int)
	<-p.decided
	if p.poison.Load() {
		runtime.Goexit() // as all others of this process
	}
	return nil, nil
}

// TestCrashLoop has a row take its worker down again and again, and ten tasks in progress at a
// time: that row fails in the end, and each of 300 others is done without an attempt lost.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 10} {
		t.Run(fmt.Sprintf("%d rows a task", batch), func(t *testing.T) {
			t.Parallel()
			crashLoop(t, batch)
		})
	}
}

func crashLoop(t *testing.T, batch int) {
	s := enginetest.New(t)
	clock, now := redistest.Mini(t), time.Now()
	rows := []string{`{"poison":true}`}
	for i := range 300 {
		rows = append(rows, fmt.Sprintf(`{"n":%d}`, i))
	}
	s.Submit("test", rows...)
	deaths := 0
	for range 1000 {
		now = now.Add(40 * time.Minute) // each row that waits is due
		clock.SetTime(now)
		r, err := s.Release(t.Context(), s.Segment(), ledger.Quota{First: 5 * batch, Check: 5 * batch})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) == 0 {
			break
		}
		p := &process{settled: make(chan int, 2*len(r.Rows)), decided: make(chan struct{})}
		e, session := s.Worker(func(c *engine.Config) { c.Handlers["test"] = p })
		var tasks sync.WaitGroup
		all := slices.Collect(slices.Chunk(r.Rows, batch))
		for i, rows := range all {
			task := s.Message(engine.NewTask(s.Run, s.Segment(), r.Token, rows...))
			tasks.Go(func() {
				defer func() { p.settled <- i }()
				_ = e.ProcessTask(context.WithValue(t.Context(), taskKey{}, i), task)
			})
		}
		for settled := map[int]bool{}; len(settled) < len(all); {
			settled[<-p.settled] = true
		}
		close(p.decided)
		tasks.Wait()
		if p.poison.Load() {
			deaths++
			if _, _, err := s.Reclaim(t.Context(), s.Segment(), session); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, row := range s.AllRows() {
		switch failed := row.Result.Outcome == ledger.Failed; {
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
