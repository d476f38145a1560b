package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

// submitFlags are the flags of every command that submits rows.
type submitFlags struct {
	File          string   `arg:"" optional:"" help:"CSV file with a header, or JSON Lines; may be gzipped. - or no file: read standard input."`
	Tenant        string   `default:"default" placeholder:"NAME" help:"Tenant of the rows."`
	ID            string   `name:"run" noenv:"true" placeholder:"ID" help:"Run id (default: a new one). Submitting the same rows again under the same id is harmless."`
	Priority      string   `noenv:"true" placeholder:"high|normal" help:"Priority of the run (default: high for up to 500 rows, else normal)."`
	Label         string   `noenv:"true" placeholder:"TEXT" help:"Label shown with the run."`
	NotBefore     string   `noenv:"true" placeholder:"TIME" help:"Start no row before this time, such as 2026-12-01T02:00:00Z, or 8h from now on."`
	Follow        bool     `noenv:"true" help:"Wait until the run has ended, then print the results of its rows."`
	SkipInvalid   bool     `noenv:"true" help:"Submit the valid rows even if others are invalid. Invalid rows are listed and settle as invalid; the exit status is 3."`
	Rejected      string   `noenv:"true" placeholder:"FILE" help:"Write the invalid rows, unchanged, to this file, with a column orgops_error. Requires --skip-invalid."`
	IgnoreColumns []string `noenv:"true" placeholder:"A,B" help:"Ignore these columns or JSON members."`
	NoWorkerYet   bool     `help:"Submit for a tenant that no worker has served on this Redis yet. The rows wait until one starts."`
	DryRun        bool     `noenv:"true" help:"Print what would be submitted and how long it would take; change nothing. Redis is optional: only the tenant's settings are read."`
}

// order is one submission: what the arguments ask for.
type order struct {
	submitFlags
	kind     string
	one      []byte // a single row as JSON, instead of a file
	defaults tasks.Defaults
	giveUp   time.Duration // 0: as the tenant's worker says
}

func (o order) check() error {
	if err := tasks.CheckTenant(o.Tenant); err != nil {
		return cli.Usage(err)
	}
	if o.ID != "" {
		if err := tasks.CheckRunID(o.ID); err != nil {
			return cli.Usage(err)
		}
	}
	if err := tasks.CheckPriority(tasks.Priority(o.Priority)); err != nil {
		return cli.Usage(err)
	}
	if _, err := parseNotBefore(o.NotBefore, time.Now()); err != nil {
		return err
	}
	if o.DryRun && o.Follow {
		return cli.Usage(errors.New("--dry-run and --follow do not go together: a dry run submits nothing to follow"))
	}
	if o.Rejected != "" && !o.SkipInvalid {
		return cli.Usage(errors.New("--rejected requires --skip-invalid: without it no row is submitted if one is bad"))
	}
	return nil
}

// submit submits the order's rows: all of them, or none if one is bad, unless
// the bad ones are to be skipped.
func (t *tool) submit(ctx context.Context, o order) error {
	if err := o.check(); err != nil {
		return err
	}
	rows, err := t.open(o)
	if err != nil {
		return err
	}
	defer rows.close()
	if o.DryRun {
		return t.dryRun(ctx, o, rows)
	}
	id, err := t.submitRows(ctx, o, rows)
	if errors.Is(err, context.Canceled) {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: errors.New("interrupted: nothing was submitted")}
	}
	if err != nil || !o.Follow {
		return err
	}
	return t.follow(ctx, []string{id})
}

// submitRows returns the run's id. An error that is [context.Canceled] says
// that nothing was submitted.
func (t *tool) submitRows(ctx context.Context, o order, rows *rowsFile) (id string, err error) {
	if err := t.connectToHandIn(ctx); err != nil {
		return "", err
	}
	in, err := rows.input(ctx, o)
	if err != nil {
		return "", err
	}
	checked, err := t.examineTo(o, in, rows)
	if err != nil {
		return "", err
	}
	defer t.close(checked)
	id, err = t.handIn(ctx, o, in, checked)
	if bad := checked.Invalid.Total; err == nil && bad > 0 && !o.Follow {
		err = &cli.StatusError{Status: cli.StatusRejected, Err: fmt.Errorf("bad rows: %d of %d; the others were submitted", bad, checked.Rows)}
	}
	return id, err
}

