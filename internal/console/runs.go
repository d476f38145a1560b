package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/results"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
)

// runsAPage is how many runs a page has.
const runsAPage = 50

// runsPage is the page of all runs.
type runsPage struct {
	overview
	Filter status.RunFilter
	Texts  map[string]*string // of the filter
	Kinds  []string
	States map[string]func(ledger.Run) bool
	Hour   lastHour // of the only tenant whose runs these are
	Runs   []runView
	All    bool   // nothing is filtered
	Open   string // path of all open runs; empty: they are on this page
	Older  string // path of the page after this one; empty: it is the last
	Newest string // path of the first page; empty: this is it
	Cut    bool   // more runs may match the filter
}

func runsPath(f status.RunFilter, after string) string {
	parameters := map[string]string{"after": after}
	for name, text := range f.Parameters() {
		parameters[name] = *text
	}
	return link("/runs", parameters)
}

// filterOf reads the filter of a request. o are the tenants of the view that it concerns. A tenant
// that does not exist is refused, since it would look like one without runs.
func (s *site) filterOf(ctx context.Context, v view.View,
	query url.Values) (f status.RunFilter, o overview, err error) {
	if f, err = status.ReadRunFilter(query); err != nil {
		return f, o, &web.Refusal{Status: http.StatusBadRequest, Text: "Invalid filter: " + err.Error()}
	}
	o, err = s.overview(ctx, v, f.Tenant)
	if err != nil {
		return f, o, err
	}
	f.Held = o.held
	if f.Tenant != "" && !slices.Contains(o.Tenants, f.Tenant) {
		err = v.CheckTenant(ctx, f.Tenant)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		err = notFound(err)
	}
	return f, o, err
}

// runs is the page of all runs: GET /runs.
func (s *site) runs(ctx context.Context, r *http.Request) (title string, data any, err error) {
	after, ok := ledger.ParsePlace(r.URL.Query().Get("after"))
	if !ok {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest, Text: "Invalid address: the parameter after is malformed."}
	}
	v := s.view(ctx)
	filter, o, err := s.filterOf(ctx, v, r.URL.Query())
	if err != nil {
		return "", nil, err
	}
	p := runsPage{overview: o, Filter: filter, Texts: filter.Parameters(), All: runsPath(filter, "") == "/runs",
		States: status.RunStates}
	for _, kind := range tasks.All() {
		p.Kinds = append(p.Kinds, kind.Name)
	}
	chosen := filter.Tenant
	if len(o.Tenants) == 1 {
		chosen = cmp.Or(chosen, o.Tenants[0])
	}
	if t, err := v.Tenant(chosen); err == nil && slices.Contains(o.Tenants, chosen) {
		p.Hour, _ = readHour(ctx, t) // without it the runs are shown all the same
	}
	all, left, next, err := v.Runs(ctx, filter, after, runsAPage)
	if err != nil {
		return "", nil, err
	}
	if p.Runs, err = linesOf(ctx, v, filter, all); err != nil {
		return "", nil, err
	}
	if left {
		open := filter
		open.State = status.Open
		p.Open = runsPath(open, "")
	}
	if next != (ledger.Place{}) {
		p.Older = runsPath(filter, next.String())
		p.Cut = len(all) < runsAPage
	}
	if after != (ledger.Place{}) {
		p.Newest = runsPath(filter, "")
	}
	if n := len(p.Warnings); n > 0 {
		return fmt.Sprintf("(%d) Runs", n), p, nil // in the tab
	}
	return "Runs", p, nil
}

// linesOf returns the runs as pages show them. Runs of one row that follow each other are on one
// line if tenant, kind, label and state are the same, and the filter is not by tenant and kind: the
// line leads to such a one.
func linesOf(ctx context.Context, v view.View, f status.RunFilter, runs []view.Run) (lines []runView, err error) {
	ahead := v.Estimate(ctx, runs...)
	all, err := v.Describe(ctx, runs, ahead)
	if err != nil {
		return nil, err
	}
	group := f.Tenant == "" || f.Kind == ""
	last := ""
	for i, r := range runs {
		like := strings.Join([]string{string(r.Tenant), string(r.Kind), r.Label, all[i].Text}, "\n")
		if n := len(lines) - 1; group && r.Total() == 1 && like == last {
			f.Tenant = string(r.Tenant)
			f.Kind = string(r.Kind)
			f.Label = r.Label
			lines[n].Others++
			lines[n].OthersPath = runsPath(f, "")
			continue
		}
		lines = append(lines, viewOf(status.RunDetails{Run: all[i]}, ahead[i]))
		if last = ""; r.Total() == 1 {
			last = like
		}
	}
	return lines, nil
}

