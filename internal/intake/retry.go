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

	"orgops/internal/activity"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// RetryOptions select rows of a run, and have the properties of the new run.
type RetryOptions struct {
	// ID is the new run's; empty: a new one. The ID of a retry that was interrupted
	// completes it.
	ID ledger.RunID
	// Outcomes are those of the rows to submit; empty: all outcomes of failed rows but
	// invalid, since these rows would be invalid again.
	Outcomes []string
	// Items are the numbers of the rows to submit, at most [MostItems]; empty: all of these outcomes.
	Items []int64
	Label string
	// NotBefore is when the rows may start; zero: at once.
	NotBefore time.Time
	// Created is called with the new run before its first row is submitted; nil: nothing is.
	Created func(ledger.Run)
}

// MostItems is how many rows of a run are retried by their numbers, and of a run that has not
// ended: the numbers are in the header of the child, which lists of runs read.
const MostItems = 1000

// ErrTooManyItems says that a retry has more than [MostItems] such rows. No run was created.
var ErrTooManyItems = fmt.Errorf("at most %d rows can be chosen one by one, or retried while other rows of the run "+
	"are open", MostItems)

// ErrNothingToRetry says that a run has no rows of the given outcomes. No run was created.
var ErrNothingToRetry = errors.New("there is nothing to retry")

// retryable are the outcomes of rows that can be submitted again unchanged.
var retryable = []string{string(ledger.Cancelled), string(engine.Expired),
	string(engine.Failed), string(engine.Refused)}

// Check returns an error if the options are invalid for every run.
func (o RetryOptions) Check() error {
	for _, outcome := range o.Outcomes {
		switch {
		case outcome == string(engine.InvalidRow):
			return errors.New("outcome invalid: these rows would be invalid again: export, correct and submit them as a file")
		case !slices.Contains(retryable, outcome):
			return fmt.Errorf("outcome %s: want of %s", quoted(outcome), strings.Join(retryable, ", "))
		}
	}
	if len(o.Items) > MostItems {
		return ErrTooManyItems
	}
	if o.ID == "" {
		return nil
	}
	return tasks.CheckRunID(string(o.ID))
}

// RetriedError says that rows of a run were submitted again before, by a child that has not
// ended, or that has failed rows itself, and that no others can be retried. Nothing was changed.
type RetriedError struct {
	Run, Child ledger.RunID
	// Ended says that the child has ended, so that its failed rows can be retried.
	Ended bool
	// Incomplete says that not all rows of the child are stored: its producer is storing
	// them, or was interrupted.
	Incomplete bool
}

// Error names the child.
func (e *RetriedError) Error() string {
	state := "has not ended"
	switch {
	case e.Ended:
		state = "has failed rows: retry that run"
	case e.Incomplete:
		state = "is being submitted, or its submission was interrupted"
	}
	return fmt.Sprintf("run %s was retried before by run %s, which %s", e.Run, e.Child, state)
}

// Retry submits failed rows of a run again, as a run of their own: a child, of the same kind,
// tenant, caller and form. Other rows of the run may be open; such a child, and one of chosen rows,
// has the numbers of its rows in its header. If the process is killed meanwhile, the same call
// with the child's ID completes the child; each row is submitted once.
//
// Rows that an earlier child has taken are left out, whatever became of them: a row that
// failed there is retried by a retry of that child. So two retries never submit the same row,
// which would repeat what the first has done, such as the removal of a client that was
// associated again since.
//
// The error is [ledger.ErrNotFound], [ledger.ErrOpen] if the run has not ended and none of its
// rows can be retried, [ErrTooManyItems], an *[OwnRunError], a *[RetriedError],
// [ErrNothingToRetry], a *[ledger.MismatchError] if there is another run of that ID, or a retry of
// other rows, [ErrCancelled] if the child was cancelled, or one of [RetryOptions.Check]. The result
// has the child as it was found or created, if it was.
func (i Intake) Retry(ctx context.Context, parent ledger.Run, o RetryOptions) (Submitted, error) {
	if err := o.Check(); err != nil {
		return Submitted{}, err
	}
	if o.ID == "" {
		o.ID = ledger.RunID(tasks.NewRunID(time.Now()))
	}
	from, rows, run, err := i.createChild(ctx, parent, o)
	for errors.Is(err, ledger.ErrRaced) {
		from, rows, run, err = i.createChild(ctx, parent, o)
	}
	if err != nil {
		return Submitted{}, err
	}
	if o.Created != nil {
		o.Created(run)
	}
	switch {
	case !run.CancelledAt.IsZero():
		return Submitted{Run: run}, fmt.Errorf("run %s: %w", run.ID, ErrCancelled)
	case run.Ended():
		return Submitted{Found: Found{Rows: run.Total()}, Run: run, Settled: run.Settled()}, nil
	}
	s := i.newStaging(run.Tenant, run.ID, run.Kind)
	s.begin = func(ctx context.Context) (*ledger.Stager, bool, error) { return i.stager(ctx, run) }
	err = i.stageChosen(ctx, from, rows, s)
	if err == nil {
		err = s.commit(ctx)
	}
	if err == nil && !s.complete {
		i.By.Record(ctx, activity.OfRun(parent.Tenant, parent.ID, activity.Retried, "as run "+string(run.ID)))
	}
	if err != nil {
		return Submitted{Run: run}, i.whyNot(ctx, run.Tenant, run.ID, err)
	}
	return s.submitted(run), s.verify(ctx)
}

