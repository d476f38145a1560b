package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/sweep"
)

type listCommand struct{}

func (*listCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	all, err := t.ledger.List(ctx)
	if err != nil {
		return err
	}
	if !t.json {
		if err := status.WriteRuns(t.Stdout, all); err != nil {
			return err
		}
		for _, r := range all {
			for _, trouble := range status.Trouble(r) {
				fmt.Fprintf(t.Stdout, "run %s: %s\n", r.ID, trouble)
			}
		}
		return nil
	}
	for _, r := range all {
		if err := t.printJSON(runAsJSON(r)); err != nil {
			return err
		}
	}
	return nil
}

type followCommand struct {
	IDs []string `arg:"" name:"run" help:"Run ids."`
}

func (c *followCommand) Run(ctx context.Context, t *tool) error {
	if err := t.connectToRead(ctx); err != nil {
		return err
	}
	return t.follow(ctx, c.IDs)
}

// failedShown is the number of failed rows of a run that are printed at its end; runs show
// --rows prints more.
const failedShown = 50

// follow shows progress until the runs have ended, then their results. It is an error if a
// row failed.
func (t *tool) follow(ctx context.Context, ids []string) error {
	all, err := status.Follow(ctx, t.redis, ids, t.Stderr, cli.IsTerminal(t.Stderr))
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
	if err := status.Failure(all...); err != nil {
		return &cli.StatusError{Status: cli.StatusRejected, Err: err}
	}
	return nil
}

func (t *tool) printOutcomes(ctx context.Context, all []ledger.Run) (err error) {
	if !t.json {
		err = status.WriteRuns(t.Stdout, all)
	}
	for _, r := range all {
		switch {
		case err != nil:
			return err
		case t.json:
			err = t.printDetails(ctx, r, failedShown)
		default:
			err = status.WriteFailed(ctx, t.Stdout, t.ledger, r, failedShown)
		}
	}
	return err
}

// runJSON is the output of --json for a run.
type runJSON struct {
	Run       string        `json:"run"`
	Kind      string        `json:"kind"`
	Tenant    string        `json:"tenant"`
	Label     string        `json:"label,omitempty"`
	Parent    string        `json:"parent,omitempty"` // the run whose rows it repeats
	Caller    string        `json:"caller,omitempty"` // the client that submitted it over HTTP
	State     string        `json:"state"`            // "being submitted", "scanning for rows", "open", "paused", "incomplete", "postponed", "being cancelled" or "ended"
	Rows      *int64        `json:"rows"`             // null: not known yet
	Settled   int64         `json:"settled"`
	Counts    ledger.Counts `json:"counts"`
	CreatedAt time.Time     `json:"created_at"`
	EndedAt   *time.Time    `json:"ended_at"` // null: it has not
	Cancelled bool          `json:"cancelled,omitempty"`
	NotBefore *time.Time    `json:"not_before,omitempty"` // until when it is postponed; null: it is not
	Scan      *scanJSON     `json:"scan,omitempty"`       // the scan that finds the rows; absent: they were submitted
	Idle      *time.Time    `json:"idle_since,omitempty"` // absent: rows still come, or all have come
}

func runAsJSON(r ledger.Run) runJSON {
	j := runJSON{
		Run: string(r.ID), Kind: string(r.Kind), Tenant: string(r.Tenant), Label: r.Label, Parent: string(r.Parent), Caller: r.Caller, State: status.State(r),
		Settled: r.Settled(), Counts: r.Counts, CreatedAt: r.CreatedAt, Cancelled: !r.CancelledAt.IsZero(), Scan: scanAsJSON(r), Idle: known(status.SilentSince(r, time.Now())), EndedAt: known(r.EndedAt),
	}
	if r.Sealed() {
		j.Rows = &r.Rows
	}
	if r.NotBefore.After(time.Now()) {
		j.NotBefore = &r.NotBefore
	}
	if status.Stopped(r) != "" {
		j.State, _, _ = strings.Cut(status.Stopped(r), " ")
	}
	switch {
	case r.Ended():
		j.State = "ended"
	case j.Cancelled:
		j.State = "being cancelled"
	}
	return j
}

// scanJSON is the progress of the scan that finds a run's rows.
type scanJSON struct {
	sweep.Progress
	Reason  string     `json:"reason,omitempty"`   // why it does not continue
	NextTry *time.Time `json:"next_try,omitempty"` // null: not known
}

func scanAsJSON(r ledger.Run) *scanJSON {
	progress, ok := status.ScanOf(r)
	if !ok {
		return nil
	}
	j := &scanJSON{Progress: progress}
	if r.Scanning() {
		j.Reason, j.NextTry = r.Scan.Note, known(r.Scan.NextAt)
	}
	return j
}

// known returns a time, or nil for the zero time.
func known(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return new(at.UTC())
}
