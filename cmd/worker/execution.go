package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/health"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/meters"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/release"
	"orgops/internal/rowfile"
	"orgops/internal/scan"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/workers"
	"orgops/tasks"
	"orgops/tasks/handlers"
	"orgops/tasks/releases"
)

// newExecution sets the engine and dispatcher of a tenant, not started, and returns the queue of
// its tasks.
func (w *worker) newExecution(t *served, notifier events.Notifier) (queues.Queue, error) {
	name := ledger.Tenant(t.Name)
	executed := w.handlers(t, notifier)
	released := releases.Kinds(t.MaxClientsPerRequest)
	if err := checkKinds(executed, released); err != nil {
		return queues.Queue{}, err
	}
	t.engine = engine.New(engine.Config{
		Tenant: name, Ledger: w.ledger, Session: w.session, Handlers: executed, Stopping: t.stopping,
		Block: func(ctx context.Context, operation, reason string, fault apiclient.Fault) error {
			return t.limiter.Block(ctx, operation, reason, t.Remedy(fault))
		},
		Requested: func(run ledger.RunID) { w.meters.Requested(t.Name, string(run)) },
		Alone:     &w.alone, Logger: w.logger, ClocksDiffer: health.ClockWrong,
		Observe: func(ctx context.Context, kind ledger.Kind, outcome ledger.Outcome, rows int, took time.Duration) {
			w.metrics.Task(t.Name, metricType(kind), string(outcome), took)
			w.meterRows(t.Name, outcome, rows)
			w.traces.Ended(ctx, string(outcome))
		},
	})
	places := rowPlaces(t.Limit.Rate)
	queue := queues.OfRows(t.Name)
	// The commands of the dispatcher end with their contexts, apart from
	// those that enqueue events, so that a worker whose Redis is down can stop.
	own := ledger.New(w.permits)
	states := &sweep.States{Tenant: t.Name, Store: sweep.NewStore(w.permits, t.Name), Notifier: notifier}
	t.dispatcher = dispatch.New(dispatch.Config{
		Tenant: name, Ledger: own, Redis: w.permits, Queue: queue, Session: w.session, Protocol: engine.Protocol,
		Places: places, Place: func() workers.Place { return w.order.Place(name) },
		Kinds: released, Pace: t.limiter.State, Rate: perSecond(t.Limit), Logger: w.logger,
		Ahead: func() time.Duration { return t.limiter.Ahead(pace.Finish) },
		Ended: func(ctx context.Context, run ledger.Run) error {
			return afterEnd(ctx, states, notifier, w.author("worker"), run)
		},
		Reclaimed: func(ctx context.Context, all []ledger.Reclaimed) {
			if err := actions.RecordReclaimed(ctx, w.author("worker"), name, all); err != nil {
				t.logger.WarnContext(ctx, "death of a worker perhaps recorded twice", "error", err)
			}
		},
		Enqueued: func() { w.queues.Wake(queue) },
	})
	return queues.Queue{Name: queue, Tenant: t.Name, Config: engine.ServerConfig(places),
		Handler: w.traces.Traced(t.engine), Full: fullAt}, nil
}

