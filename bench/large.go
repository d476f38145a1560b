package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/ledger"
	"orgops/internal/queues"
	"orgops/internal/rowfile"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// largeRows is the number of rows of the large run unless another is given.
const largeRows = 160_000

const (
	// largeServed is how many of its rows name domains that the tenant has. The others
	// are not reached while it is measured.
	largeServed = 5000
	// longCommand is the least duration of a command in Redis' slow log.
	longCommand = 500 * time.Microsecond
)

// largeLoad is how commands to a large run are measured.
type largeLoad struct {
	Watch   time.Duration `noenv:"true" default:"5s" help:"How long requests are watched after each command."`
	Expired int           `noenv:"true" default:"500000" help:"Rows of a run that is removed after its retention, which takes three minutes; 0: none."`
}

// largeResult is how a large run obeys commands, while two workers execute it at the
// rate of [paceRate]. Times are from the call of a command.
type largeResult struct {
	Benchmark string  `json:"benchmark"` // "large"
	Rows      int     `json:"rows"`
	Bytes     float64 `json:"redis_bytes_per_row"` // once submitted
	// Pause, Resume, Cancel and Delete are when the command returns.
	Pause  float64 `json:"pause_seconds"`
	Resume float64 `json:"resume_seconds"`
	Cancel float64 `json:"cancel_seconds"`
	Delete float64 `json:"delete_seconds"`
	// Paused and Cancelled are when the tenant gets the last request, Resumed when it
	// gets the first one.
	Paused    float64 `json:"last_request_after_pause_seconds"`
	Resumed   float64 `json:"first_request_after_resume_seconds"`
	Cancelled float64 `json:"last_request_after_cancel_seconds"`
	// Tasks is how many tasks the queue has, of any state, after the run was paused
	// and resumed.
	Tasks int     `json:"tasks_after_resume"`
	Ended float64 `json:"ended_after_cancel_seconds"` // the cancelled run
	// Longest is the longest time that Redis was busy with one command or with keys that
	// expire, in each part.
	Longest map[string]float64 `json:"longest_command_ms"`
}

// measureLarge submits a run, has two workers execute it, and gives commands meanwhile.
func measureLarge(ctx context.Context, s *store, l largeLoad, rows int, out, stderr io.Writer) (err error) {
	if err := s.logLong(ctx); err != nil {
		return err
	}
	return withTenant(ctx, s, stderr, func(t *tenant) (err error) {
		m := &large{store: s, tenant: t, runs: ledger.New(s.admin), load: l, stderr: stderr}
		m.result = largeResult{Benchmark: "large", Rows: rows, Longest: map[string]float64{}}
		if err := m.submit(ctx, rows); err != nil {
			return err
		}
		workers, err := startFleet(ctx, s, 2, t.paced(0.2))
		defer func() { err = errors.Join(err, workers.close()) }()
		if err != nil {
			return err
		}
		for _, step := range []func(context.Context) error{m.execute, m.pause, m.resume, m.cancel, m.delete, m.expire} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return write(out, m.result)
	}, limited(paceRate, paceBurst)...)
}

// large is the measurement of a large run.
type large struct {
	store  *store
	tenant *tenant
	runs   *ledger.Ledger
	load   largeLoad
	stderr io.Writer
	result largeResult
}