// examineTo examines and, where the order says so, writes the bad rows to a file.
func (t *tool) examineTo(o order, in intake.Input, rows *rowsFile) (checked intake.Checked, err error) {
	if o.Rejected == "" {
		return t.examine(in)
	}
	file, err := createRejected(o.Rejected, rows)
	if err != nil {
		return checked, err
	}
	defer func() { err = file.end(err) }()
	in.Rejected = file
	return t.examine(in)
}

// others returns how to submit the valid rows, or "" if there are none.
func others(bad, rows int64) string {
	if bad == rows {
		return ""
	}
	return " (--skip-invalid submits the others)"
}

// examine is the first reading: every row is checked, and nothing kept.
func (t *tool) examine(in intake.Input) (intake.Checked, error) {
	checked, err := in.Check()
	if header, ok := errors.AsType[*intake.HeaderError](err); ok && len(header.Unknown) > 0 && header.Msg == "" {
		return checked, cli.Usage(fmt.Errorf("%w (leave columns out with --ignore-columns)", err))
	}
	if _, ok := errors.AsType[*intake.HeaderError](err); ok || errors.Is(err, intake.ErrNoRows) || errors.Is(err, intake.ErrTooManyRows) {
		return checked, cli.Usage(err)
	}
	if bad, ok := errors.AsType[*intake.BadRows](err); ok {
		t.tellBad(bad)
		return checked, &cli.StatusError{Status: cli.StatusRejected, Err: fmt.Errorf("bad rows: %d of %d; nothing was submitted%s", bad.Total, checked.Rows, others(bad.Total, checked.Rows))}
	}
	t.tellBad(&checked.Invalid)
	t.tellDuplicates(in.Name, checked.Duplicates)
	return checked, err
}

// tellDuplicates tells the first rows that repeat others, and how many there are.
func (t *tool) tellDuplicates(name string, d intake.Duplicates) {
	for _, one := range d.First {
		fmt.Fprintf(t.Stderr, "%s:%d: the same as line %d\n", name, one.Line, one.SameAs)
	}
	if more := d.Total - int64(len(d.First)); more > 0 {
		fmt.Fprintf(t.Stderr, "and %d more\n", more)
	}
	if d.Total > 0 {
		fmt.Fprintf(t.Stderr, "duplicate rows: %d; each settles as unchanged without a request\n", d.Total)
	}
}

// close lets go of what was found of the rows.
func (t *tool) close(checked intake.Checked) {
	if err := checked.Close(); err != nil {
		t.log.Debug("close temporary file", "error", err)
	}
}

// tellBad tells the bad rows one a line, as editors know to jump to.
func (t *tool) tellBad(bad *intake.BadRows) {
	for _, row := range bad.First {
		fmt.Fprintln(t.Stderr, row)
	}
	if more := bad.Total - int64(len(bad.First)); more > 0 {
		fmt.Fprintf(t.Stderr, "and %d more\n", more)
	}
}

// handIn creates the run, prints its id, and submits the rows.
func (t *tool) handIn(ctx context.Context, o order, in intake.Input, checked intake.Checked) (id string, err error) {
	giveUp, seen, err := t.giveUp(ctx, o)
	if err != nil {
		return "", err
	}
	notBefore, err := parseNotBefore(o.NotBefore, time.Now())
	if err != nil {
		return "", err
	}
	if o.ID == "" {
		o.ID = tasks.NewRunID(time.Now())
	}
	taker := t.intake()
	run, created, err := taker.Begin(ctx, in, checked, intake.Run{ID: o.ID, Tenant: o.Tenant, Label: o.Label, GiveUp: giveUp, Priority: tasks.Priority(o.Priority), NotBefore: notBefore})
	if mismatch, ok := errors.AsType[*runs.MismatchError](err); ok {
		return "", cli.Usage(mismatch)
	}
	if err != nil {
		return "", err
	}
	if !seen {
		t.log.WarnContext(ctx, "no worker has served this tenant on this Redis: the rows wait until one starts", "tenant", o.Tenant)
	}
	if !t.json {
		fmt.Fprintln(t.Stdout, run.ID)
	}
	sum, err := t.handInRows(ctx, taker, in, checked, run, created)
	if errors.Is(err, runs.ErrCancelled) {
		return "", fmt.Errorf("run %s was cancelled: submit these rows under another id, if they are still wanted", run.ID)
	}
	if errors.Is(err, intake.ErrChanged) {
		return "", fmt.Errorf("run %s was submitted in part, and cannot be completed: %w", run.ID, err)
	}
	if err != nil {
		return "", unfinished(ctx, run.ID, err)
	}
	if t.json {
		err = t.printJSON(submittedJSON{Run: run.ID, Rows: sum.Rows, Tasks: sum.Tasks, Invalid: checked.Invalid.Total, Duplicates: duplicatesAsJSON(checked.Duplicates)})
	}
	return run.ID, err
}

