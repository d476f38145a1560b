package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/ledger"
	"orgops/tasks"
)

const (
	runID = "bench"
	// tooLong ends a round in which rows got stuck.
	tooLong = 10 * time.Minute
	// tenantName is that whose queues are used.
	tenantName = tasks.DefaultTenant
)

// ours is a worker that is ready, a process as it is shipped, and rows that are not submitted yet.
type ours struct {
	store *store
	fleet fleet
	file  []byte
}

func prepareOurs(ctx context.Context, s *store, t *tenant, file []byte) (contender, error) {
	workers, err := startFleet(ctx, s, 1, []served{{tenant: t, name: tenantName}})
	if err != nil {
		return nil, errors.Join(err, workers.close())
	}
	return &ours{store: s, fleet: workers, file: file}, nil
}

func (o *ours) close() error { return o.fleet.close() }

// cpu is the processor time that the worker has used so far.
func (o *ours) cpu() time.Duration { return processCPU(o.fleet[0].process.Process.Pid) }

// carryOut submits the rows, and fails where not all of them become verified.
func (o *ours) carryOut(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	began := time.Now()
	if _, err := submit(ctx, o.store.url, tasks.TypeVerify, runID, "domains.csv", bytes.NewReader(o.file)); err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	run, err := ended(ctx, o.store, runID, 10*time.Millisecond)
	took := time.Since(began)
	if err != nil {
		return 0, errors.Join(err, o.fleet.said())
	}
	if run.Counts[ledger.Done] != run.Total() {
		return 0, fmt.Errorf("of %d rows not all were verified: %v", run.Total(), run.Counts)
	}
	return took, nil
}

// ended waits for the end of a run, and reads it so often.
func ended(ctx context.Context, s *store, run ledger.RunID, every time.Duration) (ledger.Run, error) {
	for ledger := ledger.New(s.admin); ; {
		r, err := ledger.Get(ctx, tenantName, run)
		if err != nil || r.Ended() {
			return r, err
		}
		if err := pause(ctx, every); err != nil {
			return r, fmt.Errorf("run %s: %d of %d rows are settled: %w", run, r.Settled(), r.Total(), err)
		}
	}
}
