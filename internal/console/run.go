package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/web"
	"orgops/tasks"
)

const (
	// rowsLooked is how many settled rows are searched for the rows of a page, and
	// rowsSearched how many if a text is searched, which reads the stored rows: about a
	// second, each.
	rowsLooked   = 200_000
	rowsSearched = 20_000
	// rowsLive is how many are searched for an outcome in the repeated requests of the
	// script: a page that takes more stays as it is.
	rowsLive = 5000
	// waitingLooked is how many rows' reasons are read to estimate why a run waits: the
	// shares of so many are exact to three percent.
	waitingLooked = 2000
)

// runPage is the page of one run.
type runPage struct {
	runView

	Named string // the tenant, if the address has it, since several have a run of that id

	Offers  offers
	Failed  int64           // how many rows have failed
	Reasons *status.Waiting // why; nil: none has
	Hour    lastHour        // of the tenant
	Table   rowsTable
}

// rowsTable is a page of the run's rows.
type rowsTable struct {
	Rows   []runRow
	Which  string // an outcome, or a selection of package status
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

	Retry, Check bool
}

// groupsOf returns the selections of rows.
func groupsOf(r ledger.Run) []rowsGroup {
	open, failed := max(r.Rows-r.Settled(), 0), status.Failed(r)
	groups := []rowsGroup{{status.Unfinished, open + failed}, {status.EveryRow, r.Rows},
		{status.OpenRows, open}, {status.FailedRows, failed}}
	for _, outcome := range slices.Sorted(maps.Keys(r.Counts)) {
		groups = append(groups, rowsGroup{string(outcome), r.Counts[outcome]})
	}
	return groups
}

// found returns the run that a request names, of a tenant that the user may see: of the only one
// that has a run of that id, or of the one that the address names. The error is a *web.Refusal if
// there is none.
func (s *site) found(ctx context.Context, r *http.Request) (run ledger.Run, err error) {
	id, tenant, user := r.PathValue("id"), r.URL.Query().Get("tenant"), web.Of(ctx).User
	err = ledger.ErrNotFound
	if tasks.CheckRunID(id) == nil && (tenant == "" || tasks.CheckTenant(tenant) == nil) {
		run, err = s.Ledger.Get(ctx, ledger.Tenant(tenant), ledger.RunID(id))
	}
	if several, ok := errors.AsType[*ledger.AmbiguousError](err); ok {
		err = ledger.ErrNotFound
		var addresses []string
		for _, t := range several.Tenants {
			if user.MayTenant(string(t)) {
				addresses = append(addresses, runLink(ledger.RunID(id), "", string(t)))
				run, err = s.Ledger.Get(ctx, t, ledger.RunID(id))
			}
		}
		if len(addresses) > 1 {
			return run, &web.Refusal{Status: http.StatusConflict,
				Text: "Several tenants have a run " + status.Shown(id) + ". Open one of: " + strings.Join(addresses, ", ") + "."}
		}
	}
	if err == nil && !user.MayTenant(string(run.Tenant)) {
		err = ledger.ErrNotFound
	}
	if errors.Is(err, ledger.ErrNotFound) {
		err = &web.Refusal{
			Status: http.StatusNotFound, Text: "There is no run " + status.Shown(id) +
				". It never existed, or it was deleted after its retention (30 days after its end by default).",
		}
	}
	return run, err
}

// run is the page of one run: GET /runs/{id}.
func (s *site) run(ctx context.Context, r *http.Request) (title string, data any, err error) {
	run, err := s.found(ctx, r)
	if err != nil {
		return "", nil, err
	}
	query, ok := rowsQueryOf(r)
	if !ok {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest,
			Text: "Invalid address: from must be the number of a row."}
	}
	if run.Ended() && status.Failed(run) == 0 && !r.URL.Query().Has("outcome") {
		query.which = status.EveryRow // none is open or failed
	}
	p, err := s.runPage(ctx, run, query)
	return "Run " + string(run.ID), p, err
}

// rowsQuery selects rows of the run.
type rowsQuery struct {
	tenant, which, text string
	from                int64 // the first row
	live                bool  // a request of the script, to keep the page up to date
}

func rowsQueryOf(r *http.Request) (q rowsQuery, ok bool) {
	query := r.URL.Query()
	q = rowsQuery{tenant: query.Get("tenant"), which: query.Get("outcome"), text: query.Get("q"),
		live: r.Header.Get("Orgops-Live") != ""}
	if text := query.Get("from"); text != "" {
		var err error
		if q.from, err = strconv.ParseInt(text, 10, 64); err != nil || q.from < 0 {
			return q, false
		}
	}
	return q, true
}

// path returns the page of the same selection from this row on.
func (q rowsQuery) path(run ledger.RunID, from int64) string {
	return runLink(run, "", q.tenant, "outcome", q.which, "q", q.text, "from", strconv.FormatInt(from, 10))
}

func (s *site) runPage(ctx context.Context, run ledger.Run, q rowsQuery) (p runPage, err error) {
	d, err := status.DetailsOf(ctx, s.Redis, s.Ledger, run, waitingLooked)
	if err != nil {
		return p, err
	}
	p.Hour, _ = readHour(ctx, s.Redis, string(run.Tenant)) // without it the run is shown all the same
	p.Named = q.tenant
	p.runView, p.Offers = viewOf(d, s.estimator.Estimate(ctx, time.Now(), []ledger.Run{run})[0]), offersOf(run)
	for _, child := range d.Children {
		if child.Rows == nil {
			p.Offers.Complete = string(child.ID)
		}
	}
	if p.Failed = status.Failed(run); p.Failed > 0 {
		if p.Reasons, err = status.FailedByReason(ctx, s.Ledger, run, waitingLooked); err != nil {
			return p, err
		}
	}
	p.Table, err = s.rowsTable(ctx, run, q)
	return p, err
}

func (s *site) rowsTable(ctx context.Context, run ledger.Run, q rowsQuery) (t rowsTable, err error) {
	t = rowsTable{Which: q.which, Text: q.text, Groups: groupsOf(run), Left: q.live && q.text != ""}
	if t.Left {
		return t, nil
	}
	wanted := status.RowsQuery{From: q.from, Which: q.which, Text: q.text, Limit: rowsAPage, MaxRead: rowsLooked}
	switch {
	case q.text != "":
		wanted.MaxRead = rowsSearched
	case q.live && q.which != status.Unfinished:
		wanted.MaxRead = rowsLive
	}
	rows, next, err := status.RowsPage(ctx, s.Ledger, run, wanted)
	if err != nil {
		return t, err
	}
	if t.Left = q.live && next > 0 && len(rows) < rowsAPage; t.Left {
		return t, nil
	}
	if len(rows) > 0 {
		t.All = rowsQuery{tenant: q.tenant, which: status.EveryRow}.path(run.ID, rows[0].Item)
	}
	for _, row := range rows {
		waits := row.Outcome == "" && !row.NextCheck.IsZero()
		t.Rows = append(t.Rows, runRow{row, canRetry(run, row.Outcome), waits})
		t.Retry, t.Check = t.Retry || canRetry(run, row.Outcome), t.Check || waits
	}
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
