package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/view"
	"orgops/internal/web"
)

// submit submits the rows of the body as a run: POST /v1/runs/{kind}. The rows are stored
// in Redis while the body arrives, and 202 is answered when the run is committed. If the
// server is killed before, no row starts, and the same request again completes the run.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	o, err := orderOf(s.view(r.Context()), r)
	if err != nil {
		return err
	}
	p, err := s.takePlace(r.Context())
	if err != nil {
		return err
	}
	defer p.free()
	// Longer than the body may take, so that a slow client gets the answer that says so.
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Upload+s.limits.Request)
	defer cancel()
	rows, err := s.openBody(w, r)
	if err != nil {
		return err
	}
	defer rows.free()
	remove := s.arriving.add(rows.raw, p.free)
	defer remove()
	o.input.Rows = rows
	o.input.MaxRows = s.limits.MaxRows
	if o.dryRun {
		err = s.answerPlan(ctx, w, o)
	} else {
		err = s.store(s.traced(ctx, r), w, o, p)
	}
	if err != nil {
		rows.drain()
		return s.submitProblem(err, p.committed)
	}
	return nil
}

// place is one of the submissions that are under way at a time.
type place struct {
	committed bool
	free      func()
}

// takePlace returns a place for the caller, or why there is none. If all are taken, and the caller
// has none, the slowest upload is ended.
func (s *Server) takePlace(ctx context.Context) (*place, error) {
	caller := callerOf(ctx).Name
	free, refused := s.uploads.Take(caller)
	if refused != nil && refused.Status == http.StatusServiceUnavailable && caller != string(web.Anybody) &&
		s.arriving.endSlowest(s.limits.Slow) {
		free, refused = s.uploads.Take(caller)
	}
	if refused != nil {
		return nil, refused
	}
	s.metrics.uploads.Inc()
	return &place{free: sync.OnceFunc(func() {
		s.metrics.uploads.Dec()
		free()
	})}, nil
}

// submission returns a submission of a run that counts the caller's rows, and frees the place when
// they are committed: to read them back takes two seconds, for which others need not wait.
func (s *Server) submission(ctx context.Context, p *place, n ledger.NewRun) view.Submission {
	caller := callerOf(ctx)
	var sub view.Submission
	if caller.RowsADay > 0 {
		sub.Admit = func(ctx context.Context, run ledger.RunID, rows int64) error {
			return s.daily.count(ctx, caller, run, rows)
		}
	}
	sub.Same = func(before ledger.Run) error { return sameRequest(n, before) }
	sub.Committed = func() {
		p.committed = true
		p.free()
	}
	return sub
}

// store submits the rows and answers with the run.
func (s *Server) store(ctx context.Context, w http.ResponseWriter, o order, p *place) error {
	_, seen, err := o.tenant.Announced(ctx)
	if err != nil {
		return err
	}
	id := string(o.run.ID)
	mentions(ctx, id)
	if err := s.checkReuse(ctx, o.run); err != nil {
		return err
	}
	submitted, err := o.tenant.Submit(ctx, o.input, o.run, s.submission(ctx, p, o.run))
	if err != nil {
		return err
	}
	run, err := s.own(ctx, o.run.Tenant, id)
	if err != nil {
		return err
	}
	s.metrics.rows.Add(float64(submitted.Rows))
	s.log.InfoContext(ctx, "rows submitted",
		"run", run.ID, "caller", run.Caller, "rows", submitted.Rows, "tasks", submitted.Tasks,
		"settled_before", submitted.Settled)
	answer := submittedRun{Run: status.RunOf(run.Run)}
	answer.Submission.Submitted = submitted
	answer.Submission.WorkerSeen = seen
	answerRun(w, run.Run, answer)
	return nil
}

// checkReuse returns an error if the caller has used the key for a request with other properties,
// before the rows are read. A run that another request creates meanwhile is compared when this one
// finds it.
func (s *Server) checkReuse(ctx context.Context, n ledger.NewRun) error {
	before, err := s.own(ctx, "", string(n.ID))
	if err != nil {
		return nil // there is none, or it is found that Redis fails
	}
	return sameRequest(n, before.Run)
}

// sameRequest returns a [ledger.MismatchError] if the run was submitted with other properties.
// give_up is compared if it is given: a retry has its parent's.
func sameRequest(n ledger.NewRun, before ledger.Run) error {
	for _, m := range []struct {
		member  ledger.Member
		differs bool
	}{
		{ledger.MemberTenant, before.Tenant != n.Tenant},
		{"label", before.Label != untrusted.Plain(n.Label, longestLabel)}, // as it was read
		{"not_before", before.NotBefore.UnixMilli() != n.NotBefore.UnixMilli()},
		{"give_up", n.GiveUp != 0 && before.GiveUp != n.GiveUp},
		{"max", before.Max != n.Max},
		{"batch_wait", before.Group != "" && before.BatchWait != n.BatchWait},
	} {
		if m.differs {
			return &ledger.MismatchError{Run: n.ID, Member: m.member}
		}
	}
	return nil
}

