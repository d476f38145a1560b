package ops

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/tasks"
)

const (
	// rowsAPage is how many rows each list of a run's page has.
	rowsAPage = 50
	// rowsLooked is how many settled rows are looked through for those that a page is
	// to have, and rowsSearched how many where a text is looked for, which takes the
	// stored rows to be read: about a second, each.
	rowsLooked   = 200_000
	rowsSearched = 20_000
	// rowsLive is how many are looked through for an outcome where the script asks,
	// again and again: a page that takes more stays as it is.
	rowsLive = 5000
	// waitingLooked is how many rows' reasons tell what a run waits for: the shares
	// among so many are within three percent of the truth.
	waitingLooked = 2000
)

// runPage is the page of one run.
type runPage struct {
	runView

	Walk     string
	Parent   string
	Children []cli.Child
	Waiting  *waitingView
	Offers   offers
	Failed   failedView
	Open     openView
}

// waitingView is what the open rows wait for.
type waitingView struct {
	Reasons  []reasonView
	Further  string // how many rows have other reasons; empty: none
	Unnoted  string // how many have none: no worker has come to them
	Sampled  bool   // the numbers are judged by some of the rows
	Read     int64
	Noted    int64
	NextLook time.Time
}

type reasonView struct {
	Rows, Reason string
	Next         time.Time
}

// rowView is a row of either list.
type rowView struct {
	cli.RowName

	Item          int64
	Outcome, Tone string // of a settled row
	Why           string
	Next          time.Time // when an open one is looked at next; zero: not known
	Lookup        string    // path; empty: there is none
}

// failedView are the failed rows.
type failedView struct {
	Rows     []rowView
	Total    int64
	Outcome  string // asked for; empty: any
	Text     string
	Outcomes []outcomeCount // that can be asked for
	CSV      bool           // they can be had as CSV
	More     string         // path of the page after this one; empty: it is the last
	First    string         // path of the first page; empty: this is it
	Cut      int64          // so many rows were looked through, and the page is not full; 0: it is whole
	Left     bool           // out, since what is shown there does not change
}

// openView are the rows that are not settled.
type openView struct {
	Rows  []rowView
	Total int64 // 0: not known
	More  string
	First string
}

// found is the run that the request is about; where ok is false it was answered.
func (s *site) found(ctx context.Context, w http.ResponseWriter, r *http.Request) (run runs.Run, ok bool) {
	id := r.PathValue("id")
	err := error(runs.ErrNotFound)
	if tasks.CheckRunID(id) == nil {
		run, err = s.Ledger.Get(ctx, id)
	}
	switch {
	case errors.Is(err, runs.ErrNotFound):
		s.problem(w, r, http.StatusNotFound, "runs", "There is no run "+cli.Shown(id)+". It never existed, or it was deleted after its retention (30 days after its end by default).")
		return run, false
	case err != nil:
		s.unread(w, r, "runs", err)
		return run, false
	}
	return run, true
}

// run shows the page of one run: GET /runs/{id}.
func (s *site) run(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	run, ok := s.found(ctx, w, r)
	if !ok {
		return
	}
	query, ok := rowsQueryOf(r)
	if !ok {
		s.problem(w, r, http.StatusBadRequest, "runs", "Invalid address: from and open must be row numbers.")
		return
	}
	p, err := s.runPage(ctx, run, query)
	if err != nil {
		s.unread(w, r, "runs", err)
		return
	}
	s.show(w, r, http.StatusOK, "run", page{Title: "Run " + run.ID, Section: "runs", Data: p})
}

// rowsQuery says which rows of the run are wanted.
type rowsQuery struct {
	outcome, text string
	from, open    int64 // the first row of either list
	live          bool  // the script asks, to keep the page up to date
}

