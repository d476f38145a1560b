package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/internal/activity"
	"orgops/internal/evidence"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/results"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// RetryOptions select rows of a run, and have the properties of the new run.
type RetryOptions struct {
	// ID is the new run's; empty: a new one. The ID of a retry that was interrupted
	// completes it.
	ID ledger.RunID
	// Outcomes are those of the rows to submit, of cancelled, expired, failed and refused; empty: all
	// four.
	Outcomes []string
	// Reason is the cause of the rows to submit, as [evidence.Cause.Is] reads it; empty: any.
	Reason string
	// Items are the numbers of the rows to submit; empty: all of these outcomes and that reason.
	Items []int64
	Label string
	// NotBefore is when the rows may start; zero: at once.
	NotBefore time.Time
	// Created is called with the new run before its first row is submitted; nil: nothing is.
	Created func(ledger.Run)
}

// ErrNothingToRetry says that no row which the options select can be retried. No run was created.
var ErrNothingToRetry = errors.New("there is nothing to retry")

// Check returns an error if the options are invalid for every run.
func (o RetryOptions) Check() error {
	for _, outcome := range o.Outcomes {
		switch {
		case outcome == string(ledger.InvalidRow):
			return errors.New("outcome invalid: these rows would be invalid again: export, correct and submit them as a file")
		case !slices.Contains(results.Retryable, outcome):
			return fmt.Errorf("outcome %s: want of %s", untrusted.Value(outcome), strings.Join(results.Retryable, ", "))
		}
	}
	for _, item := range o.Items {
		if item < 0 {
			return fmt.Errorf("row %d: want the number of a row, from 0", item)
		}
	}
	if o.ID == "" {
		return nil
	}
	return ids.CheckRun(string(o.ID))
}

// choose reports whether the options select a row, whether it may be retried or not.
func (o RetryOptions) choose(row ledger.RowState) bool {
	if len(o.Items) > 0 {
		if _, chosen := slices.BinarySearch(o.Items, row.Item); !chosen {
			return false
		}
	}
	if len(o.Outcomes) > 0 && !slices.Contains(o.Outcomes, string(row.Result.Outcome)) {
		return false
	}
	return o.Reason == "" || evidence.CauseOf(row.Result).Is(o.Reason)
}

// mostNumbers is how many numbers of rows a remedy lists.
const mostNumbers = 100

// complete returns the command that completes the child of a retry; ok is false if it would have
// too many numbers of rows.
func (o RetryOptions) complete(run, child ledger.RunID) (c remedy.Command, ok bool) {
	var flags []string
	if len(o.Outcomes) > 0 {
		flags = append(flags, "--outcome "+strings.Join(o.Outcomes, ","))
	}
	if o.Reason != "" {
		flags = append(flags, "--reason "+remedy.Quote(o.Reason))
	}
	if len(o.Items) > 0 {
		numbers := make([]string, len(o.Items))
		for i, item := range o.Items {
			numbers[i] = strconv.FormatInt(item, 10)
		}
		flags = append(flags, "--row "+strings.Join(numbers, ","))
	}
	return remedy.CompleteRetry(string(run), strings.Join(flags, " "), string(child)), len(o.Items) <= mostNumbers
}

// digest names the rows that the options select of a run.
func (o RetryOptions) digest(from ledger.Run) string {
	h := sha256.New()
	fmt.Fprintf(h, "rows of run %s/%s\noutcomes %q\nreason %q\nitems %d\n", from.ID, from.Incarnation, o.Outcomes,
		o.Reason, o.Items)
	return hex.EncodeToString(h.Sum(nil))
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
		state = "has failed rows"
	case e.Incomplete:
		state = "is being submitted, or its submission was interrupted"
	}
	return fmt.Sprintf("run %s was retried before by run %s, which %s", e.Run, e.Child, state)
}