// createChild creates the child of a run, or finds the one that was created before, and
// chooses its rows. The error is [ledger.ErrRaced] if another process has changed the parent
// meanwhile.
func (i Intake) createChild(ctx context.Context, parent ledger.Run,
	o RetryOptions) (from ledger.Run, rows chosenRows, child ledger.Run, err error) {
	from, err = i.Ledger.Get(ctx, parent.Tenant, parent.ID)
	if err == nil && !from.Sealed() {
		err = fmt.Errorf("run %s: retry: %w", parent.ID, ledger.ErrOpen)
	}
	if err == nil {
		err = i.notOwn(ctx, from)
	}
	if err == nil && o.ID != "" { // a child that is completed has the rows that it had
		var had ledger.Run
		if had, err = i.Ledger.Get(ctx, from.Tenant, o.ID); err == nil && had.Parent == from.ID && len(had.Items) > 0 {
			o.Items = had.Items
		}
		if errors.Is(err, ledger.ErrNotFound) {
			err = nil
		}
	}
	var taken *RetriedError
	var without map[int64]bool
	if err == nil {
		o.Outcomes, without, taken, err = i.notTaken(ctx, from, o)
	}
	if err == nil {
		rows, err = i.choose(ctx, from, o, without)
	}
	if errors.Is(err, ErrNothingToRetry) {
		switch {
		case taken != nil:
			err = taken
		case !from.Ended() && len(o.Items) == 0:
			err = fmt.Errorf("run %s: retry: %w", parent.ID, ledger.ErrOpen)
		}
	}
	if err != nil {
		return from, rows, child, err
	}
	n := ledger.NewRun{
		ID: o.ID, Kind: from.Kind, Tenant: from.Tenant,
		Description: ledger.Description{
			Label: o.Label, Digest: rows.digest(from.ID), Format: from.Format, Columns: from.Columns,
			Parent: from.ID, Outcomes: o.Outcomes, Items: rows.items,
			Caller: from.Caller, Priority: from.Priority, GiveUp: from.GiveUp, Max: from.Max,
			KeepFor: from.KeepFor,
		},
		Control: ledger.Control{NotBefore: o.NotBefore},
	}
	// Another run of this ID is refused before it is recorded as a child.
	if _, err = i.Ledger.Get(ctx, n.Tenant, n.ID); err == nil {
		_, _, err = i.create(ctx, n)
	}
	if err == nil || errors.Is(err, ledger.ErrNotFound) {
		err = i.Ledger.Adopt(ctx, from, n.ID)
	}
	if err == nil {
		child, _, err = i.create(ctx, n)
	}
	return from, rows, child, err
}

// OwnRunError says that rows of a run cannot be submitted again, since each must be chosen by
// what sweeps have found since.
type OwnRunError struct{ Run ledger.RunID }

// Error says what to do instead.
func (e *OwnRunError) Error() string {
	return fmt.Sprintf("run %s revokes domains, or undoes a change, and is not retried: start with "+
		"enqueue domains revoke --dry-run, or repeat the command with --undo", e.Run)
}

// CanRetry reports whether rows of that kind can be submitted again unchanged after that outcome.
// The records that a sweep refuses cannot be checked: the next sweep reads them again.
func CanRetry(kind ledger.Kind, outcome ledger.Outcome) bool {
	k, _ := tasks.KindOf(string(kind))
	return k.Submitter != tasks.Operators && slices.Contains(retryable, string(outcome)) &&
		(kind != tasks.TypeRecheck || outcome != engine.Refused)
}

// notOwn refuses a run that revokes domains, one that restores their status, which needs a full
// proof whatever the tenant's settings are, and one that undoes another, whose rows have a
// condition.
func (i Intake) notOwn(ctx context.Context, from ledger.Run) error {
	if k, _ := tasks.KindOf(string(from.Kind)); k.Submitter == tasks.Operators {
		return &OwnRunError{from.ID}
	}
	if from.Kind != tasks.TypeVerify && from.Kind != tasks.TypeUpdate {
		return nil
	}
	rows, err := i.Ledger.Contents(ctx, from, 0, 1)
	if err != nil || len(rows) == 0 {
		return err
	}
	var row tasks.VerifyRow // or of kind update, which has Undo likewise
	if json.Unmarshal(rows[0], &row) == nil && (row.Restore || row.Undo != nil) {
		return &OwnRunError{from.ID}
	}
	return nil
}

