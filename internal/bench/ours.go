package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

const (
	runID = "bench"
	// tooLong ends a round in which rows got stuck.
	tooLong = 10 * time.Minute
)

// ours is a worker that has not yet started, with rows waiting for it.
type ours struct {
	worker  *worker
	ledger  *runs.Ledger
	watched *watchedLedger
}

func prepareOurs(ctx context.Context, s *store, t *tenant, file []byte) (contender, error) {
	rows, err := handIn(ctx, s.url, tasks.TypeVerify, runID, "domains.csv", opened(file))
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	watched := &watchedLedger{ended: make(chan struct{})}
	watched.open.Store(rows)
	w, err := newWorker(s, t.endpoint, watched, pace.Limit{})
	if err != nil {
		return nil, err
	}
	ledger := runs.New(w.redis)
	watched.Ledger = ledger
	return &ours{worker: w, ledger: ledger, watched: watched}, nil
}

func (o *ours) close() error { return o.worker.close() }

// carryOut starts the worker, and fails where not all rows become verified.
func (o *ours) carryOut(ctx context.Context) (time.Duration, error) {
	if err := o.worker.servers.Start(); err != nil {
		return 0, err
	}
	defer o.worker.stop()
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	select {
	case <-o.watched.ended:
	case <-ctx.Done():
		return 0, fmt.Errorf("%d rows are still open: %w", o.watched.open.Load(), ctx.Err())
	}
	run, err := o.ledger.Get(ctx, runID)
	if err != nil {
		return 0, err
	}
	if run.Counts[string(tasks.Done)] != run.Total {
		return 0, fmt.Errorf("of %d rows not all were verified: %v", run.Total, run.Counts)
	}
	return o.watched.end.Sub(o.watched.start), nil
}

// watchedLedger is the ledger, and takes the time at which the first task
// begins and the last row settles.
type watchedLedger struct {
	tasks.Ledger

	began sync.Once
	start time.Time
	open  atomic.Int64 // rows
	end   time.Time    // once ended is closed
	ended chan struct{}
}

// Standing is what a worker asks first of all about a task.
func (l *watchedLedger) Standing(ctx context.Context, run, kind string, generation int, items []int64) ([]bool, map[string][]byte, string, error) {
	l.began.Do(func() { l.start = time.Now() })
	return l.Ledger.Standing(ctx, run, kind, generation, items)
}

// Settle counts the rows that are left.
func (l *watchedLedger) Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error {
	err := l.Ledger.Settle(ctx, run, kind, generation, items, outcome, detail)
	if err == nil {
		l.settled(len(items))
	}
	return err
}

// SettleRow counts it too.
func (l *watchedLedger) SettleRow(ctx context.Context, run, kind string, generation int, item int64, name string, mark []byte, outcome, detail string, evidence []byte) (string, error) {
	against, err := l.Ledger.SettleRow(ctx, run, kind, generation, item, name, mark, outcome, detail, evidence)
	if err == nil && against == "" {
		l.settled(1)
	}
	return against, err
}

func (l *watchedLedger) settled(rows int) {
	if l.open.Add(-int64(rows)) == 0 {
		l.end = time.Now()
		close(l.ended)
	}
}