// retried returns the error with its remedy. o are the options of the refused call, by whose
// outcomes an interrupted child is completed.
func (e *RetriedError) retried(o RetryOptions) error {
	child := string(e.Child)
	switch {
	case e.Ended:
		return remedy.With(e, "retry that run: %s", remedy.Retry(child))
	case e.Incomplete:
		// An interrupted one may have no run yet, which runs cancel would not find.
		command, ok := o.complete(e.Run, e.Child)
		if !ok {
			return remedy.With(e, "end it, if it exists by now: %s", remedy.Cancel(child))
		}
		return remedy.With(e, "complete it (%s), or, if it exists by now, end it (%s)", command, remedy.Cancel(child))
	}
	return remedy.With(e, "follow it to its end: %s", remedy.Follow(child))
}

// OpenError says that a run has not ended, and that none of its rows can be retried yet.
type OpenError struct{ Run ledger.RunID }

func (e *OpenError) Error() string {
	return fmt.Sprintf("run %s has not ended, and its open rows may still succeed", e.Run)
}

// Unwrap returns [ledger.ErrOpen].
func (e *OpenError) Unwrap() error { return ledger.ErrOpen }

// Retry submits failed rows of a run again, as a run of their own: a child, of the same kind,
// tenant, caller and form. Other rows of the run may be open. Which rows may be submitted is the
// rule of [results.MayRetry]. If the process is killed meanwhile, the same call with the child's ID
// completes the child; each row is submitted once.
//
// The error is [ledger.ErrNotFound], an *[OpenError] if the run has not ended and none of its
// rows can be retried, an *[results.OwnRunError], a *[RetriedError], [ErrNothingToRetry], a
// *[ledger.MismatchError] if there is another run of that ID, or a retry of other rows,
// [ErrCancelled] if the child was cancelled, an *[UnfinishedError] if it exists by now and may have
// a part of its rows, or one of [RetryOptions.Check]. Those for which a person can do something
// have their remedy. The result has the child as it was found or created, if it was.
func (i Intake) Retry(ctx context.Context, parent ledger.Run, o RetryOptions) (Submitted, error) {
	// The run, and the options in one form, by which a repeated call is known.
	if err := o.Check(); err != nil {
		return Submitted{}, err
	}
	if o.ID == "" {
		o.ID = ledger.RunID(tasks.NewRunID(time.Now()))
	}
	o.Outcomes = slices.Sorted(slices.Values(o.Outcomes))
	o.Items = slices.Compact(slices.Sorted(slices.Values(o.Items)))
	from, err := i.Ledger.Get(ctx, parent.Tenant, parent.ID)
	if err != nil {
		return Submitted{}, err
	}
	if err := results.CheckRetry(from); err != nil {
		return Submitted{}, err
	}

	// Nothing is changed unless a row may be retried.
	err = i.anyRow(ctx, from, o)
	if errors.Is(err, ledger.ErrRaced) {
		return i.Retry(ctx, parent, o)
	}
	if err != nil {
		return Submitted{}, err
	}

	// The child.
	from, child, err := i.createChild(ctx, from, o)
	if err != nil {
		return Submitted{}, err
	}
	if o.Created != nil {
		o.Created(child)
	}
	switch {
	case !child.CancelledAt.IsZero():
		return Submitted{Run: child}, Cancelled(child.ID)
	case child.Ended():
		return Submitted{Found: Found{Rows: child.Total()}, Run: child, Settled: child.Settled()}, nil
	}

	// Its rows.
	s := i.newStaging(child.Tenant, child.ID, child.Kind)
	s.begin = func(ctx context.Context) (*ledger.Stager, bool, error) { return i.stager(ctx, child) }
	err = i.stageClaimed(ctx, from, child, o, s)
	if errors.Is(err, ledger.ErrEnded) { // another call has committed the child since
		return i.Retry(ctx, parent, o)
	}
	if err != nil {
		return Submitted{Run: child}, i.cutShort(ctx, from, child, o, err)
	}
	if s.rows == 0 { // other children have claimed the rows since
		if _, err := i.Ledger.DeleteStaged(ctx, child); err != nil {
			return Submitted{}, i.cutShort(ctx, from, child, o, err)
		}
		return i.Retry(ctx, parent, o)
	}
	if err := s.commit(ctx); err != nil {
		return Submitted{Run: child}, i.cutShort(ctx, from, child, o, err)
	}
	if !s.complete {
		i.By.Record(ctx, activity.OfRun(parent.Tenant, parent.ID, activity.Retried, "as run "+string(child.ID)))
	}
	err = s.verify(ctx)
	if err != nil {
		err = i.cutShort(ctx, from, child, o, err)
	}
	return s.submitted(child), err
}

