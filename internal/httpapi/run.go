package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"orgops/internal/activity"
	"orgops/internal/engine"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/tasks"
)

// submittedRun is a run with the answer to a body: its rows, the bad ones among them, and
// whether a worker has served the tenant. Else the rows wait for one.
type submittedRun struct {
	status.Run

	Submission struct {
		intake.Submitted

		WorkerSeen bool `json:"worker_seen"`
	} `json:"submission"`
}

// isOwn reports whether a run is the caller's: they have submitted it, and may act for its tenant
// and for the organizations of all its rows. The caller's present entry decides, which may be
// narrower than the one that has submitted it.
func (s *Server) isOwn(ctx context.Context, run ledger.Run) (bool, error) {
	caller := callerOf(ctx)
	if run.Caller != caller.Name || !caller.MayTenant(string(run.Tenant)) {
		return false, nil
	}
	if len(caller.Organizations) == 0 {
		return true, nil
	}

	// Rows are read once for each list of organizations: those of a committed run remain the same.
	key := string(run.Incarnation) + " " + strings.Join(caller.Organizations, " ")
	if known, ok := s.organizations.get(key); ok {
		return known, nil
	}
	for row, err := range s.cfg.Ledger.Each(ctx, run, ledger.Every, 0) {
		if err != nil {
			return false, err
		}
		if row.Content == nil {
			return false, row.Err
		}
		// A row that was refused as it was read is only a part of the caller's own request.
		invalid := row.Phase == ledger.PhaseSettled && row.Result.Outcome == ledger.Outcome(engine.InvalidRow)
		if !invalid && !caller.MayOrganization(tasks.OrganizationOf(row.Content)) {
			s.organizations.put(key, false)
			return false, nil
		}
	}
	if run.Sealed() {
		s.organizations.put(key, true)
	}
	return true, nil
}

// own returns the run of that id, if it is the caller's. For other callers it does not exist.
func (s *Server) own(ctx context.Context, id string) (ledger.Run, error) {
	if !keyPattern.MatchString(id) {
		return ledger.Run{}, noSuchRun(id)
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Request)
	defer cancel()
	run, err := s.cfg.Ledger.Get(ctx, "", ledger.RunID(id))
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); ok { // the others are not the caller's
		for _, t := range several.Tenants {
			run, err = s.cfg.Ledger.Get(ctx, t, ledger.RunID(id))
			if err != nil || (run.Caller == callerOf(ctx).Name && callerOf(ctx).MayTenant(string(t))) {
				break
			}
		}
	}
	mine := false
	if err == nil {
		mine, err = s.isOwn(ctx, run)
	}
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && !mine) {
		return ledger.Run{}, noSuchRun(id)
	}
	if err == nil {
		mentions(ctx, id)
	}
	return run, err
}

// show answers with a run: GET /v1/runs/{run}.
func (s *Server) show(w http.ResponseWriter, _ *http.Request, run ledger.Run) error {
	answerJSON(w, http.StatusOK, status.RunOf(run))
	return nil
}

// cancel settles the open rows of a run: POST /v1/runs/{run}/cancel. It has no effect on a run
// that is cancelled, or has ended.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request, run ledger.Run) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	by := activity.Author{Redis: s.cfg.Redis, Logger: s.log, Name: callerOf(ctx).Name}
	if _, err := status.Cancel(ctx, by, s.cfg.Ledger, run); err != nil {
		return err
	}
	run, err := s.own(ctx, string(run.ID))
	if err != nil {
		return err
	}
	return s.show(w, r, run)
}

// Sizes of a page of the list.
const (
	usualPage = 50
	mostRuns  = 500
)

type listJSON struct {
	Runs []status.Run `json:"runs"`
	Next string       `json:"next,omitempty"` // path of the next page
}

// list answers with the caller's runs: GET /v1/runs.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	query, most := r.URL.Query(), usualPage
	if text := query.Get("limit"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > mostRuns {
			return badRequest("The parameter limit must be a number from 1 to %d, not %s.", mostRuns, shown(text))
		}
	}
	after, ok := ledger.ParsePlace(query.Get("after"))
	if !ok {
		return badRequest("The parameter after must be copied from \"next\" of the previous page.")
	}
	filter, err := status.ReadRunFilter(query)
	if err != nil {
		return badRequest("The parameter %s.", err)
	}
	filter.May = callerOf(ctx).MayTenant
	if filter.State == "attention" {
		if err := filter.ReadHeld(ctx, s.cfg.Redis); err != nil {
			return err
		}
	}
	filter.Caller = callerOf(ctx).Name
	selected := filter.Query(after, most)
	selected.MaxRead = 0 // no page is short
	page, next, err := s.cfg.Ledger.Page(ctx, selected)
	if err != nil {
		return err
	}
	answer := listJSON{Runs: make([]status.Run, 0, len(page))}
	for _, run := range page {
		mine, err := s.isOwn(ctx, run)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if !mine {
			continue
		}
		answer.Runs = append(answer.Runs, status.RunOf(run))
	}
	if next != (ledger.Place{}) {
		query.Set("limit", strconv.Itoa(most))
		query.Set("after", next.String())
		answer.Next = "/v1/runs?" + query.Encode()
	}
	answerJSON(w, http.StatusOK, answer)
	return nil
}
