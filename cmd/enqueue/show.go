package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/status"
)

type showCommand struct {
	oneRun
	Rows int  `noenv:"true" default:"20" help:"Open rows, and failed rows, to print."`
	Open bool `noenv:"true" help:"Print only the open rows, all of them, with the reason and the next check."`
}

func (c *showCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 0 {
		return cli.Usage(fmt.Errorf("rows: want 0 or more, got %d", c.Rows))
	}
	r, err := t.readRun(ctx, c.ID)
	switch {
	case err != nil:
		return err
	case c.Open:
		return t.printOpen(ctx, r)
	case t.json:
		return t.printDetails(ctx, r, c.Rows)
	}
	d, err := t.detailsOf(ctx, r)
	if err != nil {
		return err
	}
	if err := d.write(t.Stdout); err != nil {
		return err
	}
	if err := status.WriteOpen(ctx, t.Stdout, t.ledger, r, c.Rows); err != nil {
		return err
	}
	return status.WriteFailed(ctx, t.Stdout, t.ledger, r, c.Rows)
}

// details are the facts about a run, apart from its rows.
type details struct {
	ledger.Run
	held     pace.State // of the tenant of an open run
	queue    string     // the paused queue of an open run; empty: it is not paused
	children []status.Child
	acts     []status.Act
	waiting  status.Waiting
}

func (t *tool) detailsOf(ctx context.Context, r ledger.Run) (d details, err error) {
	d.Run = r
	if !r.Ended() {
		if d.held, err = pace.New(pace.Config{Redis: t.redis, Tenant: string(r.Tenant)}).State(ctx); err != nil {
			return d, err
		}
		if d.queue, err = status.PausedQueue(ctx, t.redis, string(r.Tenant)); err != nil {
			return d, err
		}
	}
	if d.children, err = status.Children(ctx, t.ledger, r); err != nil {
		return d, err
	}
	if d.acts, err = status.Acts(ctx, t.redis, "run "+string(r.ID), r.CreatedAt); err != nil {
		return d, err
	}
	d.waiting, err = status.WaitingOf(ctx, t.ledger, r, status.WaitingSample)
	return d, err
}

