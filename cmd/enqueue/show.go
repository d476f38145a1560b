package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/runs"
)

// printOpen writes all open rows of the run, one a line.
func (t *tool) printOpen(ctx context.Context, r runs.Run) (err error) {
	out := bufio.NewWriter(t.Stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	for row, err := range cli.OpenFrom(ctx, t.ledger, r, 0) {
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

func openRowAsJSON(row cli.OpenRow) openRowJSON {
	return openRowJSON{Item: row.Item, Row: row.Name, Reason: row.Reason, NextLook: known(row.Next)}
}

// childJSON is a child as --json prints it.
type childJSON struct {
	Run    string           `json:"run"`
	State  string           `json:"state"` // as of a run, or "not started": it was cut off before
	Counts map[string]int64 `json:"counts,omitempty"`
}

// waitingJSON is what the open rows of a run wait for.
type waitingJSON struct {
	Reasons []reasonJSON `json:"reasons"` // the most frequent ones
	Further int64        `json:"rows_of_other_reasons"`
	Looked  int64        `json:"rows_looked_at"`     // which these numbers are of
	Noted   int64        `json:"rows_with_a_reason"` // more than were looked at: the numbers are those of a sample
	Unnoted int64        `json:"rows_without"`       // no worker has come to them
}

type reasonJSON struct {
	Rows     int64      `json:"rows"`
	Reason   string     `json:"reason"`    // … stands for what differs from row to row
	NextLook *time.Time `json:"next_look"` // the earliest; null: not known
}

// addWaiting adds to the details what the run's rows wait for, and its children.
func (t *tool) addWaiting(ctx context.Context, r runs.Run, details *detailsJSON) error {
	children, err := cli.Children(ctx, t.ledger, r)
	if err != nil {
		return err
	}
	for _, c := range children {
		j := childJSON{Run: c.ID, State: "not started"}
		if !c.Missing {
			as := runAsJSON(c.Run)
			j.State, j.Counts = as.State, as.Counts
		}
		details.Children = append(details.Children, j)
	}
	w, err := cli.WaitingOf(ctx, t.ledger, r, cli.WaitingSample)
	if err != nil || w.Looked == 0 {
		return err
	}
	details.WaitingFor = &waitingJSON{Reasons: []reasonJSON{}, Further: w.Further, Looked: w.Looked, Noted: w.Noted, Unnoted: w.Unnoted}
	for _, one := range w.Reasons {
		details.WaitingFor.Reasons = append(details.WaitingFor.Reasons, reasonJSON{Rows: one.Rows, Reason: one.Reason, NextLook: known(one.Next)})
	}
	return nil
}
