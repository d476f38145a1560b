package handlers_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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

// task releases the due rows of all runs in one task; nil if none is due.
func (s together) task() *asynq.Task {
	s.t.Helper()
	var task *engine.Task
	for n, run := range s.runs {
		seg := s.of(n).Segment()
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
	task := s.task()
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

// TestRemoveTogetherStopped pauses or cancels one of the runs, or fences its execution out,
// before and after each call: no request names its client any more, and the others are
// removed.
func TestRemoveTogetherStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range stops {
		for _, fence := range []bool{false, true} {
			disturbed(t, fmt.Sprintf("%s/fenced %t", name, fence), 14, 3, len(name), func(t *testing.T, point int) string {
				s := removingTogether(t, 3)
				worker, session := s.worker()
				sent := map[string]int{}
				stopped := s.at(point, func() {
					if fence {
						s.of(1).reclaim(session)
					}
					if err := stop(s.Ledger, t.Context(), tenant, s.runs[1].ID); err != nil && !errors.Is(err, ledger.ErrEnded) {
						t.Error(err)
					}
					s.Pass(staleAnswer)
					sent = s.named()
				})
				_ = worker.ProcessTask(t.Context(), s.task())
				if *stopped == "" {
					return ""
				}
				if named := s.named(); named[s.ids[1]] != sent[s.ids[1]] || named[s.ids[0]] != 1 || named[s.ids[2]] != 1 {
					t.Errorf("%s: requests %v, before the stop %v", *stopped, s.deletes(), sent)
				}
				got, removed := s.outcomes(), sent[s.ids[1]] == 1
				late := got[1] != ledger.Done && removed && !fence // another execution finds it removed
				if got[0] != ledger.Done || got[2] != ledger.Done || got[1] == ledger.Done && !removed || late {
					t.Errorf("%s: outcomes %q, requests %v", *stopped, got, s.deletes())
				}
				if row := s.of(1).Row(0); row.Phase != ledger.PhaseSettled && row.Checkpoint.Attempts > 0 {
					t.Errorf("%s: row %+v", *stopped, row)
				}
				return *stopped
			})
		}
	}
}

// TestRemoveTogetherKilled kills the worker before and after each call. Each client is
// removed, each row counted once, and no more than the request is repeated.
func TestRemoveTogetherKilled(t *testing.T) {
	t.Parallel()
	disturbed(t, "", 14, 3, 0, func(t *testing.T, point int) string {
		s := removingTogether(t, 3)
		worker, session := s.worker()
		task := s.task()
		died := s.at(point, runtime.Goexit)
		executed(t.Context(), worker, task)
		s.calm()
		survivor, _ := s.worker()
		_ = survivor.ProcessTask(t.Context(), task) // of released rows without a begin
		s.finish(session)
		if left := s.sandbox.Clients(org); len(left) > 0 {
			t.Errorf("%s: clients left: %v", *died, left)
		}
		for client, n := range s.named() {
			if n > 2 {
				t.Errorf("%s: %d requests named %s", *died, n, client)
			}
		}
		for n, run := range s.runs {
			now, err := s.Get(t.Context(), "", run.ID)
			if err != nil || now.Counts[ledger.Done] != 1 || now.Settled() != 1 {
				t.Errorf("%s: run %d: counts %v, %v", *died, n, now.Counts, err)
			}
		}
		return *died
	})
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
	task := s.task()
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
