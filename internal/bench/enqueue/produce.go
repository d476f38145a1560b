package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"orgops/internal/intake"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/tasks"
)

// connections is as many as the enqueue command keeps.
const connections = 40

// produce is the process of one producer: it writes what it took.
func produce(ctx context.Context, as, url, file string, rows int, stdout io.Writer) (err error) {
	config := redisconn.Config{URL: url, PoolSize: connections}
	if as == producerPlain {
		config.PoolSize = plainGoroutines
	}
	rdb, err := redisconn.Open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	client := asynq.NewClientFromRedisClient(rdb)
	began := time.Now()
	if as == producerPlain {
		err = plain(ctx, client, rows)
	} else {
		err = ours(ctx, client, runs.New(rdb), file)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(timed{Rows: int64(rows), Seconds: time.Since(began).Seconds()})
}

// ours is what the enqueue command does: both passes, rows stored first.
func ours(ctx context.Context, client *asynq.Client, ledger *runs.Ledger, file string) (err error) {
	kind, _ := tasks.KindOf(tasks.TypeVerify)
	in := intake.Input{Name: file, Kind: kind, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	checked, err := in.Check()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, checked.Close()) }()
	taker := intake.Intake{Ledger: ledger, Producer: tasks.NewProducer(client, ledger)}
	run, created, err := taker.Begin(ctx, in, checked, intake.Run{ID: "bench", Tenant: tasks.DefaultTenant})
	if err != nil {
		return err
	}
	_, err = taker.HandIn(ctx, in, checked, run, created, 0)
	return err
}

// plainGoroutines is how many the plain loop enqueues from.
const plainGoroutines = 64

// plain enqueues tasks of the same size, and does nothing else.
func plain(ctx context.Context, client *asynq.Client, rows int) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range plainGoroutines {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= rows {
					return nil
				}
				body := fmt.Appendf(nil, `{"v":1,"tenant":"default","run":"bench","item":%d,"created_at":"2026-11-20T12:00:00.123Z","organization_id":"org_%016d","discovery_domain_id":"ord_%016d","give_up_at":"2026-11-23T12:00:00.123Z"}`, i, i/10, i)
				if _, err := client.EnqueueContext(ctx, asynq.NewTask(tasks.TypeVerify, body), asynq.Queue("default.dns")); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}