func rowsQueryOf(r *http.Request) (q rowsQuery, ok bool) {
	query := r.URL.Query()
	q = rowsQuery{outcome: query.Get("outcome"), text: query.Get("q"), live: r.Header.Get("Orgops-Live") != ""}
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

// path is where the same rows are shown, from these on.
func (q rowsQuery) path(run string, from, open int64) string {
	query := url.Values{}
	for name, value := range map[string]string{"outcome": q.outcome, "q": q.text} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, row := range map[string]int64{"from": from, "open": open} {
		if row > 0 {
			query.Set(name, strconv.FormatInt(row, 10))
		}
	}
	if len(query) == 0 {
		return runPath(run)
	}
	return runPath(run) + "?" + query.Encode()
}

func (s *site) runPage(ctx context.Context, run runs.Run, q rowsQuery) (p runPage, err error) {
	now := time.Now()
	p.runView = viewOf(run, s.oracle.See(ctx, now, []runs.Run{run})[0], now)
	p.Walk, p.Parent, p.Offers = cli.WalkState(run), run.Parent, offersOf(run)
	if p.Children, err = cli.Children(ctx, s.Ledger, run); err != nil {
		return p, err
	}
	for _, child := range p.Children {
		if child.Missing || !child.Sealed {
			p.Offers.Complete = child.ID
		}
	}
	if p.Waiting, err = s.waiting(ctx, run); err != nil {
		return p, err
	}
	if p.Failed, err = s.failedRows(ctx, run, q); err != nil {
		return p, err
	}
	p.Open, err = s.open(ctx, run, q)
	return p, err
}

func (s *site) waiting(ctx context.Context, run runs.Run) (*waitingView, error) {
	w, err := cli.WaitingOf(ctx, s.Ledger, run, waitingLooked)
	if err != nil || (w.Looked == 0 && w.Unnoted == 0) {
		return nil, err
	}
	v := &waitingView{Sampled: w.Looked < w.Noted, Read: w.Looked, Noted: w.Noted, NextLook: w.Next}
	rows := func(n int64) string {
		if v.Sampled {
			return "about " + grouped(int64(float64(n)/float64(w.Looked)*float64(w.Noted)))
		}
		return grouped(n)
	}
	for _, one := range w.Reasons {
		v.Reasons = append(v.Reasons, reasonView{rows(one.Rows), one.Reason, one.Next})
	}
	if w.Further > 0 {
		v.Further = rows(w.Further)
	}
	if w.Unnoted > 0 {
		v.Unnoted = grouped(w.Unnoted)
	}
	return v, nil
}

func (s *site) failedRows(ctx context.Context, run runs.Run, q rowsQuery) (v failedView, err error) {
	v = failedView{Total: cli.Unwell(run), Outcome: q.outcome, Text: q.text, CSV: run.Format == intake.FormatCSV}
	v.Outcomes = slices.DeleteFunc(outcomesOf(run), func(c outcomeCount) bool { return tasks.Outcome(c.Outcome).Well() })
	if v.Total == 0 {
		return v, nil
	}
	if v.Left = q.live && (q.text != "" || q.from > 0); v.Left {
		return v, nil
	}
	wanted := cli.UnwellWanted{From: q.from, Outcome: q.outcome, Text: q.text, Most: rowsAPage, Look: rowsLooked}
	switch {
	case q.text != "":
		wanted.Look = rowsSearched
	case q.live && q.outcome != "":
		wanted.Look = rowsLive
	}
	rows, next, err := cli.UnwellPage(ctx, s.Ledger, run, wanted)
	if err != nil {
		return v, err
	}
	if v.Left = q.live && next > 0 && len(rows) < rowsAPage; v.Left {
		return v, nil
	}
	for _, row := range rows {
		v.Rows = append(v.Rows, rowView{RowName: row.RowName, Item: row.Item, Outcome: row.Outcome, Tone: toneOf(row.Outcome), Why: row.Detail, Lookup: domainPath(run, row.RowName)})
	}
	if next > 0 {
		v.More = q.path(run.ID, next, q.open)
		if len(rows) < rowsAPage {
			v.Cut = int64(wanted.Look)
		}
	}
	if q.from > 0 {
		v.First = q.path(run.ID, 0, q.open)
	}
	return v, nil
}

func (s *site) open(ctx context.Context, run runs.Run, q rowsQuery) (v openView, err error) {
	if run.Ended() {
		return v, nil
	}
	if run.Sealed {
		v.Total = run.Total - run.Settled
	}
	for row, err := range cli.OpenFrom(ctx, s.Ledger, run, q.open) {
		if err != nil {
			return v, err
		}
		if len(v.Rows) == rowsAPage {
			v.More = q.path(run.ID, q.from, row.Item)
			break
		}
		v.Rows = append(v.Rows, rowView{RowName: row.RowName, Item: row.Item, Why: cli.OpenReason(row), Next: row.Next, Lookup: domainPath(run, row.RowName)})
	}
	if q.open > 0 {
		v.First = q.path(run.ID, q.from, 0)
	}
	return v, nil
}
