package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// UnfinishedError says that a submission failed, and that the run may have been created all
// the same: with a part of its rows, none of which starts, or committed. To submit the same
// rows again under its id completes it.
type UnfinishedError struct {
	Run ledger.RunID
	Err error
}

// Error returns the reason.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("submission of run %s interrupted: %v", e.Run, e.Err)
}

// Unwrap returns the reason.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// unfinished returns an [UnfinishedError] with its remedy.
func unfinished(run ledger.RunID, err error) error {
	return remedy.With(&UnfinishedError{run, err},
		"run %s is not complete; to complete it, submit the same rows again under its id (--run %s)", run, run)
}

// Submit submits an input as one run. It reads the rows once: it stages them, and commits the
// run when all of them are good. If one is bad, the staged rows are deleted, and nothing has
// happened. If the run exists with the same rows, Submit completes it, or changes nothing.
// Kind, Format, Columns and Group of the run are those of the input. Its BatchWait holds for a
// single removal.
//
// The error is one of those of an input, a [RoomError], a *ledger.MismatchError if a run of
// that id has another kind, tenant, caller or content, [ErrCancelled] if it was cancelled
// before it was committed, or an [UnfinishedError].
func (i Intake) Submit(ctx context.Context, in Input, about ledger.NewRun) (Submitted, error) {
	if in.Named == nil && i.Redis != nil {
		in.Named = i.Named(ctx, about.Tenant)
	}
	rows, err := in.open()
	if err != nil {
		return Submitted{}, err
	}
	about.Kind = ledger.Kind(in.Kind)
	about.Format = rows.rows.Format()
	about.Columns = rows.columns
	s := submission{staging: i.newStaging(about.Tenant, about.ID, about.Kind), about: about}
	s.staging.begin = s.begin
	rows.work = func(row tasks.Row) error { return s.add(ctx, row) }
	rows.settled = func(content []byte, r ledger.Result) error { return s.addSettled(ctx, content, r) }
	err = s.end(ctx, rows.check())
	sub := s.submitted(s.run)
	sub.Found = rows.found
	sub.Created = s.created
	return sub, err
}

// SubmitChosen submits rows that a command has chosen as one run, whose kind cannot be submitted
// otherwise. It returns as [Intake.Submit] does.
func (i Intake) SubmitChosen(ctx context.Context, about ledger.NewRun, rows [][]byte) (Submitted, error) {
	about.Format = rowfile.FormatJSONL
	s := submission{staging: i.newStaging(about.Tenant, about.ID, about.Kind), about: about}
	s.staging.begin = s.begin
	s.requests.changes = int64(len(rows))
	var err error
	for _, row := range rows {
		if err = s.addContent(ctx, firstRow{content: row}); err != nil {
			break
		}
	}
	err = s.end(ctx, err)
	sub := s.submitted(s.run)
	sub.Created = s.created
	return sub, err
}

// end commits the run unless a row was bad or not stored, and reads it back.
func (s *submission) end(ctx context.Context, err error) error {
	if err == nil {
		err = s.commit(ctx)
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	if err = s.verify(ctx); err != nil {
		return unfinished(s.run.ID, err)
	}
	return nil
}

// submission is an input on its way into a run.
type submission struct {
	*staging
	about   ledger.NewRun
	run     ledger.Run // as it was found
	created bool
}

// begin creates the run, or finds the one that exists.
func (s *submission) begin(ctx context.Context) (stager *ledger.Stager, complete bool, err error) {
	if s.requests.kind.Together > 0 && s.rows == 1 && s.first[0].result == nil {
		s.about.Group = tasks.OrganizationOf(s.first[0].content)
	} else {
		s.about.BatchWait = 0
	}
	if s.run, s.created, err = s.intake.create(ctx, s.about); err != nil {
		return nil, false, err
	}
	switch {
	case s.run.Caller != s.about.Caller:
		err = &ledger.MismatchError{Run: s.run.ID, Member: ledger.MemberCaller}
	case s.run.Format != s.about.Format || !slices.Equal(s.run.Columns, s.about.Columns):
		err = &ledger.MismatchError{Run: s.run.ID, Member: ledger.MemberHeader, Have: headerOf(s.run.Description),
			Want: headerOf(s.about.Description)}
	}
	if err != nil {
		return nil, false, err
	}
	return s.intake.stager(ctx, s.run)
}

// maxHeader is how many characters of a header an error shows.
const maxHeader = 200

// headerOf returns the header of a run's rows as text.
func headerOf(d ledger.Description) string {
	if d.Format == rowfile.FormatCSV {
		return untrusted.Plain(strings.Join(d.Columns, ","), maxHeader)
	}
	return "none: JSON Lines"
}

// cleanUp is how long a submission that has failed may take to delete its staged rows.
const cleanUp = 5 * time.Second

// failed deletes the staged rows of a run that was created here, and returns the error of the
// submission for its caller.
func (s *submission) failed(ctx context.Context, err error) error {
	if s.run.ID == "" || s.complete {
		return err
	}
	err = s.intake.whyNot(ctx, s.run.Tenant, s.run.ID, err)
	_, differs := errors.AsType[*ledger.MismatchError](err)
	switch {
	case differs, errors.Is(err, ErrCancelled), errors.Is(err, ledger.ErrReplaced), !s.created && refused(err):
		return err
	case !s.created || !s.deleted(ctx):
		return unfinished(s.run.ID, err)
	}
	return err
}

// refused reports whether an error is one of the rows, not of reading or storing them.
func refused(err error) bool {
	_, rows := errors.AsType[*BadRows](err)
	_, room := errors.AsType[*RoomError](err)
	return rows || room || errors.Is(err, ErrNoRows) || errors.Is(err, ErrTooManyRows) || errors.Is(err, ErrTooManyBad)
}

// deleted deletes the staged run, and reports whether it no longer exists.
func (s *submission) deleted(ctx context.Context) bool {
	if s.stager == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	deleted, err := s.stager.Discard(ctx)
	return deleted && err == nil
}
