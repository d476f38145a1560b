package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

// mostSelected is how many runs an action on several has at most.
const mostSelected = 500

// selectionPage is the preview of an action on several runs.
type selectionPage struct {
	Action  string
	Runs    []view.Run // on which it acts
	Rows    int64      // of these, that it concerns
	Tenants map[ledger.Tenant]int
	LeftOut map[string][]string // names of runs by the state for which they are left out
	More    bool                // runs match the filter
}

// selection is the preview of an action on named runs, or on all of a filter: GET /selection.
func (s *site) selection(ctx context.Context, r *http.Request) (title string, data any, err error) {
	query := r.URL.Query()
	action := query.Get("action")
	names := query["run"]
	more := false
	v := s.view(ctx)
	if runActions[action] == nil {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest, Text: "Invalid address: there is no such action."}
	}
	if query.Get("all") != "" {
		f, _, err := s.filterOf(ctx, v, query)
		if err != nil {
			return "", nil, err
		}
		runs, left, next, err := v.Runs(ctx, f, ledger.Place{}, mostSelected)
		if err != nil {
			return "", nil, err
		}
		names = nil
		more = left || next != ledger.Place{}
		for _, run := range runs {
			names = append(names, string(run.Tenant)+"/"+string(run.ID))
		}
	}
	p := choose(ctx, v, action, names)
	p.More = p.More || more
	return capital(action) + " runs", p, nil
}

// choose reads the runs of names TENANT/ID, and chooses those whose state allows the action.
func choose(ctx context.Context, v view.View, action string, names []string) selectionPage {
	p := selectionPage{Action: action, Tenants: map[ledger.Tenant]int{}, LeftOut: map[string][]string{}}
	for _, name := range names {
		tenant, id, _ := strings.Cut(name, "/")
		run, err := v.Run(ctx, tenant, id)
		why := status.State(run.Run)
		o := offersOf(run.Run)
		rows := run.Rows - run.Settled()
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			why = "not found"
		case err != nil:
			why = unread(err)
		}
		if action == "retry" {
			rows = o.Retry.Settled()
		}
		allowed := map[string]bool{"pause": o.Pause, "resume": o.Resume, "cancel": o.Cancel, "retry": rows > 0}[action]
		switch {
		case err != nil || !allowed:
			p.LeftOut[why] = append(p.LeftOut[why], status.Shown(name))
		case len(p.Runs) == mostSelected:
			p.More = true
		default:
			p.Runs = append(p.Runs, run)
			p.Rows += rows
			p.Tenants[run.Tenant]++
		}
	}
	return p
}

// actOnSelection acts on each run of the form whose state still allows it: POST /selection.
func (s *site) actOnSelection(w http.ResponseWriter, r *http.Request) {
	action := field(r.PostForm, "action")
	reason := field(r.PostForm, "reason")
	do := runActions[action]
	if do == nil || reason == "" {
		s.fail(w, r, "runs", &web.Refusal{Status: http.StatusBadRequest,
			Text: "Nothing was changed: an action and a reason are needed."})
		return
	}

	// The action is done for each run, also after an error.
	v := s.view(r.Context())
	s.carryOut(w, r, action, "several runs", "/runs", func(ctx context.Context) result {
		p := choose(ctx, v, action, r.PostForm["run"])
		var failed []string
		for _, run := range p.Runs {
			form := url.Values{"reason": {reason}}
			for outcome := range offersOf(run.Run).Retry {
				form.Add("outcome", string(outcome))
			}
			if err := do(ctx, run, form).err; err != nil {
				failed = append(failed, "run "+string(run.ID)+": "+err.Error())
			}
		}
		effects := []string{fmt.Sprintf("%s: done for %s.", action, plural(int64(len(p.Runs)-len(failed)), "run", "runs"))}
		for why, names := range p.LeftOut {
			effects = append(effects, fmt.Sprintf("Left out: %d (%s).", len(names), why))
		}
		text := strings.Join(effects, " ")
		if n := len(failed); n > 0 {
			return result{err: fmt.Errorf("%s Failed: %d: %s", text, n, strings.Join(failed[:min(n, mostHits)], "; "))}
		}
		return result{text: text}
	})
}
