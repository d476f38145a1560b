package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/activity"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/index"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/tasks/handlers"
)

// site is a tenant with a worker, which executes its rows when it is told to.
type site struct {
	*platform

	t        *testing.T
	m        *Moment
	name     ledger.Tenant
	session  ledger.SessionID
	settings tenant.Announced
	notifier events.Notifier // nil: the tenant has no webhooks
	limiter  *pace.Limiter
	engine   *engine.Engine
}

// newSite announces the settings of a tenant.
func newSite(t *testing.T, m *Moment, settings tenant.Announced, session ledger.SessionID) *site {
	t.Helper()
	s := &site{platform: newPlatform(t), t: t, m: m, name: ledger.Tenant(settings.Tenant),
		session: session, settings: settings}
	limit, err := settings.Pace()
	must(t, err)
	s.limiter = pace.New(pace.Config{
		Redis: m.Redis, Tenant: settings.Tenant, Limit: limit,
		Changed: func(ctx context.Context, how, what string) {
			s.author(worker).Record(ctx, activity.Entry{Tenant: settings.Tenant, Action: activity.Action(how), Result: what})
		},
	})
	s.announce()
	return s
}

// announce stores the settings for producers, as a worker does every minute.
func (s *site) announce() {
	s.t.Helper()
	s.settings.UpdatedAt = time.Now().UTC()
	_, err := tenant.Announce(s.t.Context(), s.m.Redis, s.settings)
	must(s.t, err)
}

// author records the activity of somebody.
func (s *site) author(name string) activity.Author {
	return activity.Author{Redis: s.m.Redis, Logger: log, Name: name, Claimed: name == ada}
}

const (
	// worker is the author of what workers do, and operator the person who has done all else.
	worker = "worker"
	ada    = "ada@laptop"
)

// intake returns an intake by which ada submits rows.
func (s *site) intake() intake.Intake {
	i := intake.New(s.m.Redis, s.m.Ledger)
	i.By = s.author(ada)
	return i
}

// requestTimeout is that of the API's client.
const requestTimeout = 30 * time.Second

// start makes the engine, once the tenant has its webhooks.
func (s *site) start() {
	// The parts that several handlers have.
	states := s.states()
	domains := func(b apiclient.Binding) handlers.Domains { return s.bound(b) }
	verify := handlers.VerifyConfig{
		API: domains, List: func(b apiclient.Binding) handlers.DomainList { return s.bound(b) },
		Named: index.NamedIn(s.m.Ledger, s.name), DNS: s, Line: s.limiter, RequestTimeout: requestTimeout,
		GiveUp: time.Duration(s.settings.GiveUp),
		Notify: handlers.NotifyStates(states, s.author(worker)), Item: s.m.Ledger.ItemOf, Logger: log,
		Notice: states.NoticeRead,
	}

	// The handlers, each with a client that is bound to its execution.
	all := map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(verify),
		handlers.Read:   handlers.NewRead(verify),
		handlers.Update: handlers.NewUpdate(handlers.UpdateConfig{API: domains, States: states,
			RequestTimeout: requestTimeout}),
		handlers.Remove: handlers.NewRemove(handlers.RemoveConfig{
			API:   func(b apiclient.Binding) handlers.Clients { return s.bound(b) },
			Limit: pace.NewClientLimit(s.m.Redis, string(s.name)), Logger: log,
		}),
		handlers.Create: handlers.NewCreate(handlers.CreateConfig{
			API: func(b apiclient.Binding) handlers.Templates { return s.bound(b) }, RequestTimeout: requestTimeout}),
		handlers.Recheck: handlers.NewRecheck(handlers.RecheckConfig{
			Verify: verify, Tenant: s.name, States: states, Rules: s.settings.Rules(), Operators: s,
		}),
		handlers.Revoke: handlers.NewRevoke(handlers.RevokeConfig{
			API: domains, DNS: s, States: states, Rules: s.settings.Rules(), RequestTimeout: requestTimeout, Logger: log,
			By: s.author(worker),
		}),
	}
	maps.Copy(all, scan.Handlers(scan.Config{
		API: func(b apiclient.Binding) scan.API { return s.bound(b) }, States: states.Store.(*sweep.Store),
		Lists: s.m.Ledger, Logger: log,
	}))

	// The engine executes them.
	s.engine = engine.New(engine.Config{
		Tenant: s.name, Ledger: s.m.Ledger, Session: s.session, Handlers: all, Logger: log,
		Block: func(ctx context.Context, operation, reason string, fault apiclient.Fault) error {
			return s.limiter.Block(ctx, operation, reason, s.shown().Remedy(fault))
		},
	})
}

