package results

import (
	"errors"
	"fmt"
	"slices"

	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/tasks"
)

// Retryable are the outcomes of rows that can be submitted again unchanged.
var Retryable = []string{string(ledger.Cancelled), string(ledger.Expired),
	string(ledger.Failed), string(ledger.Refused)}

// OwnRunError says that rows of a run cannot be submitted again, since each must be chosen by
// what sweeps have found since.
type OwnRunError struct{ Run ledger.RunID }

func (e *OwnRunError) Error() string {
	return fmt.Sprintf("run %s revokes domains, or undoes a change, and is not retried", e.Run)
}

// CheckRetry returns an [OwnRunError] with its remedy if no row of the run can be submitted again,
// whatever its outcome.
func CheckRetry(run ledger.Run) error {
	if !hasChosenRows(run) {
		return nil
	}
	return remedy.With(&OwnRunError{run.ID}, "start with %s, or repeat the command with --undo",
		remedy.Command{Name: "domains revoke", Flags: "--dry-run"})
}

// hasChosenRows reports whether a command has chosen the rows of a run by what was true then: the
// run revokes domains, or undoes another.
func hasChosenRows(run ledger.Run) bool {
	kind, _ := tasks.KindOf(string(run.Kind))
	return kind.Submitter == tasks.Operators || run.Undoes != ""
}

// CanRetry reports whether rows of a run that have that outcome can be submitted again as they
// are, unless they were before: see [MayRetry].
func CanRetry(run ledger.Run, outcome ledger.Outcome) bool {
	switch {
	case !run.HasAllRows(): // rows of it may still be found
		return false
	case hasChosenRows(run):
		return false
	case run.Kind == tasks.TypeRecheck && outcome == ledger.Refused:
		return false // a sweep cannot check these records: the next one reads them again
	}
	return slices.Contains(Retryable, string(outcome))
}

// NotRetried returns why failed rows of a run with that outcome are not retried, with the remedy;
// nil: they may be, or, as those that a sweep has found lost, have a remedy of their own.
func NotRetried(run ledger.Run, outcome ledger.Outcome) error {
	if err := CheckRetry(run); err != nil {
		return err
	}
	switch {
	case outcome == ledger.InvalidRow:
		return remedy.With(errors.New("they would be invalid again"), "correct the rows that this command writes: %s",
			remedy.Command{Name: "runs failed", Run: string(run.ID)})
	case run.Kind == tasks.TypeRecheck && outcome == ledger.Refused:
		return remedy.With(errors.New("a retry would refuse the record too"),
			"correct the record at the tenant: the next sweep reads it again")
	}
	return nil
}

// MayRetry reports whether a settled row of a run can be submitted again: its outcome allows it,
// and no child has claimed it, whatever became of it there. A row that failed there is retried by a
// retry of that child: so two retries never submit the same row, which would repeat what the first
// has done, such as the removal of a client that was associated again since. by is the child that
// has the row; it has no ID if it was deleted, or adopted after the run was read.
func MayRetry(run ledger.Run, row ledger.RowState) (may bool, by ledger.Child) {
	by, claimed := run.Claimed(row)
	return CanRetry(run, row.Result.Outcome) && !claimed, by
}
