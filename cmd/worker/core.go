package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/engine/kinds"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

// core executes the rows of a tenant that a dispatcher releases, that of this worker or
// of another.
type core struct {
	engine     *engine.Engine
	handler    asynq.Handler // the engine, traced
	server     *asynq.Server
	dispatcher *dispatch.Dispatcher
}

// newCore returns the core of a tenant, not started.
func (w *worker) newCore(t tenant, api *apiclient.Client, limiter *pace.Limiter, cfg tasks.Config) *core {
	name, ended := ledger.Tenant(t.Name), w.traces.Ended()
	c := &core{}
	c.engine = engine.New(engine.Config{
		Tenant: name, Ledger: w.ledger.Core(), Session: w.session, Handlers: w.handlers(t, api, limiter, cfg), Stopping: w.stopping, Block: limiter.Block, Logger: w.logger,
		Observe: func(ctx context.Context, kind ledger.Kind, outcome ledger.Outcome, _ int, took time.Duration) {
			w.metrics.Task(t.Name, metricType(kind), string(outcome), took)
			if ended != nil {
				ended(ctx, string(outcome))
			}
		},
	})
	c.handler = c.engine
	if traced := w.traces.Middleware(); traced != nil {
		c.handler = traced(c.engine)
	}
	places := corePlaces(t.limit.Rate)
	c.server = engine.NewServer(engine.ServerConfig{Tenant: name, Redis: w.redis, Places: places, ShutdownTimeout: w.settings.ShutdownTimeout, Logger: w.logger})
	// Its commands end with their contexts, so that a worker whose Redis is away can stop.
	c.dispatcher = dispatch.New(dispatch.Config{
		Tenant: name, Ledger: ledger.New(w.permits), Redis: w.permits, Queue: engine.Queue(name), Session: w.session, Protocol: engine.Protocol, Places: places,
		Kinds: released(t.MaxClientsPerRequest, t.TrustPayload), Pace: limiter.State, Rate: perSecond(t.limit), Logger: w.logger,
		Ended: func(ctx context.Context, run ledger.Run) error { return w.tellCoreEnd(ctx, cfg.Notices, run) },
	})
	return c
}

// corePlaces is how many tasks of the core run at a time. DNS checks, which may wait 8 s for
// name servers that do not answer, have [dnsConcurrency] of them, so that as many are left
// for what needs the API as in a worker without DNS checks. The dispatcher fills places and
// starts of a second: a check that finds no place starts, and makes room, at once.
func corePlaces(rate pace.Rate) int { return dnsConcurrency + apiConcurrency(rate) }

// handlers returns the handlers of the kinds of the core.
func (w *worker) handlers(t tenant, api *apiclient.Client, limiter *pace.Limiter, cfg tasks.Config) map[ledger.Kind]engine.Handler {
	return map[ledger.Kind]engine.Handler{
		kinds.Verify: kinds.NewVerify(kinds.VerifyConfig{
			API: api, DNS: cfg.DNS, Line: limiter, RequestTimeout: api.Timeout(), NoReads: t.TrustPayload, ThinProofAfter: cfg.ThinProofAfter,
			Places: kinds.NewPlaces(dnsConcurrency, dnsConcurrency/2), Stopping: w.stopping,
			Notify: func(ctx context.Context, e kinds.DomainEvent) error { return tellDomain(ctx, cfg, e) },
			Item:   w.ledger.ItemOf, Logger: w.logger.With("tenant", t.Name),
		}),
		kinds.Update: kinds.NewUpdate(kinds.UpdateConfig{API: api, RequestTimeout: api.Timeout(), NoReads: t.TrustPayload, AllowUnproven: t.AllowUnproven}),
		kinds.Remove: kinds.NewRemove(kinds.RemoveConfig{
			API: api, MaxClients: t.MaxClientsPerRequest, Limit: pace.NewClientLimit(w.redis, t.Name), Logger: w.logger.With("tenant", t.Name),
			Observe: func(clients int) { w.metrics.ClientsPerRequest(t.Name, clients) },
		}),
		kinds.Create: kinds.NewCreate(kinds.CreateConfig{API: api, RequestTimeout: api.Timeout(), NoReads: t.TrustPayload}),
	}
}

// released returns how rows of the kinds of the core are released.
//
// Each counts as one request, also an update that sets a status without the flag, which
// makes two: a cost that is too high leaves a part of the tenant's rate unused. One that
// is too low only has tasks wait in their places for permits, at most as many as there
// are places.
//
// Operations are those that every row of a kind needs. An update that brings the flag
// needs no read, and would not end the block of the read, so that its run would continue
// with one row every 30 s.
func released(maxClients int, noReads bool) map[ledger.Kind]dispatch.Kind {
	one := dispatch.Cost{First: 1, Check: 1, Ready: 1}
	return map[ledger.Kind]dispatch.Kind{
		kinds.Verify: releasedVerify(noReads),
		kinds.Update: {Operations: dispatch.Always(apiclient.OpUpdateDiscoveryDomain), Cost: one},
		kinds.Remove: {
			Operations: dispatch.Always(apiclient.OpRemoveOrganizationClients), Cost: one,
			Batch: min(maxClients, kinds.MaxRemovals), Group: kinds.RemoveGroup, // a task is a request
		},
		kinds.Create: {Operations: dispatch.Always(apiclient.OpCreateTemplate), Cost: one},
	}
}