// checkKinds returns an error that names each place in which a kind is missing. The rows of a kind
// that is not released would wait for ever, and those of one without a handler would be given back
// every five seconds, while the worker is ready.
func checkKinds(executed map[ledger.Kind]engine.Handler, released map[ledger.Kind]release.Kind) error {
	var missing []error
	for _, kind := range tasks.All() {
		if _, ok := released[ledger.Kind(kind.Name)]; !ok {
			missing = append(missing, fmt.Errorf("kind %s is described in package tasks and not released: add it to "+
				"Kinds in tasks/releases/releases.go", kind.Name))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(released)) {
		if executed[kind] == nil {
			missing = append(missing, fmt.Errorf("kind %s is released and has no handler: add it to handlers in "+
				"cmd/worker/execution.go, or a scan to Handlers in internal/scan/handler.go", kind))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(executed)) {
		if _, ok := released[kind]; !ok {
			missing = append(missing, fmt.Errorf("kind %s has a handler and is not released: add it to Kinds in "+
				"tasks/releases/releases.go", kind))
		}
	}
	return errors.Join(missing...)
}

// meterRows counts rows that an execution has settled, for the plots of the pages.
func (w *worker) meterRows(tenant string, outcome ledger.Outcome, rows int) {
	switch {
	case ledger.Succeeded(outcome):
		w.meters.Add(tenant, meters.Good, int64(rows))
	case ledger.Settles(outcome):
		w.meters.Add(tenant, meters.Failed, int64(rows))
	}
}

// revokeConcurrency is how many revocations query DNS at a time: each queries all servers twice.
const revokeConcurrency = 4

// sweepConcurrency is how many DNS checks of sweeps run at a time, apart from those of
// submitted rows.
const sweepConcurrency = 100

// fullAt is how many tasks of a tenant a worker has when the next worker serves the tenant too:
// as many as the checks of slow zones in a sweep, which have the fewest places.
const fullAt = sweepConcurrency / 2

// rowPlaces is how many tasks with rows run at a time. DNS checks, which may wait seconds for
// name servers that do not answer, have [dnsConcurrency] of them, and those of sweeps
// [sweepConcurrency], so that as many are left for tasks that need the API as in a worker without
// DNS checks. The dispatcher fills places and starts of a second: a check that finds no place
// starts, and makes room, at once.
func rowPlaces(rate pace.Rate) int { return dnsConcurrency + sweepConcurrency + apiConcurrency(rate) }

func (w *worker) handlers(t *served, notifier events.Notifier) map[ledger.Kind]engine.Handler {
	// What the handlers of domains share.
	name := ledger.Tenant(t.Name)
	logger := w.logger.With("tenant", t.Name)
	timeout := t.api.Timeout()
	dns := observedDNS{t.dns, t.disprover, w, t.Name}
	domains := func(b apiclient.Binding) handlers.Domains { return t.api.For(b) }
	states := &sweep.States{Tenant: t.Name, Store: sweep.NewStore(w.redis, t.Name), Notifier: notifier,
		Keep: t.Cron.String() != ""}
	verify := handlers.VerifyConfig{
		API: domains, List: func(b apiclient.Binding) handlers.DomainList { return t.api.For(b) },
		Named: index.NamedIn(w.ledger, name), DNS: dns, Line: t.limiter,
		RequestTimeout: timeout, GiveUp: time.Duration(t.GiveUp),
		Places: handlers.NewPlaces(dnsConcurrency, dnsConcurrency/2),
		Notify: handlers.NotifyStates(states, w.author("worker")), Item: w.ledger.ItemOf, Logger: logger,
		Notice: states.NoticeRead,
	}

	// Sweeps have places of their own, so that they hold up no customer.
	swept := verify
	swept.Places = handlers.NewPlaces(sweepConcurrency, sweepConcurrency/2)

	// The kinds.
	all := map[ledger.Kind]engine.Handler{
		handlers.Verify: handlers.NewVerify(verify),
		handlers.Read:   handlers.NewRead(verify),
		handlers.Update: handlers.NewUpdate(handlers.UpdateConfig{API: domains, States: states, RequestTimeout: timeout,
			AllowUnproven: t.AllowUnproven}),
		handlers.Remove: handlers.NewRemove(handlers.RemoveConfig{
			API:                  func(b apiclient.Binding) handlers.Clients { return t.api.For(b) },
			MaxClientsPerRequest: t.MaxClientsPerRequest,
			Limit:                pace.NewClientLimit(w.redis, t.Name), Logger: logger,
			Observe: func(clients int) { w.metrics.ClientsPerRequest(t.Name, clients) },
		}),
		handlers.Create: handlers.NewCreate(handlers.CreateConfig{
			API: func(b apiclient.Binding) handlers.Templates { return t.api.For(b) }, RequestTimeout: timeout}),
		handlers.Recheck: handlers.NewRecheck(handlers.RecheckConfig{
			Verify: swept, Tenant: name, States: states, Rules: t.Rules(), Operators: dns,
			Submit: submitRow(w.ledger, name),
		}),
		handlers.Revoke: handlers.NewRevoke(handlers.RevokeConfig{
			API: domains, DNS: dns, States: states, Rules: t.Rules(),
			Places:         handlers.NewPlaces(revokeConcurrency, revokeConcurrency),
			NoServers:      t.OnLoopback() && t.Mode == dnscheck.ModeResolvers,
			RequestTimeout: timeout, Logger: logger, By: w.author("worker"),
		}),
	}
	maps.Copy(all, scan.Handlers(scan.Config{
		API: func(b apiclient.Binding) scan.API { return t.api.For(b) }, States: states.Store, Lists: w.ledger,
		Protected: func(organization string) bool { return slices.Contains(t.Protect, organization) }, Logger: logger,
	}))
	return all
}

// ownKeptFor is how long single rows of handlers are stored after their end: each sweep may have
// another one of the same domain.
const ownKeptFor = 7 * 24 * time.Hour

func submitRow(l *ledger.Ledger, t ledger.Tenant) func(context.Context, handlers.OneRow) error {
	return func(ctx context.Context, r handlers.OneRow) error {
		_, _, err := l.SubmitRow(ctx, ledger.NewRun{
			ID: r.ID, Tenant: t, Kind: r.Kind, Description: ledger.Description{Format: rowfile.FormatJSONL, KeepFor: ownKeptFor},
		}, r.Content)
		return err
	}
}

func perSecond(limit pace.Limit) func() float64 {
	rate, _ := limit.Effective()
	if rate.IsUnlimited() {
		return func() float64 { return math.Inf(1) }
	}
	return rate.PerSecond
}

// metricType returns the name of a kind as a label, which has only names that are known
// here.
func metricType(k ledger.Kind) string {
	if _, ok := tasks.KindOf(strings.TrimSuffix(string(k), string(ledger.ScanOf("")))); ok {
		return string(k)
	}
	return "unknown"
}

// about returns the life of this process, as the ledger shows it.
func (w *worker) about() ledger.Session {
	s := ledger.Session{ID: w.session, Version: build.Version, Host: w.host, Protocol: engine.Protocol, Started: w.started,
		Refused: w.file != nil && w.file.refused.Load(), Kinds: slices.Sorted(maps.Keys(releases.Kinds(1)))}
	if w.clock.Load() != nil {
		return s // it executes nothing
	}
	for _, t := range w.tenants() {
		s.Tenants = append(s.Tenants, ledger.Tenant(t.Name))
		s.Busy += t.engine.Running()
		s.Places += rowPlaces(t.Limit.Rate)
	}
	return s
}

// beginSession registers the session and keeps it alive until the function that it
// returns is called. No execution may begin before.
func (w *worker) beginSession(ctx context.Context) (end func(), err error) {
	// It outlives ctx: rows are executed until the servers are shut down.
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	registered, ended := engine.KeepSession(alive, w, w.about, w.logger)
	started := false
	end = func() {
		cancel()
		<-ended
		if w.endSession() && started {
			w.recordLife(ctx, activity.WorkerStopped)
		}
	}
	select {
	case <-registered:
		w.recordLife(ctx, activity.WorkerStarted)
		started = true
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// recordLife records in the activity of each tenant of this worker that it has started or stopped.
// A Redis that does not answer ends it. ctx may have ended.
func (w *worker) recordLife(ctx context.Context, action activity.Action) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	result := fmt.Sprintf("worker %s on %s, version %s", w.session, cmp.Or(w.host, "an unknown host"), build.Version)
	for _, t := range w.tenants() {
		if ctx.Err() != nil {
			return
		}
		w.author("worker").Record(ctx, activity.Entry{Tenant: t.Name, Action: action, Result: result})
	}
}

// lastWrites bounds the writes of a worker to the ledger after its tasks have ended.
const lastWrites = 3 * time.Second

// endSession gives back the rows that are still in progress, and ends the session. It reports
// whether Redis has stored that.
func (w *worker) endSession() bool {
	ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
	defer cancel()
	var failed []error
	for _, t := range w.tenants() {
		failed = append(failed, t.engine.GiveBack(ctx))
	}
	failed = append(failed, ledger.New(w.permits).EndSession(ctx, w.session)) // ends with ctx
	if err := errors.Join(failed...); err != nil {
		w.logger.Warn("session not ended: its rows are due in 15 s", "error", err)
		return false
	}
	return true
}

// afterEnd stores the summary of a complete sweep, and notifies and records that a run has ended,
// unless lists leave it out. To repeat it is harmless.
func afterEnd(ctx context.Context, states *sweep.States, notifier events.Notifier, by activity.Author,
	run ledger.Run) error {
	if run.Single {
		return nil
	}
	e := activity.OfRun(run.Tenant, run.ID, activity.Ended, status.Counts(run))
	if run.Kind == handlers.Recheck && run.Scan != nil && !run.Cancelled {
		var progress progress.Scan
		if err := json.Unmarshal(run.Scan.Progress, &progress); err != nil {
			return fmt.Errorf("sweep %s: read its progress: %w", run.ID, err)
		}
		if err := states.Conclude(ctx, string(run.ID), progress); err != nil {
			return err
		}
		if s, _, err := states.Summary(ctx); err == nil && s.Run == string(run.ID) {
			e.Action = activity.SweepCompleted
			e.Result = fmt.Sprintf("%d domains, %d lost, %d unknown", s.Domains(), s.Lost, s.Unknown)
		}
	}
	err := notifier.Notify(ctx, endOf(run))
	if err == nil {
		by.Record(ctx, e)
	}
	return err
}

func endOf(run ledger.Run) events.Event {
	data := events.Data{Tenant: string(run.Tenant), Run: string(run.ID), Kind: string(run.Kind),
		Counts: map[string]int64{}}
	for outcome, n := range run.Counts {
		data.Counts[string(outcome)] = n
	}
	return events.Event{ID: fmt.Sprintf("run-%s-%d", run.ID, run.EndedAt.Unix()), Type: events.RunFinished,
		At: run.EndedAt, Data: data}
}

// observedDNS counts and traces the verdicts of a tenant's checkers.
type observedDNS struct {
	*dnscheck.Checker
	disprover *dnscheck.Checker
	worker    *worker
	tenant    string
}

// Check implements handlers.DNS, with Prove and Disprove.
func (d observedDNS) Check(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "check", d.Checker.Check, host, token)
}

func (d observedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "prove", d.Checker.Prove, host, token)
}

func (d observedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "disprove", d.disprover.Disprove, host, token)
}