func (d details) write(out io.Writer) error {
	w, r := status.NewTable(out), d.Run
	w.Line("run", string(r.ID))
	w.Line("kind", string(r.Kind))
	w.Line("tenant", string(r.Tenant))
	w.Line("label", r.Label)
	w.Line("priority", r.Priority)
	w.Line("parent", string(r.Parent))
	w.Line("submitted by", r.Caller)
	w.Line("state", status.State(r))
	w.Line("lost", status.LostRows(r))
	w.Line("scan", status.ScanState(r))
	w.Line("producer", status.SilentProducer(r))
	for _, o := range status.Obstacles(string(r.Tenant), d.held, d.queue) {
		w.Line("waits", o.String())
	}
	w.Line("rows", status.Total(r))
	w.Line("settled", fmt.Sprintf("%d: %s", r.Settled(), status.Counts(r)))
	w.Line("created", status.Stamp(r.CreatedAt))
	w.Line("ended", status.Stamp(r.EndedAt))
	for _, c := range d.children {
		w.Line("retried by", c.String())
	}
	for _, act := range d.acts {
		w.Line("done by", act.String())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return d.waiting.Write(out)
}

// printOpen writes all open rows of the run, one a line.
func (t *tool) printOpen(ctx context.Context, r ledger.Run) (err error) {
	out := bufio.NewWriter(t.Stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	for row, err := range status.OpenFrom(ctx, t.ledger, r, 0) {
		if err != nil {
			return err
		}
		if t.json {
			err = cli.WriteJSON(out, openRowAsJSON(row))
		} else {
			_, err = fmt.Fprintln(out, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func openRowAsJSON(row status.OpenRow) openRowJSON {
	return openRowJSON{Item: row.Item, Row: row.Name, Reason: row.Reason, NextCheck: known(row.Next)}
}

// detailsJSON is a run with rows of it.
type detailsJSON struct {
	runJSON
	Stopped     *stoppedJSON    `json:"tenant_stopped"`         // null: the tenant is not stopped
	Blocked     []pace.Block    `json:"blocked"`                // operations that the tenant refuses
	PausedUntil *time.Time      `json:"paused_until"`           // null: it is not
	PausedQueue string          `json:"paused_queue,omitempty"` // absent: the queue of the rows is not paused
	Children    []childJSON     `json:"children,omitempty"`     // the runs that repeat rows of it
	WaitingFor  *waitingJSON    `json:"waiting_for,omitempty"`  // why its open rows wait; absent: not known
	OpenRows    []openRowJSON   `json:"open_rows"`
	FailedRows  []failedRowJSON `json:"failed_rows"`
}

type openRowJSON struct {
	Item      int64      `json:"item"` // from 0
	Row       string     `json:"row"`  // its identifiers
	Reason    string     `json:"reason,omitempty"`
	NextCheck *time.Time `json:"next_check"` // null: not known
}

type failedRowJSON struct {
	Item    int64  `json:"item"` // from 0
	Row     string `json:"row"`  // its identifiers
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// childJSON is a run that repeats rows of another.
type childJSON struct {
	Run    string        `json:"run"`
	State  string        `json:"state"` // as of a run, or "not started": it was interrupted before
	Counts ledger.Counts `json:"counts,omitempty"`
}

// waitingJSON counts the open rows of a run by reason.
type waitingJSON struct {
	Reasons       []reasonJSON `json:"reasons"` // the most frequent ones
	Further       int64        `json:"rows_with_other_reasons"`
	Read          int64        `json:"rows_read"`           // from which the numbers are counted
	WithReason    int64        `json:"rows_with_reason"`    // if more than were read, the numbers are those of a sample
	WithoutReason int64        `json:"rows_without_reason"` // not executed yet
}

type reasonJSON struct {
	Rows      int64      `json:"rows"`
	Reason    string     `json:"reason"`     // with … for the parts that differ from row to row
	NextCheck *time.Time `json:"next_check"` // the earliest; null: not known
}

// printDetails writes the run as JSON, with at most so many open and failed rows.
func (t *tool) printDetails(ctx context.Context, r ledger.Run, most int) error {
	d, err := t.detailsOf(ctx, r)
	if err != nil {
		return err
	}
	open, _, err := status.OpenPage(ctx, t.ledger, r, 0, most)
	if err != nil {
		return err
	}
	failed, err := status.FirstFailed(ctx, t.ledger, r, most)
	if err != nil {
		return err
	}
	j := d.asJSON()
	for _, row := range open {
		j.OpenRows = append(j.OpenRows, openRowAsJSON(row))
	}
	for _, row := range failed {
		j.FailedRows = append(j.FailedRows, failedRowJSON{row.Item, row.Name, string(row.Outcome), row.Detail})
	}
	return t.printJSON(j)
}

func (d details) asJSON() detailsJSON {
	j := detailsJSON{
		runJSON: runAsJSON(d.Run), Stopped: (*stoppedJSON)(d.held.Stopped), Blocked: append([]pace.Block{}, d.held.Blocks...), PausedUntil: known(d.held.PausedUntil), PausedQueue: d.queue,
		OpenRows: []openRowJSON{}, FailedRows: []failedRowJSON{},
	}
	for _, c := range d.children {
		child := childJSON{Run: string(c.ID), State: "not started"}
		if !c.Missing {
			as := runAsJSON(c.Run)
			child.State, child.Counts = as.State, as.Counts
		}
		j.Children = append(j.Children, child)
	}
	if w := d.waiting; w.Read > 0 {
		j.WaitingFor = &waitingJSON{Reasons: []reasonJSON{}, Further: w.Further, Read: w.Read, WithReason: w.WithReason, WithoutReason: w.WithoutReason}
		for _, one := range w.Reasons {
			j.WaitingFor.Reasons = append(j.WaitingFor.Reasons, reasonJSON{Rows: one.Rows, Reason: one.Reason, NextCheck: known(one.Next)})
		}
	}
	return j
}
