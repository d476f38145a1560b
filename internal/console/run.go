package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

const (
	// rowsLive is how many are searched for an outcome in the repeated requests of the
	// script: a page that takes more stays as it is.
	rowsLive = 5000
	// waitingLooked is how many rows' reasons are read to estimate why a run waits: the
	// shares of so many are exact to three percent.
	waitingLooked = 2000
	// failedLive is how many failed rows are counted by reason in the repeated requests of the
	// script: the counts of more stay as they are.
	failedLive = 1000
)

// runPage is the page of one run.
type runPage struct {
	runView

	Named string // the tenant, if the address has it, since several have a run of that id

	Offers      offers
	Open        int64                 // how many rows are open
	Failed      int64                 // how many rows have failed
	Reasons     *status.FailedReasons // why; nil: none has
	ReasonsLeft bool                  // in an answer to the script: they stay as they are
	Hour        lastHour              // of the tenant
	Table       rowsTable
	Found       *foundRows // nil: nothing is searched, or nothing of it can be retried
}

// rowsTable is a page of the run's rows.
type rowsTable struct {
	Rows   []runRow
	Which  string // an outcome, or a selection of package status
	Cause  string // of failed rows; empty: any
	Every  string // path of the rows of any cause
	Text   string
	Groups []rowsGroup // to choose Which from
	All    string      // path of the rows of every outcome from the first of these on
	More   string      // path of the page after this one; empty: it is the last
	First  string      // path of the first page; empty: this is it
	Cut    int64       // so many rows were searched without filling the page; 0: it is full
	Left   bool        // out, since the search takes too long to be repeated
	Retry  bool        // a row can be chosen for a retry
	Check  bool        // a row can be chosen for a check
}

// rowsGroup is a selection of rows, and how many rows it has.
type rowsGroup struct {
	Which string
	Rows  int64
}

// runRow is a row with the action that is offered for it.
type runRow struct {
	status.Row

	Check bool
}

// groupsOf returns the selections of rows.
func groupsOf(r ledger.Run) []rowsGroup {
	open := max(r.Rows-r.Settled(), 0)
	failed := status.Failed(r)
	groups := []rowsGroup{{status.Unfinished, open + failed}, {status.EveryRow, r.Rows},
		{status.OpenRows, open}, {status.FailedRows, failed}}
	for _, outcome := range slices.Sorted(maps.Keys(r.Counts)) {
		groups = append(groups, rowsGroup{string(outcome), r.Counts[outcome]})
	}
	return groups
}

// found returns the run of the view that a request names: the only one of that id, or that of the
// tenant that the address names. The error is a *web.Refusal if there is none.
func (s *site) found(v view.View, r *http.Request) (view.Run, error) {
	id := r.PathValue("id")
	run, err := v.Run(r.Context(), r.URL.Query().Get("tenant"), id)
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); ok {
		var addresses []string
		for _, t := range several.Tenants {
			addresses = append(addresses, runLink(several.Run, "", string(t)))
		}
		return run, &web.Refusal{Status: http.StatusConflict,
			Text: "Several tenants have a run " + status.Shown(id) + ". Open one of: " + strings.Join(addresses, ", ") + "."}
	}
	if none, ok := errors.AsType[*view.NotFoundError](err); ok && none.What == "tenant" {
		return run, notFound(err)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return run, &web.Refusal{
			Status: http.StatusNotFound, Text: "There is no run " + status.Shown(id) +
				". It never existed, or it was deleted after its retention (30 days after its end by default).",
		}
	}
	return run, err
}

// run is the page of one run: GET /runs/{id}.
func (s *site) run(ctx context.Context, r *http.Request) (title string, data any, err error) {
	v := s.view(ctx)
	run, err := s.found(v, r.WithContext(ctx))
	if err != nil {
		return "", nil, err
	}
	query, ok := rowsQueryOf(r)
	if !ok {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest,
			Text: "Invalid address: from must be the number of a row."}
	}
	if run.Ended() && status.Failed(run.Run) == 0 && !r.URL.Query().Has("outcome") {
		query.which = status.EveryRow // none is open or failed
	}
	p, err := runPageOf(ctx, v, run, query)
	return "Run " + string(run.ID), p, err
}

func runPageOf(ctx context.Context, v view.View, run view.Run, q rowsQuery) (p runPage, err error) {
	// The run, with the actions that it allows.
	d, err := run.Details(ctx, waitingLooked)
	if err != nil {
		return p, err
	}
	p.Hour, _ = readHour(ctx, run.In()) // without it the run is shown all the same
	p.Named = q.tenant
	p.runView = viewOf(d, v.Estimate(ctx, run)[0])
	p.Offers = offersOf(run.Run)
	p.Open = max(run.Rows-run.Settled(), 0)
	left := p.Offers.Retry.Settled() // rows that no child repeats
	for _, child := range d.Children {
		if child.Rows == nil {
			p.Offers.Complete = string(child.ID)
			continue
		}
		left -= *child.Rows
	}
	if left <= 0 && p.Offers.Complete == "" {
		p.Offers.Retry = nil
	}

	// Why rows have failed.
	p.Failed = status.Failed(run.Run)
	p.ReasonsLeft = q.live && p.Failed > failedLive
	if p.Failed > 0 && !p.ReasonsLeft {
		if p.Reasons, err = run.FailedByReason(ctx); err != nil {
			return p, err
		}
	}

	// Its rows, and what a search finds of the failed ones.
	if p.Table, err = rowsTableOf(ctx, run, q); err != nil {
		return p, err
	}
	if !q.live && q.mayRetry(run) && (page{User: web.Of(ctx).User}).Write() {
		_, p.Found, err = q.retried(ctx, run)
	}
	return p, err
}

func rowsTableOf(ctx context.Context, run view.Run, q rowsQuery) (t rowsTable, err error) {
	t = rowsTable{Which: q.which, Cause: q.cause, Text: q.text, Groups: groupsOf(run.Run),
		Left: q.live && q.text != ""}
	if q.cause != "" {
		t.Every = runLink(run.ID, "", q.tenant, "outcome", q.which, "q", q.text)
	}
	if t.Left {
		return t, nil
	}
	// The requests of the script read less, and leave out the parts that take too long to be repeated.
	wanted := status.RowsQuery{From: q.from, Which: q.which, Reason: q.cause, Text: q.text, Limit: rowsAPage,
		MaxRead: rowsLooked}
	switch {
	case q.text != "":
		wanted.MaxRead = rowsSearched
	case q.live && q.which != status.Unfinished:
		wanted.MaxRead = rowsLive
	}
	rows, next, err := run.RowsPage(ctx, wanted)
	if err != nil {
		return t, err
	}
	if t.Left = q.live && next > 0 && len(rows) < rowsAPage; t.Left {
		return t, nil
	}
	// Each row, with its actions.
	if len(rows) > 0 {
		t.All = rowsQuery{tenant: q.tenant, which: status.EveryRow}.path(run.ID, rows[0].Item)
	}
	for _, row := range rows {
		waits := row.Outcome == "" && !row.NextCheck.IsZero()
		t.Rows = append(t.Rows, runRow{row, waits})
		t.Retry = t.Retry || row.MayRetry
		t.Check = t.Check || waits
	}

	// The pages after and before this one.
	if next > 0 {
		t.More = q.path(run.ID, next)
		if len(rows) < rowsAPage {
			t.Cut = int64(wanted.MaxRead)
		}
	}
	if q.from > 0 {
		t.First = q.path(run.ID, 0)
	}
	return t, nil
}