// Retryable returns how many rows of the run [Intake.Retry] would submit now.
func (i Intake) Retryable(ctx context.Context, run ledger.Run, o RetryOptions) (rows int64, err error) {
	o.Items = slices.Sorted(slices.Values(o.Items))
	for row, err := range i.Ledger.Each(ctx, run, ledger.WithResult, 0) {
		if err != nil {
			return 0, err
		}
		if may, _ := results.MayRetry(run, row); may && o.choose(row) {
			rows++
		}
	}
	return rows, nil
}

// cutShort returns the error of a retry whose run exists: it was cancelled meanwhile, or has a part
// of its rows.
func (i Intake) cutShort(ctx context.Context, from, child ledger.Run, o RetryOptions, err error) error {
	err = i.whyNot(ctx, child.Tenant, child.ID, err)
	if errors.Is(err, ErrCancelled) {
		return err
	}
	command, ok := o.complete(from.ID, child.ID)
	if !ok {
		return remedy.With(&UnfinishedError{child.ID, err}, "only a part of run %s is submitted; end it (%s), and choose the "+
			"rows again", child.ID, remedy.Cancel(string(child.ID)))
	}
	return remedy.With(&UnfinishedError{child.ID, err}, "only a part of run %s is submitted; to submit the rest: %s",
		child.ID, command)
}

// anyRow returns an error unless a row that the options select may be retried, or the child of that
// ID has one. The error is [ledger.ErrRaced] if the run has another child since it was read.
func (i Intake) anyRow(ctx context.Context, from ledger.Run, o RetryOptions) error {
	var takers []ledger.RunID // the children that have such rows
	for row, err := range i.Ledger.Each(ctx, from, ledger.WithResult, 0) {
		if err != nil {
			return err
		}
		if !o.choose(row) || !results.CanRetry(from, row.Result.Outcome) {
			continue
		}
		may, by := results.MayRetry(from, row)
		switch {
		case may, by.ID == o.ID:
			return nil
		case !from.Knows(by.Number):
			return ledger.ErrRaced
		case by.ID != "" && !slices.Contains(takers, by.ID): // it is not deleted
			takers = append(takers, by.ID)
		}
	}

	// A child that has rows of it, and is to be followed, completed or retried instead.
	for _, id := range takers {
		child, err := i.Ledger.Get(ctx, from.Tenant, id)
		if errors.Is(err, ledger.ErrNotFound) { // deleted since the run was read
			continue
		}
		if err != nil {
			return err
		}
		failed := false
		for outcome, rows := range child.Counts {
			failed = failed || (rows > 0 && results.CanRetry(child, outcome))
		}
		if failed || !child.Ended() {
			found := &RetriedError{Run: from.ID, Child: id, Ended: child.Ended(), Incomplete: !child.HasAllRows()}
			return found.retried(o)
		}
	}

	// None has, or all is well there.
	if !from.Ended() && len(o.Items) == 0 {
		return remedy.With(&OpenError{from.ID}, "follow it to its end (%s), or end it (%s)",
			remedy.Follow(string(from.ID)), remedy.Cancel(string(from.ID)))
	}
	nothing := fmt.Errorf("run %s: %w", from.ID, ErrNothingToRetry)
	if o.Reason != "" {
		return remedy.With(nothing, "its reasons are listed by %s", remedy.Command{Name: "runs show", Run: string(from.ID)})
	}
	return nothing
}

