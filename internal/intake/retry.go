package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// RetryOptions say which rows of a run are submitted once more, and as what.
type RetryOptions struct {
	// ID is the new run's, empty: one is made. That of a retry which was cut off
	// completes it.
	ID string
	// Outcomes are those of the rows to submit; empty: all that are not well,
	// but invalid ones, whose form is what is wrong.
	Outcomes []string
	Label    string
	// NotBefore is when the rows may start; zero: at once.
	NotBefore time.Time
	// Begun is told of the new run before its first row is submitted. nil: nobody
	// wants to know.
	Begun func(runs.Run)
}

// ErrNothingToRetry says that a run has no rows of the outcomes that are asked
// for. No run was made.
var ErrNothingToRetry = errors.New("there is nothing to retry")

// retryable are the outcomes of which rows can be submitted once more as they are.
var retryable = []string{string(tasks.Cancelled), string(tasks.Expired), string(tasks.Failed), string(tasks.Refused)}

// Check says what is wrong with the options, whatever the run is.
func (o RetryOptions) Check() error {
	for _, outcome := range o.Outcomes {
		switch {
		case outcome == string(tasks.Invalid):
			return errors.New("outcome invalid: these rows would be invalid again: export, correct and submit them as a file")
		case !slices.Contains(retryable, outcome):
			return fmt.Errorf("outcome %s: want of %s", quoted(outcome), strings.Join(retryable, ", "))
		}
	}
	if o.ID == "" {
		return nil
	}
	return tasks.CheckRunID(o.ID)
}

// OpenRetryError says that rows of a run are being retried already, by a run
// that has not ended. Nothing was changed.
type OpenRetryError struct {
	Run, Child string
	// Incomplete says that not all rows of the child are in: its producer goes on
	// with that, or was cut off.
	Incomplete bool
}

// Error names the child.
func (e *OpenRetryError) Error() string {
	state := "has not ended"
	if e.Incomplete {
		state = "is being submitted, or its submission was interrupted"
	}
	return fmt.Sprintf("run %s is being retried already by run %s, which %s", e.Run, e.Child, state)
}

// Retry hands rows of a run that has ended, and that did not settle well, in
// once more, as a run of their own: a child, of the same kind, tenant, caller and form.
// Who is killed on the way leaves a child that the same call with its ID
// completes; each row is submitted once.
//
// The error is [runs.ErrNotFound], [runs.ErrOpen] where the run has not ended, an
// *[OwnRunError], an *[OpenRetryError], [ErrNothingToRetry], a *[runs.MismatchError] where there is
// another run of that ID, or a retry of other rows, [runs.ErrCancelled] where the
// child was cancelled, or what [RetryOptions.Check] says. run is the child as far
// as it has come, where there is one.
func (i Intake) Retry(ctx context.Context, parent string, o RetryOptions) (run runs.Run, sum tasks.Summary, err error) {
	if err := o.Check(); err != nil {
		return runs.Run{}, sum, err
	}
	if o.ID == "" {
		o.ID = tasks.NewRunID(time.Now())
	}
	from, err := i.Ledger.Get(ctx, parent)
	if err == nil && !from.Ended() {
		err = fmt.Errorf("run %s: retry: %w", parent, runs.ErrOpen)
	}
	if err == nil {
		err = i.notOwn(ctx, from)
	}
	if err == nil {
		err = i.notRetried(ctx, from, o.ID)
	}
	if err != nil {
		return runs.Run{}, sum, err
	}
	rows, err := i.choose(ctx, from, o.Outcomes)
	if err != nil {
		return runs.Run{}, sum, err
	}
	run, _, err = i.beginChild(ctx, from, runs.Run{
		ID: o.ID, Kind: from.Kind, Tenant: from.Tenant, Label: o.Label, Digest: rows.digest(parent), Format: from.Format,
		Parent: parent, Caller: from.Caller, Columns: from.Columns, GiveUp: from.GiveUp, Priority: from.Priority, KeepFor: from.KeepFor, NotBefore: o.NotBefore,
	})
	if err != nil {
		return runs.Run{}, sum, err
	}
	if o.Begun != nil {
		o.Begun(run)
	}
	switch {
	case !run.CancelledAt.IsZero():
		return run, sum, fmt.Errorf("run %s: %w", run.ID, runs.ErrCancelled)
	case run.Ended():
		return run, tasks.Summary{Rows: run.Total, Settled: run.Settled}, nil
	}
	sum, err = i.submitChosen(ctx, from, rows, run)
	return run, sum, err
}

// submitChosen stages the child's rows and commits it.
func (i Intake) submitChosen(ctx context.Context, from runs.Run, rows chosenRows, child runs.Run) (tasks.Summary, error) {
	s := i.newStaging(child.ID, child.Kind)
	s.begin = func(ctx context.Context) (*ledger.Stager, bool, error) { return i.stager(ctx, child) }
	err := i.stageChosen(ctx, from, rows, s)
	if err == nil {
		err = s.commit(ctx)
	}
	if err != nil {
		return tasks.Summary{}, i.whyNot(ctx, child.ID, err)
	}
	return s.summary(child), s.verify(ctx)
}

