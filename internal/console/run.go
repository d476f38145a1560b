package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/web"
	"orgops/tasks"
)

const (
	// rowsAPage is how many rows each list of a run's page has.
	rowsAPage = 50
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

	Offers offers
	Failed failedView
	Open   openView
}

// failedView are the failed rows.
type failedView struct {
	Rows     []status.Row
	Total    int64
	Outcome  string // requested; empty: any
	Text     string
	Outcomes ledger.Counts // rows of each outcome
	More     string        // path of the page after this one; empty: it is the last
	First    string        // path of the first page; empty: this is it
	Cut      int64         // so many rows were searched without filling the page; 0: it is full
	Left     bool          // out, since the shown rows do not change
}

// openView are the rows that are not settled.
type openView struct {
	Rows  []status.Row
	Total int64 // 0: not known
	More  string
	First string
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
			Text: "Invalid address: from and open must be row numbers."}
	}
	p, err := s.runPage(ctx, run, query)
	return "Run " + string(run.ID), p, err
}

// rowsQuery selects rows of the run.
type rowsQuery struct {
	tenant, outcome, text string
	from, open            int64 // the first row of either list
	live                  bool  // a request of the script, to keep the page up to date
}

func rowsQueryOf(r *http.Request) (q rowsQuery, ok bool) {
	query := r.URL.Query()
	q = rowsQuery{tenant: query.Get("tenant"), outcome: query.Get("outcome"), text: query.Get("q"),
		live: r.Header.Get("Orgops-Live") != ""}
	for name, into := range map[string]*int64{"from": &q.from, "open": &q.open} {
		if text := query.Get(name); text != "" {
			var err error
			if *into, err = strconv.ParseInt(text, 10, 64); err != nil || *into < 0 {
				return q, false
			}
		}
	}
	return q, true
}

// path returns the page of the same selection from these rows on.
func (q rowsQuery) path(run string, from, open int64) string {
	return link(runPath(ledger.RunID(run)), map[string]string{"tenant": q.tenant, "outcome": q.outcome, "q": q.text,
		"from": rowParameter(from), "open": rowParameter(open)})
}

func (s *site) runPage(ctx context.Context, run ledger.Run, q rowsQuery) (p runPage, err error) {
	d, err := status.DetailsOf(ctx, s.Redis, s.Ledger, run, waitingLooked)
	if err != nil {
		return p, err
	}
	p.Named = q.tenant
	p.runView, p.Offers = viewOf(d, s.estimator.Estimate(ctx, time.Now(), []ledger.Run{run})[0]), offersOf(run)
	for _, child := range d.Children {
		if child.Rows == nil {
			p.Offers.Complete = string(child.ID)
		}
	}
	if p.Failed, err = s.failedRows(ctx, run, q); err != nil {
		return p, err
	}
	p.Open, err = s.open(ctx, run, q)
	return p, err
}

func (s *site) failedRows(ctx context.Context, run ledger.Run, q rowsQuery) (v failedView, err error) {
	v = failedView{Total: status.Failed(run), Outcome: q.outcome, Text: q.text}
	v.Outcomes = countsOf(run, func(outcome ledger.Outcome) bool { return toneOf(outcome) != "good" })
	v.Left = v.Total > 0 && q.live && (q.text != "" || q.from > 0)
	if v.Total == 0 || v.Left {
		return v, nil
	}
	wanted := status.FailedQuery{From: q.from, Outcome: q.outcome, Text: q.text, Limit: rowsAPage, MaxRead: rowsLooked}
	switch {
	case q.text != "":
		wanted.MaxRead = rowsSearched
	case q.live && q.outcome != "":
		wanted.MaxRead = rowsLive
	}
	rows, next, err := status.FailedPage(ctx, s.Ledger, run, wanted)
	if err != nil {
		return v, err
	}
	if v.Left = q.live && next > 0 && len(rows) < rowsAPage; v.Left {
		return v, nil
	}
	v.Rows = rows
	if next > 0 {
		v.More = q.path(string(run.ID), next, q.open)
		if len(rows) < rowsAPage {
			v.Cut = int64(wanted.MaxRead)
		}
	}
	if q.from > 0 {
		v.First = q.path(string(run.ID), 0, q.open)
	}
	return v, nil
}

func (s *site) open(ctx context.Context, run ledger.Run, q rowsQuery) (v openView, err error) {
	if run.Ended() {
		return v, nil
	}
	if run.Sealed() {
		v.Total = run.Total() - run.Settled()
	}
	rows, next, err := status.OpenPage(ctx, s.Ledger, run, q.open, rowsAPage)
	v.Rows = rows
	if next > 0 {
		v.More = q.path(string(run.ID), q.from, next)
	}
	if q.open > 0 {
		v.First = q.path(string(run.ID), q.from, 0)
	}
	return v, err
}
