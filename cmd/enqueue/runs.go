package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/pace"
	"orgops/internal/runs"
)

type listCommand struct{}

// Run lists all runs.
func (*listCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	all, err := t.ledger.List(ctx)
	if err != nil {
		return err
	}
	if !t.json {
		if err := cli.RunTable(t.Stdout, all); err != nil {
			return err
		}
		t.printTrouble(all)
		return nil
	}
	for _, r := range all {
		if err := t.printJSON(runAsJSON(r)); err != nil {
			return err
		}
	}
	return nil
}

type showCommand struct {
	oneRun
	Rows int  `noenv:"true" default:"20" help:"Open rows, and failed rows, to print."`
	Open bool `noenv:"true" help:"Print only the open rows, all of them, with the reason and the next check."`
}

// Run shows one run.
func (c *showCommand) Run(ctx context.Context, t *tool) error {
	if c.Rows < 0 {
		return cli.Usage(fmt.Errorf("rows: want 0 or more, got %d", c.Rows))
	}
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	r, err := t.ledger.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.Open {
		return t.printOpen(ctx, r)
	}
	if t.json {
		return t.printDetails(ctx, r, c.Rows)
	}
	if err := t.printRun(ctx, r); err != nil {
		return err
	}
	waiting, err := cli.WaitingOf(ctx, t.ledger, r, cli.WaitingSample)
	if err == nil {
		err = waiting.Write(t.Stdout)
	}
	if err != nil {
		return err
	}
	if err := cli.OpenRows(ctx, t.Stdout, t.ledger, r, c.Rows); err != nil {
		return err
	}
	return cli.UnwellRows(ctx, t.Stdout, t.ledger, r, c.Rows)
}

func (t *tool) printRun(ctx context.Context, r runs.Run) error {
	held, err := t.heldUp(ctx, r)
	if err != nil {
		return err
	}
	queue, err := t.pausedQueue(r)
	if err != nil {
		return err
	}
	children, err := cli.Children(ctx, t.ledger, r)
	if err != nil {
		return err
	}
	w := cli.NewTable(t.Stdout)
	w.Line("run", r.ID)
	w.Line("kind", r.Kind)
	w.Line("tenant", r.Tenant)
	w.Line("label", r.Label)
	w.Line("priority", r.Priority)
	w.Line("parent", r.Parent)
	w.Line("submitted by", r.Caller)
	w.Line("state", cli.State(r))
	w.Line("lost", cli.Lost(r))
	w.Line("walk", cli.WalkState(r))
	w.Line("producer", cli.Silent(r, time.Now()))
	if held.Stopped != nil {
		w.Line("blocked", "every change: the tenant is "+held.Stopped.String()+"; to start it: enqueue tenant start "+r.Tenant)
	}
	for _, b := range held.Blocks {
		w.Line("blocked", b.Operation+": "+b.Reason)
	}
	w.Line("waits", cli.QueueIsPaused(queue))
	w.Line("paused until", stamp(held.PausedUntil))
	w.Line("rows", cli.Total(r))
	w.Line("settled", fmt.Sprintf("%d: %s", r.Settled, cli.Counts(r)))
	w.Line("created", stamp(r.CreatedAt))
	w.Line("ended", stamp(r.EndedAt))
	for _, c := range children {
		w.Line("retried by", c.String())
	}
	return w.Flush()
}

// heldUp is what keeps the tenant of an open run from going on.
func (t *tool) heldUp(ctx context.Context, r runs.Run) (pace.State, error) {
	if r.Ended() {
		return pace.State{}, nil
	}
	return pace.New(pace.Config{Redis: t.redis, Tenant: r.Tenant}).State(ctx)
}

// pausedQueue is the queue that releases no rows of an open run; empty: it is not paused.
func (t *tool) pausedQueue(r runs.Run) (string, error) {
	if r.Ended() {
		return "", nil
	}
	return cli.PausedQueue(t.redis, r.Tenant)
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.RFC3339)
}

type followCommand struct {
	IDs []string `arg:"" name:"run" help:"Run ids."`
}

// Run follows runs to their ends.
func (c *followCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	return t.follow(ctx, c.IDs)
}

// unwellRowsTold is how many rows per run are told once it has ended; all are
// had by runs show --rows.
const unwellRowsTold = 50

// follow shows progress until the runs have ended, then what became of them.
// It is an error if a row settled badly.
func (t *tool) follow(ctx context.Context, ids []string) error {
	all, err := cli.Follow(ctx, t.redis, ids, t.Stderr)
	if err != nil && ctx.Err() != nil {
		again := "enqueue runs follow " + strings.Join(ids, " ")
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: the submitted runs continue; to follow them again: %s", again)}
	}
	if err != nil {
		return err
	}
	if err := t.printOutcomes(ctx, all); err != nil {
		return err
	}
	unwell := int64(0)
	for _, r := range all {
		unwell += cli.Unwell(r)
		if out := cli.LeftOut(r); out != "" {
			err = errors.Join(err, fmt.Errorf("run %s: the scan left domains out: %s", r.ID, out))
		}
	}
	if unwell > 0 {
		err = errors.Join(err, fmt.Errorf("failed rows: %d", unwell))
	}
	if err != nil {
		return &cli.StatusError{Status: cli.StatusRejected, Err: err}
	}
	return nil
}

