package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// forgetting is a ledger whose Redis loses ends that it has answered.
type forgetting struct {
	engine.Ledger
	losing bool
	empty  bool // Running finds none
	// begun and listed, if not nil, are called before the answer to Begin and to Running.
	begun, listed func()
}

func (f *forgetting) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	b, err := f.Ledger.Begin(ctx, seg, e, rows...)
	if f.begun != nil {
		f.begun()
	}
	return b, err
}

func (f *forgetting) Running(ctx context.Context, of ledger.SessionID,
	segs ...ledger.Segment) ([]ledger.Running, error) {
	if f.empty {
		return nil, nil
	}
	all, err := f.Ledger.Running(ctx, of, segs...)
	if f.listed != nil {
		f.listed()
	}
	return all, err
}

func (f *forgetting) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	if f.losing {
		return ledger.Receipt{Statuses: slices.Repeat([]ledger.Status{ledger.RowWritten}, len(ends))}, nil
	}
	return f.Ledger.End(ctx, seg, n, ends...)
}

// audit audits, and fails the test on an error.
func (s *site) audit(e *engine.Engine, l engine.Ledger) {
	s.t.Helper()
	if err := e.Audit(s.t.Context(), l); err != nil {
		s.t.Error(err)
	}
}

// TestAudit loses the end of an execution of two rows: they are executed again, no attempt
// is counted, and the loss is logged.
func TestAudit(t *testing.T) {
	s := newSite(t)
	s.submit(kind, `{}`, `{}`)
	var log bytes.Buffer
	f, n := &forgetting{Ledger: s.Ledger, losing: true}, 0
	e, _ := s.worker(handler(func(_ context.Context, _ *engine.Execution, row *engine.Row) (ledger.Result, error) {
		if n++; row.Attempts != 0 {
			t.Errorf("%d attempts, want none", row.Attempts)
		}
		return ledger.Result{}, nil
	}), func(c *engine.Config) { c.Ledger, c.Logger = f, slog.New(slog.NewTextHandler(&log, nil)) })
	_ = e.ProcessTask(t.Context(), s.release())
	if row := s.row(0); row.Phase != ledger.PhaseInProgress {
		t.Fatalf("row %+v, want it in progress", row)
	}
	f.losing = false
	s.audit(e, f)
	if due, err := s.TakeDue(t.Context(), tenant, 1); err != nil || len(due.Segments) != 1 {
		t.Errorf("due %+v, %v, want the segment", due, err)
	}
	if !strings.Contains(log.String(), `msg="rows given back whose execution has ended"`) ||
		!strings.Contains(log.String(), "rows=2") {
		t.Errorf("the log does not name two rows: %s", log.String())
	}
	s.drain(e)
	if n != 4 {
		t.Errorf("executed %d times, want twice for each row", n)
	}
}

// TestAuditAfterEmptySegment restores the state of Redis in which the row was in progress,
// after an audit has found none. The next audit gives the row back.
func TestAuditAfterEmptySegment(t *testing.T) {
	s := newSite(t)
	s.submit(kind, `{}`)
	f := &forgetting{Ledger: s.Ledger, losing: true}
	e, _ := s.worker(handler(func(context.Context, *engine.Execution, *engine.Row) (ledger.Result, error) {
		return ledger.Result{}, nil
	}), func(c *engine.Config) { c.Ledger = f })
	_ = e.ProcessTask(t.Context(), s.release())
	f.losing, f.empty = false, true
	s.audit(e, f)
	f.empty = false
	if row := s.row(0); row.Phase != ledger.PhaseInProgress {
		t.Fatalf("row %+v, want it in progress", row)
	}
	s.audit(e, f)
	if row := s.row(0); row.Phase != ledger.PhaseWaiting || row.Checkpoint.Attempts != 0 || row.Checkpoint.Note == "" {
		t.Errorf("row %+v, want it to wait, with a note", row)
	}
}

// TestAuditSpares audits while the answer of a begin is pending, and while the handler works:
// the execution retains its row. The engine has executed another row of the segment before.
func TestAuditSpares(t *testing.T) {
	s := newSite(t)
	s.submit(kind, `{}`, `{}`)
	f, n := &forgetting{Ledger: s.Ledger}, 0
	var e *engine.Engine
	e, _ = s.worker(handler(func(context.Context, *engine.Execution, *engine.Row) (ledger.Result, error) {
		n++
		s.audit(e, f)
		return ledger.Result{}, nil
	}), func(c *engine.Config) { c.Ledger = f })
	one, err := s.Release(t.Context(), s.segment(), ledger.Quota{First: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = e.ProcessTask(t.Context(), s.task(engine.NewTask(s.run, s.segment(), one.Token, one.Rows...)))
	f.begun = func() {
		if row := s.row(1); row.Phase != ledger.PhaseInProgress {
			t.Errorf("row %+v, want it in progress", row)
		}
		s.audit(e, f)
	}
	_ = e.ProcessTask(t.Context(), s.release())
	if row := s.row(1); n != 2 || row.Result.Outcome != ledger.Done {
		t.Errorf("executed %d times, row %+v", n, row)
	}
}

// TestAuditDuringEnd has an execution end after the audit has read that its row is in
// progress: its writes remain, and nothing is logged.
func TestAuditDuringEnd(t *testing.T) {
	s := newSite(t)
	s.submit(kind, `{}`)
	var log bytes.Buffer
	f, started, finish := &forgetting{Ledger: s.Ledger}, make(chan struct{}), make(chan struct{})
	e, _ := s.worker(handler(func(context.Context, *engine.Execution, *engine.Row) (ledger.Result, error) {
		close(started)
		<-finish
		return ledger.Result{}, engine.NotYet("no record", time.Hour)
	}), func(c *engine.Config) { c.Ledger, c.Logger = f, slog.New(slog.NewTextHandler(&log, nil)) })
	task := s.release()
	var execution sync.WaitGroup
	execution.Go(func() { _ = e.ProcessTask(t.Context(), task) })
	<-started
	f.listed = func() {
		close(finish)
		execution.Wait()
	}
	s.audit(e, f)
	if row := s.row(0); row.Phase != ledger.PhaseWaiting || time.Until(row.Due) < 30*time.Minute {
		t.Errorf("row %+v, want it to wait for an hour", row)
	}
	if strings.Contains(log.String(), "given back") {
		t.Errorf("no row was given back, but the log says: %s", log.String())
	}
}
