package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/rowfile"
	"orgops/internal/status"
	"orgops/tasks"
)

type submitFlags struct {
	File        string `arg:"" optional:"" help:"CSV file with a header, JSON Lines, or a JSON array of objects; may be gzipped. - or no file: read standard input. Of a command for domains, also a domain's name."`
	Tenant      string `placeholder:"NAME" help:"Tenant of the rows (default: of a single domain the one that has it, else default)."`
	ID          string `name:"run" noenv:"true" placeholder:"ID" help:"Run id (default: a new one). Submitting the same rows again under the same id is harmless."`
	Priority    string `noenv:"true" placeholder:"high|normal" help:"Priority of the run (default: high for up to 500 rows, else normal)."`
	Label       string `noenv:"true" placeholder:"TEXT" help:"Label shown with the run."`
	NotBefore   string `noenv:"true" placeholder:"TIME" help:"Start no row before this time, such as 2026-12-01T02:00:00Z, or 8h or 2d from now on."`
	Follow      bool   `noenv:"true" help:"Wait until the run has ended, then print the results of its rows."`
	SkipInvalid bool   `noenv:"true" help:"Submit the valid rows even if others are invalid. Invalid rows are listed and settle as invalid; the exit status is 3."`
	Rejected    string `noenv:"true" placeholder:"FILE" help:"Write the invalid rows, unchanged, to this file, with a column orgops_error. Requires --skip-invalid."`
	rowsFlags
	NoWorkerYet bool `help:"Submit for a tenant that no worker has served on this Redis yet. The rows wait until one starts."`
	DryRun      bool `noenv:"true" help:"Print what would be submitted and how long it would take; change nothing. Redis is optional: only the tenant's settings are read."`
}

type order struct {
	submitFlags
	kind     string
	one      []byte // a single row as JSON, instead of a file
	defaults tasks.Defaults
	giveUp   time.Duration // 0: the tenant's setting
	max      int64         // verified domains that may be set to pending; 0: the default
}

// order returns an order for rows of a kind, of the default tenant unless another is named.
func (f submitFlags) order(kind string) order {
	o := order{submitFlags: f, kind: kind}
	o.Tenant = cmp.Or(f.Tenant, tasks.DefaultTenant)
	return o
}

func (o order) run() (ledger.NewRun, error) {
	now := time.Now()
	id := cmp.Or(o.ID, tasks.NewRunID(now))
	notBefore, err := parseNotBefore(o.NotBefore, now)
	err = errors.Join(tasks.CheckRun(o.Tenant, id, tasks.Priority(o.Priority)), err)
	switch {
	case err != nil:
	case o.one != nil && o.File != "":
		err = errors.New("name either a file or a single domain")
	case o.DryRun && o.Follow:
		err = errors.New("--dry-run and --follow do not go together: a dry run submits nothing to follow")
	case o.Rejected != "" && !o.SkipInvalid:
		err = errors.New("--rejected requires --skip-invalid: without it no row is submitted if one is bad")
	}
	return ledger.NewRun{
		ID: ledger.RunID(id), Tenant: ledger.Tenant(o.Tenant),
		Description: ledger.Description{Label: o.Label, Priority: o.Priority, GiveUp: o.giveUp, Max: o.max},
		Control:     ledger.Control{NotBefore: notBefore},
	}, cli.Usage(err)
}

// submit submits the order's rows: all of them, or none if one is bad, unless
// --skip-invalid is set.
func (t *tool) submit(ctx context.Context, o order) error {
	run, err := o.run()
	if err != nil {
		return err
	}
	run.BatchWait = tasks.DefaultBatchWait // it holds for a single removal alone
	rows, err := t.open(ctx, o.File, o.one)
	if err != nil {
		return err
	}
	defer rows.close()
	in := intake.Input{Name: rows.name, Rows: rows, Kind: o.kind, Defaults: o.defaults, Ignore: o.IgnoreColumns,
		SkipInvalid: o.SkipInvalid, File: rows.regular}
	if o.DryRun {
		return t.dryRun(ctx, in, o.Tenant)
	}
	id, err := t.submitRows(ctx, o, rows, in, run)
	if err != nil || !o.Follow {
		return interruptedOr(err)
	}
	return t.follow(ctx, string(run.Tenant), []string{id})
}

func (t *tool) submitRows(ctx context.Context, o order, rows *rowsFile, in intake.Input,
	run ledger.NewRun) (id string, err error) {
	seen, err := t.connectToSubmitTo(ctx, o.Tenant, o.NoWorkerYet)
	if err != nil {
		return "", err
	}
	sub, err := t.submitTo(ctx, o.Rejected, rows, in, run)
	t.printFound(in.Name, sub.Found)
	if err != nil {
		return "", refusal(sub.Found, o.Tenant, interruptedIn(ctx, err))
	}
	if !seen {
		t.log.WarnContext(ctx, "no worker has served this tenant on this Redis: the rows wait until one starts", "tenant",
			run.Tenant)
	}
	if err := t.printSubmitted(ctx, sub); err != nil {
		return "", err
	}
	if bad := sub.Invalid.Total; bad > 0 && !o.Follow {
		err = &cli.StatusError{Status: cli.StatusRejected,
			Err: fmt.Errorf("bad rows: %d of %d; the others were submitted", bad, sub.Rows)}
	}
	return string(sub.Run.ID), err
}

