package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/sandbox"
)

// chaosRow is a row, its result, and its requests. The row of a run and the rows of runs that
// repeat it are one.
type chaosRow struct {
	job         *job // the latest
	item        int
	cells       []string // of CSV
	fate        ledger.Result
	unpublished bool         // its token is not in the DNS
	swept       *sweptDomain // nil: a submitted row
	quiet       []span
	first       time.Time         // of the first request to change it
	reads       []sandbox.Request // answered reads of its record
	changes     []sandbox.Request // that came to the tenant
}

func (r *chaosRow) String() string {
	if r.swept != nil {
		return fmt.Sprintf("swept domain %s (%s)", strings.Join(r.cells, " "), r.swept.class)
	}
	return fmt.Sprintf("run %s: row %d (%s) is %s (%s)", r.job.run, r.item, strings.Join(r.cells, " "),
		r.fate.Outcome, r.fate.Detail)
}

// rowsByKey returns all rows by the record that they change.
func (c *chaos) rowsByKey() map[string]*chaosRow {
	c.t.Helper()
	rows := map[string]*chaosRow{}
	for key, d := range c.swept {
		rows[key] = &chaosRow{swept: d, cells: strings.Fields(key)}
	}
	for _, j := range c.jobs {
		if j.command[1] == "sweep" {
			c.resultsOf(j)
			continue
		}
		c.addRows(j, rows)
	}
	return rows
}

const (
	deletedUnknown = "deleted"   // the outcome of rows of a run that was deleted while it was submitted
	notFound       = "not found" // of rows that a cancelled scan has not found
)

func (c *chaos) addRows(j *job, rows map[string]*chaosRow) {
	c.t.Helper()
	j.cells = c.cellsOf(j, rows)
	got := c.resultsOf(j)
	for i, cells := range j.cells {
		row, again := rows[keyOf(cells)]
		if !again {
			row = &chaosRow{cells: cells}
			rows[keyOf(cells)] = row
		}
		row.job, row.item = j, i
		row.quiet = append(row.quiet, j.quiet...)
		row.unpublished = slices.ContainsFunc(j.unpublished, func(d sandbox.Domain) bool { return d.ID == cells[1] }) &&
			!j.retried
		switch {
		case got != nil:
			row.fate = c.fateOf(row, got)
		case j.isDeleted() && j.kept == nil:
			row.fate = ledger.Result{Outcome: deletedUnknown}
		default:
			row.fate = ledger.Result{Outcome: "cancelled", Detail: "no rows were accepted"}
		}
	}
	if got != nil && len(got.keys) > 0 {
		c.t.Errorf("run %s has rows that were not submitted: %q", j.run, slices.Collect(maps.Keys(got.keys)))
	}
}

// fateOf removes the result of a row from those of its run.
func (c *chaos) fateOf(row *chaosRow, got *runResults) ledger.Result {
	items := got.keys[keyOf(row.cells)]
	delete(got.keys, keyOf(row.cells))
	if len(items) == 0 && row.job.tried && row.job.found() {
		return ledger.Result{Outcome: notFound}
	}
	if len(items) == 0 {
		c.addLost("run %s has no row of %q", row.job.run, row.cells)
		return ledger.Result{Outcome: notFound}
	}
	if len(items) > 1 {
		c.addDoubled("run %s has the row of %q %d times", row.job.run, row.cells, len(items))
	}
	row.item = items[0]
	return got.fates[items[0]]
}

// cellsOf returns the cells of a job's rows. The rows of a repeating run are the failed ones of
// the run that it repeats.
func (c *chaos) cellsOf(j *job, rows map[string]*chaosRow) (all [][]string) {
	c.t.Helper()
	if j.parent != nil {
		for _, cells := range j.parent.cells {
			if row := rows[keyOf(cells)]; !ledger.Succeeded(row.fate.Outcome) && row.fate.Outcome != notFound {
				all = append(all, cells)
			}
		}
		return all
	}
	return c.cells(j.file)
}

// runResults are the results of a run's rows.
type runResults struct {
	run   ledger.Run
	keys  map[string][]int // numbers of rows by the record that they change
	fates []ledger.Result
}

// resultsOf returns the results of a run, each of whose rows must be counted once. It returns
// nil if the run was cancelled before its rows were stored, or deleted.
func (c *chaos) resultsOf(j *job) *runResults {
	c.t.Helper()
	got, err := c.results(c.t.Context(), j.run)
	switch {
	case errors.Is(err, ledger.ErrNotFound) && (j.isDeleted() || j.command[1] == "sweep"):
		if j.kept != nil && j.kept.run.Total() == 0 {
			return nil
		}
		return j.kept
	case (j.cancelled || j.tried) && (errors.Is(err, ledger.ErrNotFound) || err == nil && got.run.Total() == 0):
		return nil
	case err != nil:
		c.t.Fatalf("run %s: %v", j.run, err)
	}
	counts := ledger.Counts{}
	for _, fate := range got.fates {
		counts[fate.Outcome]++
	}
	r := got.run
	enough := r.Total() == int64(j.rows) || j.command[1] == "sweep" ||
		r.Total() < int64(j.rows) && j.tried && j.found()
	if diff := cmp.Diff(r.Counts, counts); diff != "" || !enough || r.Settled() != r.Total() {
		c.addLost("run %s: %d rows, %d settled, want %d; (-counts +rows):\n%s", j.run, r.Total(), r.Settled(), j.rows, diff)
	}
	return got
}

// results reads the results of a run.
func (c *chaos) results(ctx context.Context, run string) (*runResults, error) {
	r, err := c.ledger.Get(ctx, "", ledger.RunID(run))
	if err != nil {
		return nil, err
	}
	got := &runResults{run: r, keys: map[string][]int{}, fates: make([]ledger.Result, r.Total())}
	for i := range got.fates {
		got.fates[i] = ledger.Result{Outcome: ledger.Done}
	}
	for row, err := range c.ledger.Each(ctx, r, ledger.WithResult, 0) {
		if err != nil {
			return nil, err
		}
		got.fates[row.Item] = row.Result
	}
	stored, err := c.ledger.Contents(ctx, r, 0, int(r.Total()))
	if err != nil {
		return nil, err
	}
	for i, row := range stored {
		key, err := keyOfStored(row)
		if err != nil {
			return nil, fmt.Errorf("run %s: row %d: %w", run, i, err)
		}
		got.keys[key] = append(got.keys[key], i)
	}
	return got, nil
}

func keyOfStored(row []byte) (string, error) {
	var v struct {
		Organization string `json:"organization_id"`
		Domain       string `json:"discovery_domain_id"`
		Client       string `json:"client_id"`
		Name         string `json:"name"`
	}
	err := json.Unmarshal(row, &v)
	if v.Name != "" {
		return v.Name, err
	}
	return v.Organization + " " + v.Domain + v.Client, err
}
