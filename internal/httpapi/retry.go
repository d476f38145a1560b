package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// retry submits the failed rows of a run again, as a run of their own:
// POST /v1/runs/{run}/retry. It answers when that run is committed. If the server is killed
// before, the same request completes it.
func (s *Server) retry(w http.ResponseWriter, r *http.Request, parent runs.Run) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Upload)
	defer cancel()
	options, err := retryOrder(r, parent)
	if err != nil {
		return err
	}
	p, err := s.takePlace()
	if err != nil {
		return err
	}
	defer p.free()
	// The connection is read until the answer, to find out when the client closes it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.limits.Upload))
	_, sum, err := s.intake(p).Retry(s.traced(ctx, r), parent.ID, options)
	switch {
	case err == nil, errors.Is(err, runs.ErrCancelled): // by the caller, who gets it as it is
	case p.committed: // and not read back: the same request stores again what Redis has lost
		return storeProblem(err)
	default:
		return err
	}
	run, err := s.own(ctx, options.ID)
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "failed rows submitted again", "run", run.ID, "parent", parent.ID, "caller", run.Caller, "rows", sum.Rows, "tasks", sum.Tasks)
	answerRun(w, runAsJSON(run))
	return nil
}

// retryOrder returns how a request retries the run.
func retryOrder(r *http.Request, parent runs.Run) (o intake.RetryOptions, err error) {
	query, caller := r.URL.Query(), callerOf(r.Context())
	o.Label = query.Get("label")
	if names := query.Get("outcomes"); names != "" {
		o.Outcomes = strings.Split(names, ",")
	}
	var start, key error
	o.NotBefore, start = notBeforeOf(query)
	o.ID, key = runOf(r, caller.Name)
	if err := cmp.Or(caller.check(parent.Kind, parent.Tenant), checkLabel(o.Label), start, key); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, badRequest("The parameter outcomes: %s.", err)
	}
	return o, nil
}
