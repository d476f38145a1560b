package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// noop passes one task a row through a queue, and does nothing else: it is what asynq alone
// can do.
type noop struct {
	rdb    redis.UniversalClient
	queue  *asynq.Client
	server *asynq.Server

	began sync.Once
	start time.Time
	open  atomic.Int64 // rows
	end   time.Time    // once ended is closed
	ended chan struct{}
}

func prepareNoop(ctx context.Context, s *store, _ *tenant, file []byte) (contender, error) {
	rdb, err := s.client()
	if err != nil {
		return nil, err
	}
	n := &noop{rdb: rdb, queue: asynq.NewClientFromRedisClient(rdb), ended: make(chan struct{})}
	n.server = asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: dnsConcurrency + apiConcurrency, Queues: map[string]int{noopQueue: 1},
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 200 * time.Millisecond,
		ShutdownTimeout: shutdownTimeout, LogLevel: asynq.FatalLevel,
	})
	if err := n.handIn(ctx, file); err != nil {
		return nil, errors.Join(fmt.Errorf("submit: %w", err), rdb.Close())
	}
	return n, nil
}

func (n *noop) close() error { return n.rdb.Close() }

const noopQueue = "noop"

// handIn enqueues a task for each row, with its ids.
func (n *noop) handIn(ctx context.Context, file []byte) error {
	rows, err := rowsOf(bytes.NewReader(file))
	if err != nil {
		return err
	}
	n.open.Store(int64(len(rows)))
	const inFlight = 32
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i, r := range rows {
		g.Go(func() error {
			payload, err := json.Marshal(map[string]string{"organization_id": r.organization, "discovery_domain_id": r.domain})
			if err != nil {
				return err
			}
			_, err = n.queue.EnqueueContext(ctx, asynq.NewTask(noopQueue, payload),
				asynq.TaskID(fmt.Sprintf("%s-%d", runID, i)), asynq.Queue(noopQueue))
			return err
		})
	}
	return g.Wait()
}

// ProcessTask counts a row.
func (n *noop) ProcessTask(context.Context, *asynq.Task) error {
	n.began.Do(func() { n.start = time.Now() })
	if n.open.Add(-1) == 0 {
		n.end = time.Now()
		close(n.ended)
	}
	return nil
}

func (n *noop) carryOut(ctx context.Context) (time.Duration, error) {
	defer n.stop()
	if err := n.server.Start(n); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	select {
	case <-n.ended:
		return n.end.Sub(n.start), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d rows are still open: %w", n.open.Load(), ctx.Err())
	}
}

// stop ends the server; if it was not started it does nothing.
func (n *noop) stop() { n.server.Shutdown() }
