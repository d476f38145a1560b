package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/view"
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

// own returns the run of that id, of the tenant or of whichever of the caller's has it if none is
// named. For other callers it does not exist.
func (s *Server) own(ctx context.Context, tenant ledger.Tenant, id string) (view.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Request)
	defer cancel()
	run, err := s.view(ctx).Run(ctx, string(tenant), id)
	if all, ok := errors.AsType[*ledger.AmbiguousError](err); ok { // all of them are the caller's
		return view.Run{}, several("run", id, all.Tenants)
	}
	if none, ok := errors.AsType[*view.NotFoundError](err); ok && none.What == "tenant" {
		return view.Run{}, err
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return view.Run{}, noSuchRun(id)
	}
	if err == nil {
		mentions(ctx, id)
	}
	return run, err
}

// show answers with a run: GET /v1/runs/{run}.
func (s *Server) show(w http.ResponseWriter, _ *http.Request, run view.Run) error {
	answerJSON(w, http.StatusOK, status.RunOf(run.Run))
	return nil
}

// cancel settles the open rows of a run: POST /v1/runs/{run}/cancel. It has no effect on a run
// that is cancelled, or has ended.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request, run view.Run) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	if _, err := run.Cancel(ctx, ""); err != nil {
		return err
	}
	run, err := s.own(ctx, run.Tenant, string(run.ID))
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
	query := r.URL.Query()
	most := usualPage
	if text := query.Get("limit"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > mostRuns {
			return badRequest("The parameter limit must be a number from 1 to %d, not %s.", mostRuns, untrusted.Value(text))
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
	page, next, err := s.view(ctx).Submitted(ctx, filter, after, most)
	if err != nil {
		return err
	}
	answer := listJSON{Runs: make([]status.Run, 0, len(page))}
	for _, run := range page {
		answer.Runs = append(answer.Runs, status.RunOf(run.Run))
	}
	if next != (ledger.Place{}) {
		query.Set("limit", strconv.Itoa(most))
		query.Set("after", next.String())
		answer.Next = "/v1/runs?" + query.Encode()
	}
	answerJSON(w, http.StatusOK, answer)
	return nil
}