// runView is a run as pages show it.
type runView struct {
	status.RunDetails

	Text, Tone string // the state in words, and as a class: see tone
	News       string // the state without its numbers, that change all the time
	Bar        []segment
	Progress   string // "12 of 40 rows settled"
	Ahead      status.Estimate
	Waits      string // why no row is executed, or why open rows wait, once
	Trouble    []status.Fact
	Others     int    // runs of one row on the same line
	OthersPath string // of the list of them all
}

func viewOf(d status.RunDetails, ahead status.Estimate) runView {
	r := d.Ledger
	v := runView{RunDetails: d, Text: d.Text, Bar: barOf(r), Ahead: ahead,
		Trouble: status.Trouble(r)}
	v.Tone = tone(r, len(v.Trouble) > 0 || (len(ahead.Held) > 0 && !r.Scanning() && r.HasAllRows()))
	once := ahead
	if len(ahead.Held) > 0 || d.Waiting != nil {
		once.Again = 0 // they wait for the same reason, or the table of reasons has theirs
	}
	if len(ahead.Held) > 0 {
		v.Text = strings.Replace(d.Text, "waits: "+ahead.Held[0].Why, "waits", 1)
	}
	v.Waits = once.Waits()
	v.News, _, _ = strings.Cut(strings.ReplaceAll(v.Text, ";", ","), ",")
	settled := plural(r.Settled(), "row", "rows") + " settled"
	switch {
	case r.HasAllRows():
		v.Progress = status.Grouped(r.Settled()) + " of " + plural(r.Total(), "row", "rows") + " settled"
	case r.Scan != nil:
		v.Progress = settled + ", " + status.Grouped(r.Rows) + " found so far"
	default:
		v.Progress = settled + ", " + status.Grouped(r.Rows) + " submitted so far"
	}
	return v
}

// offers are the actions that a run's state allows.
type offers struct {
	Pause, Resume, Cancel bool
	Retry                 ledger.Counts // rows of each outcome that can be chosen; none: nothing can be retried
	Complete              string        // an incomplete retry that can be completed; empty: there is none
	Everywhere            *clientList   // a list of the organizations of a client that has ended; nil: it is none
}

// clientList is a list of the organizations of a client, from which the client can be removed.
type clientList struct {
	progress.Scan

	Organizations int64
	Not           string // why it cannot be removed from them; "": it can
}

// clientListOf returns the list that a run is; nil: it is none, or has not ended.
func clientListOf(r ledger.Run) *clientList {
	if !intake.IsList(r) || !r.Ended() {
		return nil
	}
	of, err := intake.ListOf(r)
	list := &clientList{Scan: of, Organizations: r.Total()}
	switch {
	case err != nil:
		list.Not = err.Error()
	case list.Organizations == 0:
		list.Not = "no organization has the client"
	}
	return list
}

func offersOf(r ledger.Run) offers {
	underWay := !r.Ended() && r.CancelledAt.IsZero()
	o := offers{Pause: underWay && !r.Paused, Resume: underWay && r.Paused, Cancel: underWay, Retry: maps.Clone(r.Counts),
		Everywhere: clientListOf(r)}
	maps.DeleteFunc(o.Retry, func(outcome ledger.Outcome, _ int64) bool { return !results.CanRetry(r, outcome) })
	return o
}

// tone returns a class of ops.css: whether the run is successful, delayed, or in progress.
func tone(r ledger.Run, heldUp bool) string {
	switch {
	case r.Ended() && status.Failure(r) == nil:
		return "good"
	case r.Ended():
		return "bad"
	case heldUp:
		return "wait"
	}
	return "goes"
}
