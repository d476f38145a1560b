package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// create creates a run, or returns the one that exists under its id. scan is the progress of
// the scan that is to find its rows; nil: they are submitted.
func (i Intake) create(ctx context.Context, r runs.Run, scan []byte) (run runs.Run, created bool, err error) {
	trace := ""
	if i.Traceparent != nil {
		trace = i.Traceparent(ctx)
	}
	run, _, created, err = i.Ledger.Create(ctx, ledger.NewRun{
		ID: ledger.RunID(r.ID), Tenant: ledger.Tenant(r.Tenant), Kind: ledger.Kind(r.Kind),
		Description: ledger.Description{
			Label: r.Label, Digest: r.Digest, Format: r.Format, Columns: r.Columns, Parent: ledger.RunID(r.Parent), Caller: r.Caller,
			Priority: r.Priority, GiveUp: r.GiveUp, KeepFor: r.KeepFor, Trace: trace,
		},
		Control: ledger.Control{NotBefore: r.NotBefore},
		Scan:    scan,
	})
	return run, created, err
}

// createScan creates a run whose rows a scan finds, or returns the one that exists. If its
// Redis may lose the writes of its last second it creates the run again two seconds later.
func (i Intake) createScan(ctx context.Context, r runs.Run, scan []byte) (run runs.Run, created bool, err error) {
	if run, created, err = i.create(ctx, r, scan); err != nil || !created {
		return run, created, err
	}
	if i.Committed != nil {
		i.Committed()
	}
	if !mayLose(ctx, i.Redis) {
		return run, true, nil
	}
	if err := sleep(ctx, verifyAfter); err != nil {
		return run, true, err
	}
	run, _, err = i.create(ctx, r, scan)
	return run, true, err
}

// sleep waits until the time has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// staging stages the rows of a run.
type staging struct {
	stager *ledger.Stager // nil: the rows are only counted
	kind   string
	plan   *tasks.Plan
	rows   int64
}

// stage stages the rows that add adds, and commits the run. Of a run that is committed
// already it completes the commit, and stages what Redis has lost.
func (i Intake) stage(ctx context.Context, run runs.Run, add func(*staging) error) (tasks.Summary, error) {
	if !run.CancelledAt.IsZero() {
		return tasks.Summary{}, fmt.Errorf("run %s: %w", run.ID, runs.ErrCancelled)
	}
	core := i.Ledger.Core()
	header, err := core.Get(ctx, ledger.RunID(run.ID))
	if err != nil {
		return tasks.Summary{}, err
	}
	s := &staging{kind: run.Kind, plan: tasks.NewPlan(run.Kind, tasks.MaxClients)}
	if run.Sealed {
		progress, err := core.Sync(ctx, header.ID)
		if err != nil {
			return tasks.Summary{}, err
		}
		if len(progress.Missing) == 0 {
			err := add(s)
			s.plan.Close()
			return tasks.Summary{Rows: run.Total, Settled: run.Settled, Tasks: min(s.plan.Tasks, run.Total-run.Settled)}, err
		}
	}
	if s.stager, err = core.NewStager(ctx, header); err != nil {
		return tasks.Summary{}, err
	}
	if run.Kind == tasks.TypeRemove {
		s.stager.Group(tasks.MaxClients, organizationOf)
	}
	err = add(s)
	if err == nil {
		_, err = s.stager.Commit(ctx)
	}
	if err != nil {
		return tasks.Summary{}, i.whyNot(ctx, header, err)
	}
	if i.Committed != nil {
		i.Committed()
	}
	s.plan.Close()
	return tasks.Summary{Rows: s.rows, Tasks: s.plan.Tasks}, i.verify(ctx, s.stager)
}

// whyNot returns the error of staging rows: [runs.ErrCancelled] if the run was cancelled
// meanwhile, which takes no more rows.
func (i Intake) whyNot(ctx context.Context, run ledger.Run, err error) error {
	if _, refused := errors.AsType[*ledger.MismatchError](err); !refused {
		return err
	}
	now, failed := i.Ledger.Core().Get(ctx, run.ID)
	if failed == nil && now.Control.Cancelled {
		return fmt.Errorf("run %s: %w", run.ID, runs.ErrCancelled)
	}
	return err
}

// organizationOf returns the organization of a row's content.
func organizationOf(content []byte) string {
	var r struct {
		OrganizationID string `json:"organization_id"`
	}
	if json.Unmarshal(content, &r) != nil {
		return ""
	}
	return r.OrganizationID
}

// add adds a row that becomes work.
func (s *staging) add(ctx context.Context, row tasks.Row) error {
	content, err := row.Content()
	if err != nil {
		return err
	}
	s.plan.Add(s.rows, row)
	s.rows++
	if s.stager == nil {
		return nil
	}
	return s.stager.Add(ctx, content)
}

// addSettled adds a row that becomes no work: a bad row, or a duplicate.
func (s *staging) addSettled(ctx context.Context, source []byte, row tasks.Row, f fate) error {
	content := badContent(source)
	if f.outcome != tasks.Invalid {
		var err error
		if content, err = row.Content(); err != nil {
			return err
		}
	}
	s.rows++
	if s.stager == nil {
		return nil
	}
	return s.stager.AddSettled(ctx, content, ledger.Result{Outcome: ledger.Outcome(f.outcome), Detail: f.detail})
}

// badMark precedes the text of a bad row of JSON Lines: the two are not JSON.
const badMark = '!'

// badContent returns the content of a bad row: its cells, or its text behind a mark. No
// handler takes either for a row.
func badContent(source []byte) []byte {
	if len(source) > 0 && source[0] == '[' {
		return source
	}
	return append([]byte{badMark}, source...)
}

// verifyAfter is how long after a commit Redis cannot lose it any more. Tests shorten it.
var verifyAfter = 2 * time.Second

// verify reads the committed run back, if its Redis may lose the writes of its last
// second.
func (i Intake) verify(ctx context.Context, stager *ledger.Stager) error {
	if !mayLose(ctx, i.Redis) {
		return nil
	}
	if err := sleep(ctx, verifyAfter); err != nil {
		return err
	}
	return stager.Verify(ctx)
}

// mayLose reports whether Redis may come back without its last writes and with others:
// from a file that it appends to, or as a replica that takes over.
func mayLose(ctx context.Context, rdb redis.UniversalClient) bool {
	if rdb == nil {
		return false
	}
	info, err := rdb.Info(ctx).Result()
	if err != nil {
		_, answered := errors.AsType[redis.Error](err)
		return !answered || redis.IsPermissionError(err)
	}
	for line := range strings.Lines(info) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field == "aof_enabled" && value == "1" || field == "connected_slaves" && value != "0" || field == "cluster_enabled" && value == "1" {
			return true
		}
	}
	return false
}
