package intakeapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// retry hands the rows of a run that did not settle well in once more:
// POST /v1/runs/{run}/retry. It is a submission like any, of which the rows are
// in the ledger.
func (s *Server) retry(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	j, err := s.retryOrder(ctx, r)
	if err != nil {
		return err
	}
	if s.full() {
		return busy("pending submissions")
	}
	u := &upload{spool: s.spool}
	defer u.end()
	if err := u.stage(j); err != nil {
		return err
	}
	if j, err = s.accept(j, u); err != nil {
		return err
	}
	select {
	case <-j.begun:
	case <-ctx.Done():
		return ctx.Err() // it goes on, and the same key finds it
	}
	if j.err != nil {
		return j.err
	}
	run, err := s.own(ctx, j.Run)
	if err != nil {
		return err
	}
	answerRun(w, runAsJSON(run))
	return nil
}

// retryOrder is what a request asks for.
func (s *Server) retryOrder(ctx context.Context, r *http.Request) (*job, error) {
	query, err := queryOf(r, "outcomes", "label", "not_before")
	if err != nil {
		return nil, err
	}
	caller := callerOf(ctx)
	parent, err := s.own(ctx, r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	if err := caller.check(parent.Kind, parent.Tenant); err != nil {
		return nil, err
	}
	j := newJob()
	j.Caller, j.Kind, j.Tenant, j.Parent = caller.Name, parent.Kind, parent.Tenant, parent.ID
	j.Label, j.Received = query.Get("label"), time.Now().UTC()
	if err := checkLabel(j.Label); err != nil {
		return nil, err
	}
	if j.NotBefore, err = notBeforeOf(query); err != nil {
		return nil, err
	}
	if names := query.Get("outcomes"); names != "" {
		j.Outcomes = strings.Split(names, ",")
	}
	j.Traceparent = traceparentOf(r)
	if j.Run, err = runOf(r, caller.Name); err != nil {
		return nil, err
	}
	if err := j.retryOptions().Check(); err != nil {
		return nil, badRequest("The parameter outcomes: %s.", err)
	}
	return j, nil
}

func (j *job) retryOptions() intake.RetryOptions {
	return intake.RetryOptions{ID: j.Run, Outcomes: j.Outcomes, Label: j.Label, NotBefore: j.NotBefore}
}

// handInAgain does a job that is a retry. Once it is known whether there is a
// run, whoever asked for it is told.
func (s *Server) handInAgain(ctx context.Context, taker intake.Intake, j *job) error {
	options := j.retryOptions()
	options.Begun = func(runs.Run) { j.tell(nil) }
	run, sum, err := taker.Retry(ctx, j.Parent, options)
	if refused(err) {
		j.refusal = err
		s.log.InfoContext(ctx, "retry refused", "run", j.Run, "parent", j.Parent, "caller", j.Caller, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "failed rows submitted again", "run", run.ID, "parent", j.Parent, "caller", run.Caller, "rows", sum.Rows, "tasks", sum.Tasks)
	return nil
}

// refused says whether the error of a retry is one for good.
func refused(err error) bool {
	_, retried := errors.AsType[*intake.OpenRetryError](err)
	_, differs := errors.AsType[*runs.MismatchError](err)
	_, own := errors.AsType[*intake.OwnRunError](err)
	return retried || differs || own || errors.Is(err, intake.ErrNothingToRetry) || errors.Is(err, runs.ErrOpen) || isNotFound(err)
}

func isNotFound(err error) bool { return errors.Is(err, runs.ErrNotFound) }