// createChild creates the child of a run, or finds the one that an earlier call has created, and
// returns the run with it.
func (i Intake) createChild(ctx context.Context, from ledger.Run, o RetryOptions) (_, child ledger.Run, err error) {
	n := ledger.NewRun{
		ID: o.ID, Kind: from.Kind, Tenant: from.Tenant,
		Description: ledger.Description{
			Label: o.Label, Digest: o.digest(from), Format: from.Format, Columns: from.Columns,
			Parent: from.ID, Caller: from.Caller, Priority: from.Priority, GiveUp: from.GiveUp, Max: from.Max,
			KeepFor: from.KeepFor,
		},
		Control: ledger.Control{NotBefore: o.NotBefore},
	}

	// Another run of this ID, or one that takes no rows, is no child.
	_, err = i.Ledger.Get(ctx, n.Tenant, n.ID)
	if err == nil {
		child, _, err = i.create(ctx, n)
		if err == nil && child.Cancelled && child.Total() == 0 {
			return from, child, nil
		}
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return from, ledger.Run{}, ofOtherRows(err)
	}

	// The parent has the child before there is one.
	adopted, err := i.Ledger.Adopt(ctx, from, n.ID)
	for errors.Is(err, ledger.ErrRaced) {
		if from, err = i.Ledger.Get(ctx, from.Tenant, from.ID); err == nil {
			adopted, err = i.Ledger.Adopt(ctx, from, n.ID)
		}
	}
	if err != nil {
		return from, ledger.Run{}, err
	}
	child, _, err = i.create(ctx, n)
	return adopted, child, ofOtherRows(err)
}

// ofOtherRows adds the remedy to the error of a retry that was begun with other rows.
func ofOtherRows(err error) error {
	if !errors.Is(err, ledger.ErrMismatch) {
		return err
	}
	return remedy.With(err, "a retry is completed by the same command as before, with the same outcomes, reason and rows; "+
		"if rows were chosen on a page, cancel the run, and choose them again")
}

// claimedAtOnce is how many rows a child claims before they are staged.
const claimedAtOnce = 1000

// stageClaimed stages the rows of the child, in the order of the parent's: those that it has
// claimed, and unless it is committed those that it may claim.
func (i Intake) stageClaimed(ctx context.Context, from, child ledger.Run, o RetryOptions, to *staging) error {
	stored, err := results.NewStoredRows(i.Ledger, from)
	if err != nil {
		return err
	}
	var page []ledger.RowState // of one segment
	for row, err := range i.Ledger.Each(ctx, from, ledger.WithResult, 0) {
		if err != nil {
			return err
		}
		may, by := results.MayRetry(from, row)
		if child.HasAllRows() {
			may = false
		}
		if !o.choose(row) {
			continue
		}
		if !may && by.ID != child.ID {
			continue
		}
		if len(page) == claimedAtOnce || (len(page) > 0 && page[0].Segment != row.Segment) {
			if err := i.stagePage(ctx, from, child, page, stored, to); err != nil {
				return err
			}
			page = page[:0]
		}
		page = append(page, row)
	}
	return i.stagePage(ctx, from, child, page, stored, to)
}

// stagePage stages rows of a segment of the parent, but for those that another child has claimed
// meanwhile.
func (i Intake) stagePage(ctx context.Context, from, child ledger.Run, page []ledger.RowState,
	stored *results.StoredRows, to *staging) error {
	if len(page) == 0 {
		return nil
	}

	// The claims come before the rows. All rows of a committed child are claimed.
	granted := slices.Repeat([]bool{true}, len(page))
	if !child.HasAllRows() {
		own, _ := from.ChildOf(child.ID)
		claims := make([]ledger.Claim, len(page))
		for at, row := range page {
			claims[at] = ledger.Claim{Row: row.Row, Former: row.ClaimedBy}
		}
		var err error
		if granted, err = i.Ledger.Claim(ctx, page[0].Segment, child, own.Number, claims); err != nil {
			return err
		}
	}

	// The rows.
	for at, row := range page {
		if !granted[at] {
			continue
		}
		source, err := stored.Source(ctx, row.Item)
		if err != nil {
			return err
		}
		again, bad := stored.Row(source)
		if bad != nil {
			err = to.addSettled(ctx, results.MarkBad(source), resultOf(ledger.InvalidRow, "%s", oneLine(bad)))
		} else {
			err = to.add(ctx, again)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
