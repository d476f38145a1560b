package handlers_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/pace"
	"orgops/tasks/handlers"
)

// together is a site with runs of one row each, which remove a client each.
type together struct {
	removals
	ids  []string
	runs []ledger.Run
}

func removingTogether(t *testing.T, n int) together {
	t.Helper()
	s := together{removals: removing(t, 0, nil), ids: clients(n)}
	s.sandbox.AddClients(org, s.ids...)
	for i, row := range removalRows(org, s.ids...) {
		s.SubmitAs(ledger.RunID(fmt.Sprintf("run-%d", i)), handlers.Remove, row)
		s.runs = append(s.runs, s.Run)
	}
	return s
}

// of returns the site of one of the runs.
func (s together) of(n int) *site {
	one := *s.site
	one.Site = s.Of(s.runs[n])
	return &one
}

// taskOf releases the due rows of runs in one task; nil if none is due.
func (s *site) taskOf(runs []ledger.Run) *asynq.Task {
	s.t.Helper()
	var task *engine.Task
	for _, run := range runs {
		seg := s.Of(run).Segment()
		r, err := s.Release(s.t.Context(), seg, ledger.Quota{First: 1, Check: 1, Ready: 1})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(r.Rows) == 0 {
			continue
		}
		one := engine.NewTask(run, seg, r.Token, r.Rows...)
		if task == nil {
			task = &one
		} else {
			task.Add(one)
		}
	}
	if task == nil {
		return nil
	}
	return s.Message(*task)
}

// outcomes returns the outcome of each run's row; "" if it is open.
func (s together) outcomes() (all []ledger.Outcome) {
	s.t.Helper()
	for n := range s.runs {
		all = append(all, s.of(n).Row(0).Result.Outcome)
	}
	return all
}

// finish executes all rows that are due or in progress by a session that has died.
func (s together) finish(dead ledger.SessionID) {
	s.t.Helper()
	e, _ := s.worker()
	for n := range s.runs {
		one := s.of(n)
		one.reclaim(dead)
		one.Drain(e)
	}
}

// TestRemoveTogether has one request for the rows of many runs. Rows of runs that were paused
// or cancelled meanwhile are not in it, and a row that cannot be read settles as invalid.
func TestRemoveTogether(t *testing.T) {
	t.Parallel()
	s := removingTogether(t, 4)
	s.SubmitAs("malformed", handlers.Remove, `{"organization_id":"org_1"}`)
	s.runs = append(s.runs, s.Run)
	task := s.taskOf(s.runs)
	if err := errors.Join(s.Pause(t.Context(), tenant, s.runs[0].ID),
		s.Cancel(t.Context(), tenant, s.runs[2].ID)); err != nil {
		t.Fatal(err)
	}
	e, session := s.worker()
	for range 2 { // two deliveries
		_ = e.ProcessTask(t.Context(), task)
	}
	if got := s.deletes(); len(got) != 1 || !slices.Equal(got[0], []string{s.ids[1], s.ids[3]}) {
		t.Errorf("requests %v", got)
	}
	if got, want := s.outcomes(), []ledger.Outcome{"", ledger.Done, ledger.Cancelled, ledger.Done,
		ledger.InvalidRow}; !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
	if row := s.of(0).Row(0); row.Checkpoint.Attempts > 0 {
		t.Errorf("the row of the paused run: %+v", row)
	}
	if err := s.Resume(t.Context(), tenant, s.runs[0].ID); err != nil {
		t.Fatal(err)
	}
	s.finish(session)
	if left := s.sandbox.Clients(org); !slices.Equal(left, []string{s.ids[2]}) {
		t.Errorf("clients left: %v", left)
	}
}

// TestRemovalsAreAudited: each run whose client a shared request has removed has a line of its own
// in the log, with the client and the id by which the tenant's log has the request.
func TestRemovalsAreAudited(t *testing.T) {
	s := removingTogether(t, 2)
	var log logtest.Buffer
	e, _ := s.Worker(func(c *engine.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Handlers[handlers.Remove] = handlers.NewRemove(handlers.RemoveConfig{
			API:   func(b apiclient.Binding) handlers.Clients { return s.api.For(b) },
			Limit: pace.NewClientLimit(s.Redis, string(tenant))})
	})
	task := s.taskOf(s.runs)
	if err := e.ProcessTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	parsed, err := engine.ParseTask(tenant, task.Payload())
	if err != nil {
		t.Fatal(err)
	}
	for i, client := range s.ids {
		want := fmt.Sprintf(`msg=audit tenant=acme event="change made" run=run-%d segment=0 rows=[0] `+
			"operation=remove_organization_clients method=DELETE path=/organizations/org_1/clients status=204 "+
			"correlation_id=%s clients=[%s]", i, parsed.ID(), client)
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if len(s.deletes()) != 1 {
		t.Errorf("requests %q, want one", s.deletes())
	}
}
