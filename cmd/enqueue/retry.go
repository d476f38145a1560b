package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/internal/status"
)

type retryCommand struct {
	oneRun

	Child     string   `name:"run" noenv:"true" placeholder:"ID" help:"Id of the new run (default: a new one). Repeating the command with the same id completes an interrupted retry."`
	Outcomes  []string `name:"outcome" noenv:"true" placeholder:"A,B" help:"Only rows with these outcomes: cancelled, expired, failed, refused (default: all four)."`
	Reason    string   `noenv:"true" placeholder:"TEXT" help:"Only rows that failed for this reason, as runs show lists it or a row has it, or with this mistake, such as quoted. On a terminal, the command counts them and asks."`
	Rows      []int64  `name:"row" noenv:"true" placeholder:"N,N" help:"Only rows with these numbers."`
	Label     string   `noenv:"true" placeholder:"TEXT" help:"Label shown with the new run."`
	NotBefore string   `noenv:"true" placeholder:"TIME" help:"Start no row before this time, such as 2026-12-01T02:00:00Z, or 8h from now on."`
	Follow    bool     `noenv:"true" help:"Wait until the new run has ended, then print the results of its rows."`
	sure
}

func (*retryCommand) Help() string {
	return `The rows become a run of their own, which names the run they come from. Rows with the outcome invalid are left out, because they would
be invalid again: write them to a file with "enqueue runs failed" and correct it; so are refused records of sweeps, which the next sweep
reads again. If no row is left, no run is made and the exit status is 0.
Rows that an earlier retry has submitted are left out, whatever their result: retry that run to submit its failed rows.

Examples:

    enqueue runs retry nightly --follow
    enqueue runs retry nightly --outcome expired --reason quoted`
}

func (c *retryCommand) Run(ctx context.Context, t *tool) error {
	notBefore, err := parseNotBefore(c.NotBefore, time.Now())
	o := intake.RetryOptions{ID: ledger.RunID(c.Child), Outcomes: c.Outcomes, Reason: c.Reason, Items: c.Rows,
		Label: c.Label, NotBefore: notBefore}
	if err := errors.Join(err, o.Check()); err != nil {
		return cli.Usage(err)
	}
	if err := t.connectToSubmit(ctx); err != nil {
		return err
	}
	child, err := t.retry(ctx, c, o)
	if err != nil || child == "" || !c.Follow {
		return err
	}
	return t.follow(ctx, c.Tenant, []string{child})
}

// retry returns the id of the new run, empty if there was nothing to retry.
func (t *tool) retry(ctx context.Context, c *retryCommand, o intake.RetryOptions) (child string, err error) {
	o.Created = func(run ledger.Run) {
		child = string(run.ID)
		if !t.JSON {
			fmt.Fprintln(t.Stdout, run.ID)
		}
	}
	from, err := t.find(ctx, c.oneRun)
	if err != nil {
		return "", err
	}
	if o.Reason != "" {
		if err := t.confirmRetry(ctx, c.sure, from, o); err != nil {
			return "", err
		}
	}
	sub, err := t.intake().Retry(ctx, from, o)
	if err != nil && !errors.Is(err, intake.ErrNothingToRetry) {
		return "", refusedRetry(ctx, err)
	}
	from, got := t.ledger.Get(ctx, from.Tenant, from.ID) // with its child
	if got != nil {
		return "", got
	}
	t.printLeftOut(from, ledger.RunID(child))
	if err == nil {
		t.log.InfoContext(ctx, "failed rows submitted again", "run", sub.Run.ID, "parent", from.ID, "rows", sub.Rows, "tasks",
			sub.Tasks, "settled_before", sub.Settled)
	} else if !t.JSON {
		fmt.Fprintln(t.Stdout, err)
	}
	if t.JSON {
		return child,
			t.printJSON(submission{ID: ledger.RunID(child), Parent: from.ID,
				LeftOut: from.Counts[ledger.InvalidRow], Submitted: sub, Undo: status.UndoOf(sub.Run)})
	}
	t.printUndo(sub.Run.ID, status.UndoOf(sub.Run))
	return child, nil
}

// confirmRetry counts the rows that would be submitted, and asks.
func (t *tool) confirmRetry(ctx context.Context, s sure, from ledger.Run, o intake.RetryOptions) error {
	rows, err := t.intake().Retryable(ctx, from, o)
	if err != nil || rows == 0 { // then Retry says why
		return err
	}
	return s.confirm(ctx, t, question{text: fmt.Sprintf("Submit %d of %d failed rows of run %s again, as a new run", rows,
		status.Failed(from), from.ID)})
}

// printLeftOut prints which rows a child does not retry, and how to proceed with them.
func (t *tool) printLeftOut(from ledger.Run, child ledger.RunID) {
	for _, outcome := range []ledger.Outcome{ledger.InvalidRow, ledger.Refused} {
		if why := results.NotRetried(from, outcome); why != nil && from.Counts[outcome] > 0 {
			fmt.Fprintf(t.Stderr, "%s rows: %d, left out because %s\n", outcome, from.Counts[outcome], why)
		}
	}
	for _, earlier := range from.Children {
		if earlier.ID == child {
			break
		}
		fmt.Fprintf(t.Stderr,
			"rows that run %[1]s has retried are left out; their results: enqueue runs show %[1]s\n", earlier.ID)
	}
}

