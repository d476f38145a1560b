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

	"orgops/tasks"
)

// noop passes two tasks a row through the queue, the first of which enqueues
// the second, with the payloads and the options that ours have, and does
// nothing else.
type noop struct {
	rdb     redis.UniversalClient
	queue   *asynq.Client
	servers []*asynq.Server

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
	n := &noop{rdb: rdb, queue: asynq.NewClientFromRedisClient(rdb), ended: make(chan struct{}), servers: []*asynq.Server{
		bareServer(rdb, dnsConcurrency, checkEvery, tasks.DNSQueue, tenantName),
		bareServer(rdb, apiConcurrency, checkEvery, tasks.APIQueue, tenantName),
	}}
	if err := n.handIn(ctx, file); err != nil {
		return nil, errors.Join(fmt.Errorf("submit: %w", err), rdb.Close())
	}
	return n, nil
}

func (n *noop) close() error { return n.rdb.Close() }

// handIn enqueues the first task of each row.
func (n *noop) handIn(ctx context.Context, file []byte) error {
	rows, err := rowsOf(bytes.NewReader(file))
	if err != nil {
		return err
	}
	n.open.Store(int64(len(rows)))
	const inFlight = 32
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	created := time.Now().UTC()
	for i, r := range rows {
		g.Go(func() error {
			payload, err := json.Marshal(tasks.VerifyPayload{
				Envelope:       tasks.Envelope{V: tasks.Version, Tenant: tenantName, Run: runID, Item: new(int64(i)), CreatedAt: created},
				OrganizationID: r.organization, DiscoveryDomainID: r.domain, GiveUpAt: created.Add(tasks.DefaultGiveUp),
			})
			if err != nil {
				return err
			}
			return n.enqueue(ctx, tasks.TypeVerify, fmt.Sprintf("%s-%d-0", runID, i), tasks.DNSQueue(tenantName, tasks.Normal), payload)
		})
	}
	return g.Wait()
}

func (n *noop) enqueue(ctx context.Context, typ, id, queue string, payload []byte) error {
	const outOfReach = 1 << 30
	_, err := n.queue.EnqueueContext(ctx, asynq.NewTask(typ, payload), asynq.TaskID(id), asynq.Queue(queue),
		asynq.MaxRetry(outOfReach), asynq.Timeout(10*time.Minute), asynq.Retention(15*time.Minute))
	return err
}

// ProcessTask hands the first task of a row on, and counts the second.
func (n *noop) ProcessTask(ctx context.Context, task *asynq.Task) error {
	n.began.Do(func() { n.start = time.Now() })
	if task.Type() == tasks.TypeVerify {
		id, _ := asynq.GetTaskID(ctx)
		return n.enqueue(ctx, tasks.TypeConfirm, id+"c", tasks.APIQueue(tenantName, tasks.Normal), task.Payload())
	}
	if n.open.Add(-1) == 0 {
		n.end = time.Now()
		close(n.ended)
	}
	return nil
}

func (n *noop) carryOut(ctx context.Context) (time.Duration, error) {
	defer n.stop()
	for _, server := range n.servers {
		if err := server.Start(n); err != nil {
			return 0, err
		}
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

// stop ends the servers; of one that was not started it does nothing.
func (n *noop) stop() {
	for _, server := range n.servers {
		server.Shutdown()
	}
}