func (d observedDNS) observe(ctx context.Context, span string,
	check func(ctx context.Context, host, token string) (dnscheck.Verdict, error),
	host, token string) (dnscheck.Verdict, error) {
	ctx, traced := d.worker.traces.DNS(ctx, span)
	v, err := check(ctx, host, token)
	v = d.worker.network.Last().Explain(v)
	traced(v, err)
	if err == nil {
		d.worker.metrics.Verdict(d.tenant, v.State.String(), string(v.Reason))
		d.worker.meters.Add(d.tenant, meters.Unknown+meters.Series(v.State), 1) // of the same order
	}
	return v, err
}

// dnsConcurrency is how many DNS checks run at a time. Most wait for servers that do not answer:
// 2 s each at the name servers, or 6 s at the resolvers in mode resolvers, over UDP and then TCP,
// which costs little (dnscheck has a test of both). Ten such checks a second, and as many that are
// repeated, hold 120 places at most; the rest is for the others, which take milliseconds.
const dnsConcurrency = 250

// apiConcurrency is how many tasks that send requests run at a time: as many as are in progress
// when requests of 2 s use the whole rate, and a few more.
func apiConcurrency(rate pace.Rate) int {
	const latency, few, most = 2, 8, 200
	if rate.IsUnlimited() {
		return most / 2
	}
	return min(int(math.Ceil(rate.PerSecond()*latency))+few, most)
}