// part measures the longest command of do.
func (m *large) part(ctx context.Context, name string, do func() error) error {
	fmt.Fprintln(m.stderr, "measuring:", name)
	if err := m.store.forgetLong(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	longest, err := m.store.longest(ctx)
	m.result.Longest[name] = milliseconds(longest)
	return err
}

func (m *large) submit(ctx context.Context, rows int) error {
	path, err := m.store.file("updates.csv", func(w io.Writer) error { return m.writeRows(ctx, w, rows) })
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	before := m.store.memory(ctx)
	err = m.part(ctx, "submit", func() error {
		_, err := submit(ctx, m.store.url, tasks.TypeUpdate, runID, path, f)
		return err
	})
	m.result.Bytes = float64(m.store.memory(ctx)-before) / float64(rows)
	return err
}

// writeRows writes rows of domains update, the first of them of domains that there are.
func (m *large) writeRows(ctx context.Context, to io.Writer, rows int) error {
	_, served, err := m.tenant.updates(ctx, min(rows, largeServed))
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, bytes.NewReader(served)); err != nil {
		return err
	}
	w := csv.NewWriter(to)
	random := rand.New(rand.NewPCG(1, 2)) // the same rows each time
	for range rows - min(rows, largeServed) {
		if err := w.Write([]string{randomID(random, "org_"), randomID(random, "ord_"), "pending", "false"}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (m *large) execute(ctx context.Context) error {
	return m.part(ctx, "execute", func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the workers make no request"))
		defer cancel()
		for {
			log, err := m.tenant.requests(ctx)
			if err != nil {
				return errors.Join(err, context.Cause(ctx))
			}
			if len(log) > paceBurst {
				return pause(ctx, m.load.Watch)
			}
			if pause(ctx, 100*time.Millisecond) != nil {
				return context.Cause(ctx)
			}
		}
	})
}

// after returns how long after t the first and the last request came; 0: none came.
func (m *large) after(ctx context.Context, t time.Time) (first, last time.Duration, err error) {
	log, err := m.tenant.requests(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, q := range log {
		if d := q.At.Sub(t); d > 0 {
			last = d
			if first == 0 {
				first = d
			}
		}
	}
	return first, last, nil
}

// command measures a command, and the requests that the tenant gets after it.
func (m *large) command(ctx context.Context, name string,
	do func() error) (took float64, first, last time.Duration, err error) {
	err = m.part(ctx, name, func() error {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		took = time.Since(began).Seconds()
		if err := pause(ctx, m.load.Watch); err != nil {
			return err
		}
		first, last, err = m.after(ctx, began)
		return err
	})
	return took, first, last, err
}

func (m *large) pause(ctx context.Context) error {
	took, _, last, err := m.command(ctx, "pause", func() error { return m.runs.Pause(ctx, tenantName, runID) })
	m.result.Pause, m.result.Paused = took, last.Seconds()
	return err
}

func (m *large) resume(ctx context.Context) error {
	took, first, _, err := m.command(ctx, "resume", func() error { return m.runs.Resume(ctx, tenantName, runID) })
	if err == nil && first == 0 {
		return fmt.Errorf("no request came within %s of the run's being resumed", m.load.Watch)
	}
	m.result.Resume, m.result.Resumed = took, first.Seconds()
	if err != nil {
		return err
	}
	queue, err := asynq.NewInspectorFromRedisClient(m.store.admin).GetQueueInfo(queues.OfRows(tenantName))
	if err != nil {
		return fmt.Errorf("read the queue: %w", err)
	}
	m.result.Tasks = queue.Size
	return nil
}

func (m *large) cancel(ctx context.Context) error {
	began := time.Now()
	took, _, last, err := m.command(ctx, "cancel", func() error {
		run, err := m.runs.Get(ctx, tenantName, runID)
		if err == nil {
			err = m.runs.Cancel(ctx, run.Tenant, run.ID)
		}
		if err != nil {
			return err
		}
		m.result.Cancel = time.Since(began).Seconds()
		_, err = ended(ctx, m.store, runID, 50*time.Millisecond)
		return err
	})
	m.result.Ended, m.result.Cancelled = took, last.Seconds()
	return err
}

func (m *large) delete(ctx context.Context) (err error) {
	return m.part(ctx, "delete", func() error {
		began := time.Now()
		if err := m.runs.Delete(ctx, tenantName, runID); err != nil {
			return err
		}
		m.result.Delete = time.Since(began).Seconds()
		return pause(ctx, m.load.Watch)
	})
}

// expire measures the removal of a run whose rows each have a result, when its time is over.
func (m *large) expire(ctx context.Context) error {
	if m.load.Expired == 0 {
		return nil
	}
	run, _, err := m.runs.Create(ctx, ledger.NewRun{
		ID: runID, Kind: handlers.Update, Tenant: tenantName,
		Description: ledger.Description{Format: rowfile.FormatCSV,
			Columns: []string{"organization_id", "discovery_domain_id"}, KeepFor: time.Second},
	})
	if err != nil {
		return err
	}
	stager, err := m.runs.NewStager(ctx, run)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range m.load.Expired {
		row := fmt.Appendf(nil, "%s,%s", randomID(random, "org_"), randomID(random, "ord_"))
		result := ledger.Result{
			Outcome: ledger.Refused, Detail: "404: the organization " + randomID(random, "org_") + " does not exist",
		}
		if err := stager.AddSettled(ctx, row, result); err != nil {
			return err
		}
	}
	if _, err := stager.Commit(ctx); err != nil {
		return err
	}
	return m.part(ctx, "expire", func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute,
			errors.New("the workers do not remove a run whose time is over"))
		defer cancel()
		for {
			all, err := m.runs.All(ctx)
			if err != nil || len(all) == 0 {
				return errors.Join(err, context.Cause(ctx))
			}
			if pause(ctx, time.Second) != nil {
				return context.Cause(ctx)
			}
		}
	})
}

// logLong has Redis keep commands in its slow log, and events in its latency monitor.
func (s *store) logLong(ctx context.Context) error {
	for name, value := range map[string]string{
		"slowlog-log-slower-than":   strconv.FormatInt(longCommand.Microseconds(), 10),
		"slowlog-max-len":           "100000",
		"latency-monitor-threshold": "1",
	} {
		if err := s.admin.ConfigSet(ctx, name, value).Err(); err != nil {
			return fmt.Errorf("set %s of Redis: %w", name, err)
		}
	}
	return nil
}

// forgetLong empties the slow log and the latency monitor.
func (s *store) forgetLong(ctx context.Context) error {
	return errors.Join(s.admin.Do(ctx, "SLOWLOG", "RESET").Err(), s.admin.Do(ctx, "LATENCY", "RESET").Err())
}

// longest is the longest time that Redis was busy with one command of the workers or the
// producer, or with keys that expire, since [store.forgetLong]; 0: never as long as [longCommand].
func (s *store) longest(ctx context.Context) (longest time.Duration, err error) {
	commands, err := s.admin.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return 0, fmt.Errorf("SLOWLOG GET: %w", err)
	}
	for _, c := range commands {
		if len(c.Args) > 0 && !slices.Contains(administrative, strings.ToLower(c.Args[0])) {
			longest = max(longest, c.Duration)
		}
	}
	events, err := s.admin.Do(ctx, "LATENCY", "LATEST").Slice()
	if err != nil {
		return 0, fmt.Errorf("LATENCY LATEST: %w", err)
	}
	for _, e := range events { // name, time of the last, ms of the last, ms of the longest
		event, ok := e.([]any)
		if !ok || len(event) < 4 {
			return 0, fmt.Errorf("LATENCY LATEST: unexpected %v", e)
		}
		name, _ := event[0].(string)
		ms, _ := event[3].(int64)
		if strings.HasPrefix(name, "expire-") {
			longest = max(longest, time.Duration(ms)*time.Millisecond)
		}
	}
	return longest, nil
}

// administrative are commands of this program alone.
var administrative = []string{"info", "slowlog", "latency", "config", "flushdb"}