func (t *tool) submitTo(ctx context.Context, rejected string, rows *rowsFile, in intake.Input,
	run ledger.NewRun) (sub intake.Submitted, err error) {
	if rejected == "" {
		return t.intake().Submit(ctx, in, run)
	}
	file, err := createRejected(rejected, rows)
	if err != nil {
		return sub, err
	}
	defer func() { err = file.end(err) }()
	in.Rejected = file
	return t.intake().Submit(ctx, in, run)
}

// printFound prints the first bad rows of an input, in the form in which editors jump to them,
// and its first duplicates.
func (t *tool) printFound(name string, found intake.Found) {
	more := func(total int64, printed int) {
		if rest := total - int64(printed); rest > 0 {
			fmt.Fprintf(t.Stderr, "and %d more\n", rest)
		}
	}
	if found.Notes != "" {
		fmt.Fprintf(t.Stderr, "%s: %s\n", name, found.Notes)
	}
	bad := &found.Invalid
	duplicates := found.Duplicates
	for _, row := range bad.First {
		fmt.Fprintln(t.Stderr, row)
	}
	more(bad.Total, len(bad.First))
	for _, one := range duplicates.First {
		fmt.Fprintf(t.Stderr, "%s:%d: row %d: the same as row %d (line %d)\n", name, one.Line, one.Row,
			one.SameAsRow, one.SameAs)
	}
	more(duplicates.Total, len(duplicates.First))
	if found.CutLine > 0 {
		fmt.Fprintf(t.Stderr, "%s:%d: warning: the last line has no end: is the file complete?\n", name, found.CutLine)
	}
	if duplicates.Total > 0 {
		fmt.Fprintf(t.Stderr, "duplicate rows: %d; %s\n", duplicates.Total, resultOfDuplicates(duplicates.Total))
	}
}

// resultOfDuplicates describes the result of so many duplicates.
func resultOfDuplicates(total int64) string {
	if total <= intake.StoredDuplicates {
		return "each settles as unchanged without a request"
	}
	return fmt.Sprintf("the first %d settle as unchanged without a request, and the others are left out of the run",
		intake.StoredDuplicates)
}

// refusal returns the error of an input as the command ends with it.
func refusal(found intake.Found, tenant string, err error) error {
	header, isHeader := errors.AsType[*rowfile.HeaderError](err)
	bad, isBad := errors.AsType[*intake.BadRows](err)
	mismatch, differs := errors.AsType[*ledger.MismatchError](err)
	switch {
	case isHeader && len(header.Unknown) > 0 && header.Msg == "":
		return cli.Usage(remedy.With(err, "leave columns out with --ignore-columns"))
	case isHeader, errors.Is(err, intake.ErrNoRows), errors.Is(err, intake.ErrTooManyRows),
		errors.Is(err, intake.ErrTooManyBad):
		return cli.Usage(err)
	case isBad:
		refused := fmt.Errorf("bad rows: %d of %d; nothing was submitted", bad.Total, found.Rows)
		if bad.Total < found.Rows {
			refused = remedy.With(refused, "to submit the others: --skip-invalid")
		}
		if bad.Unknown > 0 {
			refused = remedy.With(refused, "%s, so that all are known by their names", status.LearnNames(tenant))
		}
		return &cli.StatusError{Status: cli.StatusRejected, Err: refused}
	case differs:
		return cli.Usage(mismatch)
	}
	return err
}

func interruptedOr(err error) error {
	if errors.Is(err, context.Canceled) {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: errors.New("interrupted: nothing was submitted")}
	}
	return err
}

// printSubmitted prints the run's id, or the submission as JSON, and logs the state of a run
// that existed.
func (t *tool) printSubmitted(ctx context.Context, sub intake.Submitted) error {
	run := sub.Run
	if !run.CancelledAt.IsZero() {
		return intake.Cancelled(run.ID)
	}
	if !sub.Created {
		t.log.InfoContext(ctx, "run was submitted before: existing rows stay as they are", "run", run.ID,
			"settled", run.Settled())
	}
	switch {
	case run.Ended():
		t.log.InfoContext(ctx, "run has ended: nothing to submit", "run", run.ID, "rows", run.Total())
	case run.HasAllRows() && run.Paused:
		t.log.WarnContext(ctx, "run is complete and paused: resume it to continue", "run", run.ID, "command",
			"enqueue runs resume "+run.ID)
	default:
		t.log.InfoContext(ctx, "rows submitted", "run", run.ID, "rows", sub.Rows, "tasks", sub.Tasks,
			"settled_before", sub.Settled)
	}
	undo := status.UndoOf(run)
	if t.JSON {
		return t.printJSON(submission{ID: run.ID, Submitted: sub, Undo: undo})
	}
	if _, err := fmt.Fprintln(t.Stdout, run.ID); err != nil {
		return err
	}
	t.printUndo(run.ID, undo)
	return nil
}
