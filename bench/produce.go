package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/tasks"
)

// produceCommand makes of this program one producer.
const produceCommand = "produce"

// production has the arguments of a producer's process, in addition to --rows.
type production struct {
	URL  string `name:"url" noenv:"true" help:"The Redis."`
	As   string `noenv:"true" help:"The variant."`
	File string `noenv:"true" help:"Its rows."`
}

// produced is what the process says of its work when it is done.
type produced struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	Peak    int64   `json:"peak_bytes"` // the most memory that was resident; 0: not known
}

// produce is the process of one producer.
func produce(ctx context.Context, p production, rows int, stdout io.Writer) (err error) {
	began := time.Now()
	if p.As == variantPlain {
		err = enqueuePlainly(ctx, p.URL, rows)
	} else {
		err = submitFile(ctx, p.URL, p.File)
	}
	if err != nil {
		return err
	}
	pid := os.Getpid()
	return json.NewEncoder(stdout).Encode(produced{
		Seconds: time.Since(began).Seconds(), CPU: processCPU(pid).Seconds(), Peak: peakMemory(pid),
	})
}

// submit submits the rows of that kind as the enqueue command does, and returns their number.
func submit(ctx context.Context, url, kind, run, name string, rows io.Reader) (n int64, err error) {
	rdb, err := redisconn.Open(redisconn.Config{URL: url, AllowURLPassword: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	sum, err := intake.New(rdb, ledger.New(rdb)).Submit(ctx, intake.Input{Name: name, Kind: kind, Rows: rows},
		ledger.NewRun{ID: ledger.RunID(run), Tenant: tenantName,
			Description: ledger.Description{Label: "benchmark", Max: 1e9}})
	return sum.Rows, err
}

// submitFile does what enqueue domains verify does.
func submitFile(ctx context.Context, url, file string) (err error) {
	rows, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	_, err = submit(ctx, url, tasks.TypeVerify, runID, file, rows)
	return err
}

// plainGoroutines is how many the plain loop enqueues from.
const plainGoroutines = 64

// enqueuePlainly enqueues tasks with payloads as ours have them, and does
// nothing else: no row is read, checked or stored.
func enqueuePlainly(ctx context.Context, url string, rows int) (err error) {
	rdb, err := redisconn.Open(redisconn.Config{URL: url, AllowURLPassword: true, PoolSize: plainGoroutines})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	client := asynq.NewClientFromRedisClient(rdb)
	queue := asynq.Queue("plain")
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range plainGoroutines {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < rows; i = int(next.Add(1)) - 1 {
				body := fmt.Appendf(nil,
					`{"v":1,"tenant":"default","run":"bench","item":%d,"created_at":"2026-11-20T12:00:00.123Z","organization_id":"org_%016d","discovery_domain_id":"ord_%016d","give_up_at":"2026-11-23T12:00:00.123Z"}`, i, i/10, i)
				if _, err := client.EnqueueContext(ctx, asynq.NewTask(tasks.TypeVerify, body), queue); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// peakMemory is the most bytes that a process, which runs, has had resident; 0
// where the system does not say.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err == nil {
				return kB * 1024
			}
		}
	}
	return 0
}

// processCPU is the processor time that a process has used so far, to 10 ms; 0 where /proc
// does not say (proc(5): utime and stime are the fields 14 and 15).
func processCPU(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name of the program is in parentheses
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
