package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/web"
	"orgops/tasks"
)

const (
	// runsAPage is how many runs a page has, runsLooked how many are read for it.
	runsAPage  = 50
	runsLooked = 5000
)

// runsPage is the page of all runs.
type runsPage struct {
	overview
	Filter   runsFilter
	Kinds    []string
	States   []string
	Runs     []runView
	Older    string // path of the page after this one; empty: it is the last
	Newest   string // path of the first page; empty: this is it
	Cut      bool   // more runs may match the filter
	Searched int64
}

// runsFilter selects runs; an empty member selects all.
type runsFilter struct{ Tenant, Kind, State string }

// runStates are the states of runs to filter by.
var runStates = []string{"open", "ended", "unwell"}

// is reports whether the filter selects the run. held are the tenants of which no row is executed.
func (f runsFilter) is(r ledger.Run, held map[string]bool) bool {
	if (f.Tenant != "" && string(r.Tenant) != f.Tenant) || (f.Kind != "" && string(r.Kind) != f.Kind) {
		return false
	}
	switch f.State {
	case "open":
		return !r.Ended()
	case "ended":
		return r.Ended()
	case "unwell":
		return status.Failed(r) > 0 || len(status.Trouble(r)) > 0 || !r.Ended() && (r.Paused || held[string(r.Tenant)])
	}
	return true
}

func (f runsFilter) path(after string) string {
	return link("/runs", map[string]string{"tenant": f.Tenant, "kind": f.Kind, "state": f.State, "after": after})
}

// runs is the page of all runs: GET /runs.
func (s *site) runs(ctx context.Context, r *http.Request) (title string, data any, err error) {
	query := r.URL.Query()
	filter := runsFilter{Tenant: query.Get("tenant"), Kind: query.Get("kind"), State: query.Get("state")}
	after, ok := ledger.ParsePlace(query.Get("after"))
	if !ok || (filter.State != "" && !slices.Contains(runStates, filter.State)) {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest,
			Text: "Invalid address: the parameter after or state is malformed."}
	}
	p := runsPage{Filter: filter, States: runStates, Searched: runsLooked}
	for _, kind := range tasks.All() {
		p.Kinds = append(p.Kinds, kind.Name)
	}
	user := web.Of(ctx).User
	if p.overview, err = s.overview(ctx, filter.Tenant); err != nil {
		return "", nil, err
	}
	match := func(r ledger.Run) bool { return user.MayTenant(string(r.Tenant)) && filter.is(r, p.held) }
	all, next, err := s.Ledger.Page(ctx, ledger.Query{Match: match, After: after, Limit: runsAPage, MaxRead: runsLooked})
	if err != nil {
		return "", nil, err
	}
	for i, ahead := range s.estimator.Estimate(ctx, time.Now(), all) {
		p.Runs = append(p.Runs, viewOf(status.RunDetails{Run: status.RunOf(all[i])}, ahead))
	}
	if next != (ledger.Place{}) {
		p.Older, p.Cut = filter.path(next.String()), len(all) < runsAPage
	}
	if after != (ledger.Place{}) {
		p.Newest = filter.path("")
	}
	if n := len(p.Warnings); n > 0 {
		return fmt.Sprintf("(%d) Runs", n), p, nil // in the tab
	}
	return "Runs", p, nil
}

// runView is a run as pages show it.
type runView struct {
	status.RunDetails

	Text, Tone string // the state in words, and as a class: see tone
	News       string // the state without its numbers, that change all the time
	Value, Max int64  // of the bar
	Progress   string // "12 of 40 rows settled"
	Ahead      status.Estimate
	Trouble    []status.Fact
}

func viewOf(d status.RunDetails, ahead status.Estimate) runView {
	r := d.Ledger
	v := runView{RunDetails: d, Text: status.State(r), Value: min(r.Settled(), r.Rows), Max: max(r.Rows, 1), Ahead: ahead,
		Trouble: status.Trouble(r)}
	v.Tone = tone(r, len(v.Trouble) > 0 || (len(ahead.Held) > 0 && !r.Scanning() && r.Sealed()))
	v.News, _, _ = strings.Cut(v.Text, "; ")
	switch v.Progress = grouped(r.Settled()); {
	case r.Sealed():
		v.Progress += " of " + grouped(r.Total()) + " rows settled"
	case r.Scan != nil:
		v.Progress += " rows settled, " + grouped(r.Rows) + " found so far"
	default:
		v.Progress += " rows settled, " + grouped(r.Rows) + " submitted so far"
	}
	return v
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

// countsOf returns how many rows of the run have each of some outcomes.
func countsOf(r ledger.Run, wanted func(ledger.Outcome) bool) ledger.Counts {
	counts := maps.Clone(r.Counts)
	maps.DeleteFunc(counts, func(outcome ledger.Outcome, _ int64) bool { return !wanted(outcome) })
	return counts
}

// toneOf returns a class of ops.css for an outcome.
func toneOf(outcome ledger.Outcome) string {
	switch outcome {
	case ledger.Done, engine.Unchanged:
		return "good"
	case ledger.Cancelled:
		return ""
	}
	return "bad"
}