// releasedVerify returns how rows of kind [kinds.Verify] are released. The first execution
// reads the record, and changes it if the token is there. It counts as two requests also
// if the token is not: with one, rows whose token is there would wait for permits in their
// places, and read the record once more in the end. A check needs DNS only, and is
// released while operations are blocked.
func releasedVerify(noReads bool) dispatch.Kind {
	read, change := apiclient.OpGetDiscoveryDomain, apiclient.OpUpdateDiscoveryDomain
	if noReads {
		return dispatch.Kind{Operations: dispatch.Operations{Ready: []string{change}}, Cost: dispatch.Cost{First: 1, Ready: 1}}
	}
	return dispatch.Kind{
		Operations: dispatch.Operations{First: []string{read}, Ready: []string{read, change}}, Cost: dispatch.Cost{First: 2, Ready: 2},
	}
}

// perSecond returns the rate by which rows are released.
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
	switch k {
	case kinds.Verify, kinds.Update, kinds.Remove, kinds.Create:
		return string(k)
	}
	return "unknown"
}

// about returns the life of this process, as the ledger shows it.
func (w *worker) about() ledger.Session {
	s := ledger.Session{ID: w.session, Version: version, Protocol: engine.Protocol, Kinds: slices.Sorted(maps.Keys(released(1, false)))}
	for _, t := range w.tenants {
		s.Tenants = append(s.Tenants, ledger.Tenant(t.name))
	}
	return s
}

// beginSession registers the session and keeps it alive until the function that it
// returns is called. No execution may begin before.
func (w *worker) beginSession(ctx context.Context) (end func(), err error) {
	// It outlives ctx: rows are executed until the servers are shut down.
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	registered, ended := engine.KeepSession(alive, w.ledger.Core(), w.about(), w.logger)
	end = func() {
		cancel()
		<-ended
		w.endSession()
	}
	select {
	case <-registered:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// lastWords bounds what a worker writes to the ledger when it has stopped.
const lastWords = 3 * time.Second

// endSession gives back the rows that are still in progress, and ends the session.
func (w *worker) endSession() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	var failed []error
	for _, t := range w.tenants {
		failed = append(failed, t.core.engine.GiveBack(ctx))
	}
	failed = append(failed, ledger.New(w.permits).EndSession(ctx, w.session)) // ends with ctx
	if err := errors.Join(failed...); err != nil {
		w.logger.Warn("session not ended: its rows are due in 15 s", "error", err)
	}
}

// startDispatching runs the dispatchers of all tenants, and the audits of their engines.
// The function that it returns stops them, and waits until the dispatchers have given up
// their leases.
func (w *worker) startDispatching(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	of := map[ledger.Tenant]*dispatch.Dispatcher{}
	for _, t := range w.tenants {
		of[ledger.Tenant(t.name)] = t.core.dispatcher
		all.Go(func() { t.core.dispatcher.Run(ctx) })
		all.Go(func() { t.core.engine.RunAudits(ctx, ledger.New(w.permits)) })
	}
	all.Go(func() {
		w.ledger.Core().Wakes(ctx, func(t ledger.Tenant) {
			if d := of[t]; d != nil {
				d.Wake()
			}
		})
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// start starts fetching tasks.
func (s *served) start() error {
	if err := s.servers.Start(); err != nil {
		return err
	}
	if err := s.core.server.Start(s.core.handler); err != nil {
		return fmt.Errorf("start queue server: %w", err)
	}
	return s.deliverer.start()
}

// stopFetching fetches no more tasks; those in progress continue.
func (s *served) stopFetching() { s.both((*tasks.Servers).Stop, (*asynq.Server).Stop) }

// shutdown waits for the tasks in progress, for the shutdown timeout at most.
func (s *served) shutdown() { s.both((*tasks.Servers).Shutdown, (*asynq.Server).Shutdown) }

// both does something with the old servers, the core's and that of the deliveries at the
// same time: each may wait for its tasks.
func (s *served) both(old func(*tasks.Servers), own func(*asynq.Server)) {
	var all sync.WaitGroup
	all.Go(func() { old(s.servers) })
	all.Go(func() { own(s.core.server) })
	all.Go(func() { own(s.deliverer.server) })
	all.Wait()
}

// tellDomain sends the event of a row of kind [kinds.Verify]. That of a domain which a sweep
// had set to pending says that it is restored.
func tellDomain(ctx context.Context, cfg tasks.Config, e kinds.DomainEvent) error {
	n := tasks.Notice{ID: e.ID, At: e.At, Data: tasks.NoticeData{
		Tenant: cfg.Tenant, OrganizationID: e.OrganizationID, DiscoveryDomainID: e.DiscoveryDomainID, Domain: e.Domain, Run: string(e.Run), Reason: e.Reason,
	}}
	var err error
	switch e.Type {
	case kinds.DomainVerified:
		n.Type = tasks.NoticeVerified
		err = tasks.TellVerified(ctx, cfg, n, e.Evidence)
	case kinds.DomainExpired:
		n.Type = tasks.NoticeExpired
		err = cfg.Notices.Tell(ctx, n)
	default:
		err = fmt.Errorf("unknown event %q", e.Type)
	}
	if j := tasks.Judge(err); j.Outcome == tasks.Paced { // another execution has changed the domain's state meanwhile
		return engine.Later(j.Reason, j.After)
	}
	return err
}

// tellCoreEnd sends the event of the end of a run of the core, but not of a single row.
func (w *worker) tellCoreEnd(ctx context.Context, notices tasks.Notices, run ledger.Run) error {
	if run.Description.Single {
		return nil
	}
	counts, err := w.ledger.Core().Counts(ctx, run) // those of the header are a hint
	if err != nil {
		return err
	}
	ended := runs.Run{ID: string(run.ID), Kind: string(run.Kind), EndedAt: run.EndedAt, Counts: map[string]int64{}}
	for outcome, n := range counts {
		ended.Counts[string(outcome)] = n
	}
	return notices.Tell(ctx, endOf(ended))
}