// OwnRunError says that a run is not retried, since a worker has submitted it for a sweep.
type OwnRunError struct{ Run string }

// Error says what happens instead.
func (e *OwnRunError) Error() string {
	return fmt.Sprintf("run %s was submitted by a worker for a sweep, and is not retried: the next check of its domains decides again", e.Run)
}

// CanRetry reports whether rows of a run of that kind can be submitted once more.
func CanRetry(kind string) bool {
	return kind != tasks.TypeAct && kind != tasks.TypeHourly
}

// notOwn refuses a run that a worker has submitted: actions, checks between sweeps, and rows
// that give a status back, which need a full proof whatever the tenant's settings are.
func (i Intake) notOwn(ctx context.Context, from runs.Run) error {
	if !CanRetry(from.Kind) {
		return &OwnRunError{from.ID}
	}
	if from.Kind != tasks.TypeVerify || from.Rows() != 1 {
		return nil
	}
	rows, err := i.Ledger.Rows(ctx, from.ID, 0, 1)
	if err != nil || len(rows) == 0 {
		return err
	}
	var row kinds.VerifyRow
	if json.Unmarshal(rows[0], &row) == nil && row.Restore {
		return &OwnRunError{from.ID}
	}
	return nil
}

// notRetried refuses a run of which another child has not ended, unless it is to
// go on with one that it has.
func (i Intake) notRetried(ctx context.Context, from runs.Run, child string) error {
	if slices.Contains(from.Children, child) {
		return nil
	}
	for _, id := range from.Children {
		other, err := i.Ledger.Get(ctx, id)
		switch {
		case errors.Is(err, runs.ErrNotFound):
			return &OpenRetryError{Run: from.ID, Child: id, Incomplete: true}
		case err != nil:
			return err
		case !other.Ended() && other.Parent == from.ID:
			return &OpenRetryError{Run: from.ID, Child: id, Incomplete: !other.Sealed}
		}
	}
	return nil
}

// beginChild makes the child, or finds it where it was begun before.
func (i Intake) beginChild(ctx context.Context, from, child runs.Run) (run runs.Run, created bool, err error) {
	// One that differs is refused before the parent is told of it.
	if _, err = i.Ledger.Get(ctx, child.ID); err == nil {
		_, _, err = i.create(ctx, child, nil)
	}
	if err != nil && !errors.Is(err, runs.ErrNotFound) {
		return runs.Run{}, false, err
	}
	for {
		err := i.Ledger.Adopt(ctx, from, child.ID)
		if err == nil {
			return i.create(ctx, child, nil)
		}
		if !errors.Is(err, runs.ErrRaced) {
			return runs.Run{}, false, err
		}
		if from, err = i.Ledger.Get(ctx, from.ID); err == nil {
			err = i.notRetried(ctx, from, child.ID)
		}
		if err != nil {
			return runs.Run{}, false, err
		}
	}
}

// chosenRows are rows of a run: a bit for each, since there may be a hundred
// million of them.
type chosenRows struct {
	bits []byte
	rows int64
}

// choose reads once which rows those are, so that what settles meanwhile
// changes nothing.
func (i Intake) choose(ctx context.Context, from runs.Run, outcomes []string) (chosenRows, error) {
	if len(outcomes) == 0 {
		outcomes = retryable
	}
	chosen := chosenRows{bits: make([]byte, (from.Total+7)/8)}
	for fate, err := range i.Ledger.Fates(ctx, from.ID) {
		if err != nil {
			return chosenRows{}, err
		}
		if slices.Contains(outcomes, fate.Outcome) && fate.Item < from.Total {
			chosen.bits[fate.Item/8] |= 1 << (fate.Item % 8)
			chosen.rows++
		}
	}
	if chosen.rows == 0 {
		return chosenRows{}, fmt.Errorf("run %s: %w", from.ID, ErrNothingToRetry)
	}
	return chosen, nil
}

// digest names the parent and the rows of it that were chosen.
func (c chosenRows) digest(parent string) string {
	h := sha256.New()
	fmt.Fprintf(h, "rows of run %s\n", parent)
	h.Write(c.bits)
	return hex.EncodeToString(h.Sum(nil))
}

// stageChosen stages the child's rows, in the order of the parent's.
func (i Intake) stageChosen(ctx context.Context, from runs.Run, rows chosenRows, to *staging) error {
	stored, err := newStoredRows(i.Ledger, from)
	if err != nil {
		return err
	}
	for item := range from.Total {
		if rows.bits[item/8]&(1<<(item%8)) == 0 {
			continue
		}
		source, err := stored.source(ctx, item)
		if err != nil {
			return err
		}
		row, bad := stored.row(source)
		if bad != nil {
			err = to.addSettled(ctx, append([]byte{badMark}, source...), fate{tasks.Invalid, oneLine(bad)})
		} else {
			err = to.add(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