func (t *tool) printOutcomes(ctx context.Context, all []runs.Run) (err error) {
	if !t.json {
		err = cli.RunTable(t.Stdout, all)
	}
	for _, r := range all {
		switch {
		case err != nil:
			return err
		case t.json:
			err = t.printDetails(ctx, r, unwellRowsTold)
		default:
			err = cli.UnwellRows(ctx, t.Stdout, t.ledger, r, unwellRowsTold)
		}
	}
	return err
}

// runJSON is a run as --json prints it.
type runJSON struct {
	Run       string           `json:"run"`
	Kind      string           `json:"kind"`
	Tenant    string           `json:"tenant"`
	Label     string           `json:"label,omitempty"`
	Parent    string           `json:"parent,omitempty"` // the run whose rows it repeats
	Caller    string           `json:"caller,omitempty"` // who handed it in over HTTP
	State     string           `json:"state"`            // "being submitted", "scanning for rows", "open", "paused", "incomplete", "postponed", "being cancelled" or "ended"
	Rows      *int64           `json:"rows"`             // null: not known yet
	Settled   int64            `json:"settled"`
	Counts    map[string]int64 `json:"counts"`
	CreatedAt time.Time        `json:"created_at"`
	EndedAt   *time.Time       `json:"ended_at"` // null: it has not
	Cancelled bool             `json:"cancelled,omitempty"`
	NotBefore *time.Time       `json:"not_before,omitempty"`   // until when it is postponed; null: it is not
	Walk      *walkJSON        `json:"walk,omitempty"`         // that finds the rows; null: they were submitted
	Silent    *time.Time       `json:"silent_since,omitempty"` // null: its producer is at work, or through
}

func runAsJSON(r runs.Run) runJSON {
	j := runJSON{
		Run: r.ID, Kind: r.Kind, Tenant: r.Tenant, Label: r.Label, Parent: r.Parent, Caller: r.Caller, State: cli.State(r),
		Settled: r.Settled, Counts: r.Counts, CreatedAt: r.CreatedAt, Cancelled: !r.CancelledAt.IsZero(), Walk: walkAsJSON(r), Silent: known(r.SilentSince(time.Now())), EndedAt: known(r.EndedAt),
	}
	if r.Sealed {
		j.Rows = &r.Total
	}
	if r.NotBefore.After(time.Now()) {
		j.NotBefore = &r.NotBefore
	}
	if cli.Stopped(r) != "" {
		j.State, _, _ = strings.Cut(cli.Stopped(r), " ")
	}
	switch {
	case r.Ended():
		j.State = "ended"
	case j.Cancelled:
		j.State = "being cancelled"
	}
	return j
}

// detailsJSON is a run with rows of it.
type detailsJSON struct {
	runJSON
	Stopped     *stoppedJSON    `json:"tenant_stopped"`         // null: the tenant is not stopped
	Blocked     []blockJSON     `json:"blocked"`                // what the tenant does not let us do
	PausedUntil *time.Time      `json:"paused_until"`           // null: it is not
	PausedQueue string          `json:"paused_queue,omitempty"` // not there: the queue that releases the rows is not paused
	Children    []childJSON     `json:"children,omitempty"`     // the runs that repeat rows of it
	WaitingFor  *waitingJSON    `json:"waiting_for,omitempty"`  // what its open rows wait for; not there where none is known
	OpenRows    []openRowJSON   `json:"open_rows"`
	UnwellRows  []unwellRowJSON `json:"unwell_rows"`
}

type blockJSON struct {
	Operation string `json:"operation"` // "*": all
	Reason    string `json:"reason"`
}

type openRowJSON struct {
	Item     int64      `json:"item"` // from 0
	Row      string     `json:"row"`  // its identifiers
	Reason   string     `json:"reason,omitempty"`
	NextLook *time.Time `json:"next_look"` // null: not known
}

type unwellRowJSON struct {
	Item    int64  `json:"item"` // from 0
	Row     string `json:"row"`  // its identifiers
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// printDetails writes the run with at most most rows of either sort.
func (t *tool) printDetails(ctx context.Context, r runs.Run, most int) error {
	held, err := t.heldUp(ctx, r)
	if err != nil {
		return err
	}
	details := detailsJSON{
		runJSON: runAsJSON(r), Stopped: stoppedAsJSON(held.Stopped), Blocked: []blockJSON{}, PausedUntil: known(held.PausedUntil), OpenRows: []openRowJSON{}, UnwellRows: []unwellRowJSON{},
	}
	for _, b := range held.Blocks {
		details.Blocked = append(details.Blocked, blockJSON{b.Operation, b.Reason})
	}
	if details.PausedQueue, err = t.pausedQueue(r); err != nil {
		return err
	}
	if err := t.addWaiting(ctx, r, &details); err != nil {
		return err
	}
	open, err := cli.Open(ctx, t.ledger, r, most)
	if err != nil {
		return err
	}
	for _, row := range open {
		details.OpenRows = append(details.OpenRows, openRowAsJSON(row))
	}
	unwell, err := cli.UnwellOf(ctx, t.ledger, r, most)
	if err != nil {
		return err
	}
	for _, row := range unwell {
		details.UnwellRows = append(details.UnwellRows, unwellRowJSON{row.Item, row.Name, row.Outcome, row.Detail})
	}
	return t.printJSON(details)
}