type submission struct {
	ID     ledger.RunID `json:"run,omitempty"` // "": there was nothing to submit
	Parent ledger.RunID `json:"parent,omitempty"`
	intake.Submitted
	LeftOut int64        `json:"invalid_left_out,omitempty"` // invalid rows of the parent
	Undo    *status.Undo `json:"undo,omitempty"`             // nil: no command undoes it
}

// refusedRetry returns the error of a retry as the command ends with it.
func refusedRetry(ctx context.Context, err error) error {
	err = interruptedIn(ctx, err)
	_, part := errors.AsType[*intake.UnfinishedError](err)
	if errors.Is(err, ledger.ErrMismatch) && !part {
		return cli.Usage(err)
	}
	return err
}

type failedCommand struct {
	oneRun

	Raw bool `noenv:"true" help:"Write cells of CSV as they are, also those that a spreadsheet takes for formulas."`
}

func (*failedCommand) Help() string {
	return `The rows keep the form in which they were submitted, with orgops_outcome and orgops_error added: CSV as CSV, safe to open in a
spreadsheet, JSON Lines as JSON Lines (with --json always JSON Lines). For letters to customers, rows of domains verify and of sweeps also get domain,
host and value of the TXT record to publish, found (the values at the name), advice, and mistake (its name). Lost domains of a sweep that were
revoked since also name the run in orgops_revoked_by: nothing is to be done about them. In JSON Lines, members that are not known are left out. The file can be submitted as it is: these columns are ignored.

Example:

    enqueue runs failed nightly >failed.csv`
}

func (c *failedCommand) Run(ctx context.Context, t *tool) error {
	r, err := t.readRun(ctx, c.oneRun)
	if err != nil {
		return err
	}
	o := results.FailedOptions{JSON: t.JSON, Raw: c.Raw, Revoked: status.RevokedBy(t.redis, r.Tenant)}
	rows, err := results.ExportFailed(ctx, t.ledger, r, o, t.Stdout)
	if err != nil {
		return err
	}
	t.log.InfoContext(ctx, "failed rows written", "run", r.ID, "rows", rows, "settled", r.Settled(), "total", r.Total())
	if !r.Ended() {
		fmt.Fprintf(t.Stderr, "run %s has not ended: %d of %s rows are settled; rows that fail later are not among these\n",
			r.ID, r.Settled(), status.Total(r))
	}
	return nil
}

type resultsCommand struct {
	oneRun

	Outcomes []string `name:"outcome" noenv:"true" placeholder:"A,B" help:"Only rows with these outcomes; open is that of rows without a result (default: all rows)."`
	Format   string   `noenv:"true" enum:"csv,jsonl," default:"" placeholder:"FORMAT" help:"csv or jsonl (default: the form in which the rows were submitted)."`
	WithRun  bool     `noenv:"true" help:"Also write the run in each row: its id, kind, tenant, submitter and start."`
}

func (*resultsCommand) Help() string {
	return `The rows are written as by "enqueue runs failed", and also have orgops_item, the number of the row from 0; orgops_settled_at,
when its work was done; orgops_at, the time of its proof or last check; orgops_template, the id of the template that it created or
found; and orgops_status_before and orgops_use_for_organization_discovery_before, the values that an update has replaced; each where it is known. An open row has the outcome open, and the reason why it is open. As CSV, rows
of sweeps have their ids beside these columns, and templates their names. With --with-run the file stands by itself, for an audit:
orgops_run, orgops_kind, orgops_tenant, orgops_submitted_by, and orgops_started_at, the time from which the rows could start.

Examples:

    enqueue runs results nightly --format csv >nightly.csv
    enqueue runs results removals --outcome done >removed.csv
    enqueue runs results templates --outcome done --format jsonl | jq -r .orgops_template
    enqueue runs results nightly --outcome open --format jsonl | jq -r 'select(.found) | "\(.domain): \(.advice)"'`
}

func (c *resultsCommand) Run(ctx context.Context, t *tool) error {
	err := results.CheckOutcomes(c.Outcomes)
	if t.JSON && c.Format == rowfile.FormatCSV {
		err = errors.Join(err, errors.New("--json and --format csv do not go together"))
	}
	if err != nil {
		return cli.Usage(err)
	}
	r, err := t.readRun(ctx, c.oneRun)
	if err != nil {
		return err
	}
	if t.JSON {
		c.Format = rowfile.FormatJSONL
	}
	o := results.Options{Format: c.Format, Outcomes: c.Outcomes, Run: c.WithRun,
		Revoked: status.RevokedBy(t.redis, r.Tenant)}
	if c.WithRun {
		if o.Submitter, err = status.SubmitterOf(ctx, t.redis, r); err != nil {
			return err
		}
	}
	_, err = results.Export(ctx, t.ledger, r, o, t.Stdout)
	return err
}