// shown returns the settings that remedies name.
func (s *site) shown() tenant.Settings {
	return tenant.Settings{
		Announced: s.settings, BaseURL: "https://tenant.example/api/v2", TokenURL: "https://tenant.example/oauth/token",
		Audience: "https://tenant.example/api/v2/", ClientID: "client-of-" + string(s.name),
		ClientSecretFile: "/run/secrets/" + string(s.name),
	}
}

// states returns the states of the tenant's domains from sweep to sweep.
func (s *site) states() *sweep.States {
	return &sweep.States{Tenant: string(s.name), Store: sweep.NewStore(s.m.Redis, string(s.name)), Notifier: s.notifier,
		Keep: true}
}

// submit submits rows as a run, with the bad ones left out.
func (s *site) submit(id, kind, rows string, change ...func(*ledger.NewRun)) {
	s.t.Helper()
	seed(s.t, id)
	run := ledger.NewRun{ID: ledger.RunID(id), Tenant: s.name}
	for _, f := range change {
		f(&run)
	}
	in := intake.Input{Name: id, Kind: kind, Rows: strings.NewReader(rows), SkipInvalid: true}
	_, err := s.intake().Submit(s.t.Context(), in, run)
	must(s.t, err)
}

// work executes all rows that are due, one task after the other, and finishes the runs that have
// ended.
func (s *site) work() {
	s.t.Helper()
	ctx := s.t.Context()
	if s.engine == nil {
		s.start()
	}
	for executed := true; executed; {
		executed = false
		due, err := s.m.Ledger.TakeDue(ctx, s.name, 100)
		must(s.t, err)
		for _, seg := range due.Segments {
			if s.execute(seg) {
				executed = true
			}
		}
		for _, id := range due.Ended {
			s.finish(id)
		}
		must(s.t, s.m.Ledger.Recall(ctx, s.name))
	}
}

// execute executes the due rows of a segment, and reports whether there were any.
func (s *site) execute(seg ledger.Segment) bool {
	s.t.Helper()
	ctx := s.t.Context()
	seed(s.t, fmt.Sprint(seg.Run, seg.Number, time.Now()))
	run, err := s.m.Ledger.Run(ctx, seg.Tenant, seg.Run)
	must(s.t, err)
	if seg.Number == ledger.ScanSegment {
		run.Kind = ledger.ScanOf(run.Kind)
	}
	released, err := s.m.Ledger.Release(ctx, seg, ledger.Quota{First: 100, Check: 100, Ready: 100})
	must(s.t, err)
	size := 1
	if run.Kind == handlers.Remove { // the rows of one organization make one task
		size = len(released.Rows)
	}
	if len(released.Rows) == 0 {
		return false
	}
	for rows := range slices.Chunk(released.Rows, size) {
		task := engine.NewTask(run, seg, released.Token, rows...)
		payload, err := task.Marshal()
		must(s.t, err)
		_ = s.engine.ProcessTask(ctx, asynq.NewTask(string(task.Kind), payload)) // the error is in the ledger too
	}
	return true
}

// finish carries out the follow-ups of a run's end, as a worker does.
func (s *site) finish(id ledger.RunID) {
	s.t.Helper()
	ctx := s.t.Context()
	run, err := s.m.Ledger.Run(ctx, s.name, id)
	must(s.t, err)
	if !run.Single {
		s.follow(ctx, run)
	}
	must(s.t, s.m.Ledger.Finish(ctx, s.name, id))
}

// follow concludes a sweep, and records and notifies the end of a run.
func (s *site) follow(ctx context.Context, run ledger.Run) {
	s.t.Helper()
	entry := activity.OfRun(run.Tenant, run.ID, activity.Ended, status.Counts(run))
	if run.Kind == handlers.Recheck && run.Scan != nil && !run.Cancelled {
		var progress progress.Scan
		must(s.t, json.Unmarshal(run.Scan.Progress, &progress))
		states := s.states()
		must(s.t, states.Conclude(ctx, string(run.ID), progress))
		summary, _, err := states.Summary(ctx)
		must(s.t, err)
		entry.Action = activity.SweepCompleted
		entry.Result = fmt.Sprintf("%d domains, %d lost, %d unknown", summary.Domains(), summary.Lost, summary.Unknown)
	}
	if s.notifier != nil {
		counts := map[string]int64{}
		for outcome, n := range run.Counts {
			counts[string(outcome)] = n
		}
		must(s.t, s.notifier.Notify(ctx, events.Event{
			ID: fmt.Sprintf("run-%s-%d", run.ID, run.EndedAt.Unix()), Type: events.RunFinished, At: run.EndedAt,
			Data: events.Data{Tenant: string(run.Tenant), Run: string(run.ID), Kind: string(run.Kind), Counts: counts},
		}))
	}
	s.author(worker).Record(ctx, entry)
}