// submittedJSON is what --json prints of a submission.
type submittedJSON struct {
	Run        string          `json:"run"`
	Rows       int64           `json:"rows"`
	Tasks      int64           `json:"tasks"`             // enqueued now, or there already; of the core the requests that the rows take
	Invalid    int64           `json:"invalid,omitempty"` // of the rows, those that are bad
	Duplicates *duplicatesJSON `json:"duplicates,omitempty"`
}

// duplicatesJSON are the rows that repeat others.
type duplicatesJSON struct {
	Rows  int64              `json:"rows"`
	First []intake.Duplicate `json:"first"` // at most ten
}

func duplicatesAsJSON(d intake.Duplicates) *duplicatesJSON {
	if d.Total == 0 {
		return nil
	}
	return &duplicatesJSON{Rows: d.Total, First: d.First}
}

// handInRows is the second reading.
func (t *tool) handInRows(ctx context.Context, taker intake.Intake, in intake.Input, checked intake.Checked, run runs.Run, created bool) (tasks.Summary, error) {
	if !created {
		t.log.InfoContext(ctx, "run was submitted before: existing rows stay as they are", "run", run.ID, "settled", run.Settled)
	}
	if run.Sealed && run.Paused && !run.Incomplete {
		t.log.WarnContext(ctx, "run is complete and paused: resume it to continue", "run", run.ID, "command", "enqueue runs resume "+run.ID)
		return tasks.Summary{Rows: run.Total, Settled: run.Settled}, nil
	}
	if !run.CancelledAt.IsZero() {
		return tasks.Summary{}, runs.ErrCancelled
	}
	if run.Ended() {
		t.log.InfoContext(ctx, "run has ended: nothing to submit", "run", run.ID, "rows", run.Total)
		return tasks.Summary{Rows: run.Total, Settled: run.Settled}, nil
	}
	sum, err := taker.HandIn(ctx, in, checked, run)
	if err != nil {
		return sum, err
	}
	t.log.InfoContext(ctx, "rows submitted", "run", run.ID, "rows", sum.Rows, "tasks", sum.Tasks, "settled_before", sum.Settled)
	return sum, nil
}

// giveUp is how long a token may take to appear: as the arguments say, else as
// the tenant's worker has told, else the default. seen says whether a worker
// has told anything.
func (t *tool) giveUp(ctx context.Context, o order) (giveUp time.Duration, seen bool, err error) {
	settings, seen, err := pace.Announced(ctx, t.redis, o.Tenant)
	switch {
	case err != nil:
		return 0, false, err
	case !seen && !o.NoWorkerYet:
		return 0, false, noWorker(o.Tenant)
	case o.giveUp > 0:
		return o.giveUp, seen, nil
	case settings.GiveUp > 0:
		return settings.GiveUp, seen, nil
	}
	return tasks.DefaultGiveUp, seen, nil
}

// noWorker refuses what would wait for ever if the tenant's name, or the Redis, is a mistake.
func noWorker(tenant string) error {
	return cli.Usage(fmt.Errorf("no worker has served tenant %s on this Redis: check --tenant and --redis-url; to submit before the first worker starts, add --no-worker-yet", tenant))
}

// unfinished returns how to continue a run that was submitted in part.
func unfinished(ctx context.Context, id string, err error) error {
	const goOn = "only a part of run %s was submitted; to submit the rest, repeat the command with the same rows and --run %s"
	if ctx.Err() != nil {
		return &cli.StatusError{Status: cli.StatusInterrupted, Err: fmt.Errorf("interrupted: "+goOn, id, id)}
	}
	return fmt.Errorf("%w\n"+goOn, err, id, id)
}
