package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"orgops/internal/ledger"
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
	watched *watchedRows
}

// prepareOurs returns what makes a worker for a tenant with that limit.
func prepareOurs(limit pace.Limit) func(context.Context, *store, *tenant, []byte) (contender, error) {
	return func(ctx context.Context, s *store, t *tenant, file []byte) (contender, error) {
		rows, err := submit(ctx, s.url, tasks.TypeVerify, runID, "domains.csv", bytes.NewReader(file))
		if err != nil {
			return nil, fmt.Errorf("submit: %w", err)
		}
		watched := &watchedRows{open: rows, ended: make(chan struct{})}
		w, err := newWorker(s, t.endpoint, watched, limit)
		if err != nil {
			return nil, err
		}
		store := runs.New(w.redis)
		watched.Ledger = store.Core()
		return &ours{worker: w, ledger: store, watched: watched}, nil
	}
}

func (o *ours) close() error { return o.worker.close() }

// carryOut starts the worker, and fails where not all rows become verified.
func (o *ours) carryOut(ctx context.Context) (time.Duration, error) {
	if err := o.worker.start(); err != nil {
		return 0, err
	}
	defer o.worker.stop()
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	select {
	case <-o.watched.ended:
	case <-ctx.Done():
		return 0, fmt.Errorf("rows are still open: %w", ctx.Err())
	}
	run, err := o.ledger.Get(ctx, runID)
	if err != nil {
		return 0, err
	}
	if run.Counts[ledger.Done] != run.Total() {
		return 0, fmt.Errorf("of %d rows not all were verified: %v", run.Total(), run.Counts)
	}
	return o.watched.end.Sub(o.watched.start), nil
}