// notTaken returns the outcomes to retry, without those whose rows an earlier child has taken, and
// the numbers of rows that others have taken. taken names a child whose rows are left out, which
// has not ended or has failed rows; nil: there is none. The error is a [RetriedError] if an earlier
// child is incomplete, or has not ended and has all rows of its outcomes.
func (i Intake) notTaken(ctx context.Context, from ledger.Run,
	o RetryOptions) (outcomes []string, without map[int64]bool, taken *RetriedError, err error) {
	outcomes, without = slices.Clone(o.Outcomes), map[int64]bool{}
	if len(outcomes) == 0 {
		outcomes = slices.Clone(retryable)
	}
	outcomes = slices.DeleteFunc(outcomes, func(outcome string) bool {
		return !CanRetry(from.Kind, ledger.Outcome(outcome))
	})
	for _, id := range from.Children {
		if id == o.ID { // it is completed, with the rows that it had
			break
		}
		child, err := i.Ledger.Get(ctx, from.Tenant, id)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return nil, nil, nil, &RetriedError{Run: from.ID, Child: id, Incomplete: true}
		case err != nil:
			return nil, nil, nil, err
		case child.Parent != from.ID || child.Ended() && child.Total() == 0: // cancelled before it had its rows
			continue
		case !child.Sealed() || !child.Ended() && len(child.Items) == 0:
			return nil, nil, nil, &RetriedError{Run: from.ID, Child: id, Incomplete: !child.Sealed()}
		}
		has := len(outcomes)
		if len(child.Items) == 0 {
			outcomes = slices.DeleteFunc(outcomes, func(outcome string) bool {
				return len(child.Outcomes) == 0 || slices.Contains(child.Outcomes, outcome) // an older producer stored none
			})
		}
		for _, item := range child.Items {
			without[item] = true
		}
		failed := slices.ContainsFunc(retryable, func(outcome string) bool {
			return child.Counts[ledger.Outcome(outcome)] > 0 && CanRetry(child.Kind, ledger.Outcome(outcome))
		})
		if (len(outcomes) < has || len(child.Items) > 0) && (failed || !child.Ended()) {
			taken = &RetriedError{Run: from.ID, Child: id, Ended: child.Ended()}
		}
	}
	return outcomes, without, taken, nil
}

// chosenRows are rows of a run: a bit for each, since there may be a hundred
// million of them.
type chosenRows struct {
	bits  []byte
	rows  int64
	items []int64 // the same rows, in a child that stores them
}

// choose chooses the rows with these outcomes, without some. A run that has ended keeps its
// results, so that it chooses the same rows again; the child of another stores their numbers.
func (i Intake) choose(ctx context.Context, from ledger.Run, o RetryOptions,
	without map[int64]bool) (chosenRows, error) {
	chosen := chosenRows{bits: make([]byte, (from.Total()+7)/8)}
	numbered := len(o.Items) > 0 || !from.Ended()
	only := slices.Sorted(slices.Values(o.Items))
	for row, err := range i.Ledger.Each(ctx, from, ledger.WithResult, 0) {
		if err != nil {
			return chosenRows{}, err
		}
		_, is := slices.BinarySearch(only, row.Item)
		if without[row.Item] || row.Item >= from.Total() || len(only) > 0 && !is ||
			!slices.Contains(o.Outcomes, string(row.Result.Outcome)) {
			continue
		}
		chosen.bits[row.Item/8] |= 1 << (row.Item % 8)
		chosen.rows++
		if numbered {
			chosen.items = append(chosen.items, row.Item)
		}
		if len(chosen.items) > MostItems {
			return chosenRows{}, fmt.Errorf("run %s: %w", from.ID, ErrTooManyItems)
		}
	}
	if chosen.rows == 0 {
		return chosenRows{}, fmt.Errorf("run %s: %w", from.ID, ErrNothingToRetry)
	}
	return chosen, nil
}

// digest names the parent and the rows of it that were chosen.
func (c chosenRows) digest(parent ledger.RunID) string {
	h := sha256.New()
	fmt.Fprintf(h, "rows of run %s\n", parent)
	h.Write(c.bits)
	return hex.EncodeToString(h.Sum(nil))
}

// stageChosen stages the child's rows, in the order of the parent's.
func (i Intake) stageChosen(ctx context.Context, from ledger.Run, rows chosenRows, to *staging) error {
	stored, err := newStoredRows(i.Ledger, from)
	if err != nil {
		return err
	}
	for item := range from.Total() {
		if rows.bits[item/8]&(1<<(item%8)) == 0 {
			continue
		}
		source, err := stored.source(ctx, item)
		if err != nil {
			return err
		}
		row, bad := stored.row(source)
		if bad != nil {
			err = to.addSettled(ctx, append([]byte{badMark}, source...), resultOf(engine.InvalidRow, "%s", oneLine(bad)))
		} else {
			err = to.add(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