// submitProblem returns the error of a submission as the client gets it. committed says that
// all rows were stored, and were to be read back: the same request stores again the rows that
// Redis has lost.
func (s *Server) submitProblem(err error, committed bool) error {
	switch {
	case committed:
		return storeProblem(err)
	case errors.Is(err, intake.ErrTooManyRows):
		return newProblem(http.StatusRequestEntityTooLarge, "too-large",
			"The body has too many rows: one run takes at most %d. Submit them as several runs.", s.limits.MaxRows).because(err)
	case errors.Is(err, ledger.ErrNotFound): // another request created the run, failed, and deleted it
		return newProblem(http.StatusServiceUnavailable, "busy",
			"Another request with this Idempotency-Key failed at the same time. Repeat the request in a moment.").
			because(err).after(retryAfter)
	}
	return err
}

// answerRun answers with a run that was submitted, now or before.
func answerRun(w http.ResponseWriter, run ledger.Run, answer any) {
	code := http.StatusAccepted
	if run.Ended() {
		code = http.StatusOK
	}
	w.Header().Set("Location", "/v1/runs/"+string(run.ID))
	answerJSON(w, code, answer)
}

// answerPlan answers with the estimate of a submission. It changes nothing.
func (s *Server) answerPlan(ctx context.Context, w http.ResponseWriter, o order) error {
	plan, err := o.tenant.Plan(ctx, o.input)
	if err != nil {
		return err
	}
	answerJSON(w, http.StatusOK,
		intake.Estimate{DryRun: true, Kind: o.input.Kind, Tenant: string(o.run.Tenant), Plan: plan})
	return nil
}

// retry submits the failed rows of a run again, as a run of their own:
// POST /v1/runs/{run}/retry. It answers when that run is committed. If the server is killed
// before, the same request completes it.
func (s *Server) retry(w http.ResponseWriter, r *http.Request, parent view.Run) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Upload)
	defer cancel()
	options, err := retryOrder(r, parent)
	if err != nil {
		return err
	}
	n := ledger.NewRun{ID: options.ID, Tenant: parent.Tenant, Description: ledger.Description{Label: options.Label},
		Control: ledger.Control{NotBefore: options.NotBefore}}
	if err := s.checkReuse(ctx, n); err != nil {
		return err
	}
	p, err := s.takePlace(ctx)
	if err != nil {
		return err
	}
	defer p.free()
	// The connection is read until the answer, to find out when the client closes it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.limits.Upload))
	sub, err := parent.Retry(s.traced(ctx, r), options, s.submission(ctx, p, n))
	switch {
	case err == nil, errors.Is(err, intake.ErrCancelled): // by the caller, and returned as it is
	case p.committed: // and not read back: the same request stores again the rows that Redis has lost
		return storeProblem(err)
	default:
		return err
	}
	run, err := s.own(ctx, parent.Tenant, string(options.ID))
	if err != nil {
		return err
	}
	s.metrics.rows.Add(float64(sub.Rows))
	s.log.InfoContext(ctx, "failed rows submitted again", "run", run.ID, "parent", parent.ID, "caller", run.Caller, "rows",
		sub.Rows, "tasks", sub.Tasks)
	answerRun(w, run.Run, status.RunOf(run.Run))
	return nil
}

// retryOrder returns how a request retries the run.
func retryOrder(r *http.Request, parent view.Run) (o intake.RetryOptions, err error) {
	caller := callerOf(r.Context())
	if err := checkKind(caller, string(parent.Kind)); err != nil {
		return o, err
	}
	query := r.URL.Query()
	o.Label = query.Get("label")
	if err := checkLabel(o.Label); err != nil {
		return o, err
	}
	if o.NotBefore, err = notBeforeOf(query); err != nil {
		return o, err
	}
	id, err := runOf(r, caller.Name)
	if err != nil {
		return o, err
	}
	o.ID = ledger.RunID(id)
	o.Reason = query.Get("reason")
	if names := query.Get("outcomes"); names != "" {
		o.Outcomes = strings.Split(names, ",")
	}
	if err := o.Check(); err != nil {
		return o, badRequest("The parameter outcomes: %s.", err)
	}
	return o, nil
}
