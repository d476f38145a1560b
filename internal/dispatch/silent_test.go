package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/tasks"
	"orgops/tasks/handlers"
	"orgops/tasks/releases"
)

// silentDNS is the name servers and resolvers of a zone that do not answer: a check takes 8 s,
// more than any does.
type silentDNS struct{}

func (silentDNS) Check(ctx context.Context, host, _ string) (dnscheck.Verdict, error) {
	err := engine.Sleep(ctx, 8*time.Second)
	return dnscheck.Verdict{State: dnscheck.Unknown, Reason: dnscheck.ReasonTimeout, Host: host}, err
}

func (d silentDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.Check(ctx, host, token)
}

func (silentDNS) Diagnose(context.Context, string, string, string, dnscheck.Verdict) (d report.Diagnosis, err error) {
	return d, nil
}

// pendingDomains is an API whose domains are all pending.
type pendingDomains struct{}

func (pendingDomains) DiscoveryDomain(_ context.Context, _, domain string) (schema.DiscoveryDomain, error) {
	return schema.DiscoveryDomain{ID: domain, Domain: "customer.example", Status: schema.StatusPending,
		VerificationHost: "_check.customer.example", VerificationTXT: "token"}, nil
}

func (pendingDomains) UpdateDiscoveryDomain(context.Context, string, string,
	schema.DiscoveryDomainUpdate, apiclient.Intent) (schema.DiscoveryDomain, error) {
	return schema.DiscoveryDomain{}, fmt.Errorf("nothing was proven")
}

// noLine is the line of a tenant whose requests do not wait for permits.
type noLine struct{}

func (noLine) Ahead(pace.Class) time.Duration { return 0 }

// TestSilentZonesOfOneTenant has a worker serve ten tenants. If one of them has 600 rows of zones
// that do not answer, single rows of the others wait at most twice as long for their execution.
func TestSilentZonesOfOneTenant(t *testing.T) {
	t.Parallel()
	without, with := waitOfNine(t, false), waitOfNine(t, true)
	t.Logf("p99 %v, with silent zones of another tenant %v", without, with)
	if with > 2*without {
		t.Errorf("99 of 100 rows wait up to %v, without the silent zones of another tenant %v", with, without)
	}
}

// waitOfNine returns the time for which the slowest of a hundred rows of nine tenants waits.
func waitOfNine(t *testing.T, silent bool) (p99 time.Duration) {
	redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
		redistest.Mini(t) // on a real one the machine has its part in the waits
		const single ledger.Kind = "single"
		const rows, places = 180, 450 // as those of cmd/worker
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		rdb, forServer := redistest.Open(t), redistest.ForServer(t)
		l, log := ledger.New(rdb), slog.New(slog.DiscardHandler)
		session := ledger.Session{ID: ledger.NewSessionID(), Version: "test", Protocol: engine.Protocol}
		registered, ended := engine.KeepSession(ctx, l, func() ledger.Session { return session }, log)
		<-registered
		servers := queues.New(queues.Config{Redis: rdb, Servers: forServer, ShutdownTimeout: time.Second, Logger: log})
		parts.Go(func() { servers.Run(ctx) })
		var mu sync.Mutex
		var waits []time.Duration
		stopping, wake := make(chan struct{}), map[ledger.Tenant]func(){}
		var shutdown []func()
		for i := range 10 {
			name := ledger.Tenant(fmt.Sprint("tenant-", i))
			e := engine.New(engine.Config{Tenant: name, Ledger: ledger.New(forServer), Session: session.ID, Stopping: stopping,
				Handlers: map[ledger.Kind]engine.Handler{
					handlers.Verify: handlers.NewVerify(handlers.VerifyConfig{
						API: func(apiclient.Binding) handlers.Domains { return pendingDomains{} }, DNS: silentDNS{}, Line: noLine{},
						RequestTimeout: time.Second, GiveUp: 72 * time.Hour, Places: handlers.NewPlaces(250, 125)}),
					single: engine.One(func(_ context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
						mu.Lock()
						defer mu.Unlock()
						waits = append(waits, x.Now().Sub(x.Submitted))
						return engine.Settle(ledger.Result{})
					}),
				}})
			queue, kinds := queues.OfRows(string(name)), releases.Kinds(1)
			kinds[single] = release.Kind{Cost: release.Cost{First: 1, Check: 1, Ready: 1}}
			config := engine.ServerConfig(places)
			config.TaskCheckInterval = 50 * time.Millisecond // fewer polls than usual, which take the test's time
			servers.Add(queues.Queue{Name: queue, Tenant: string(name), Config: config, Handler: e})
			d := dispatch.New(dispatch.Config{Tenant: name, Ledger: l, Redis: rdb, Queue: queue, Session: session.ID,
				Protocol: engine.Protocol, Places: places, Kinds: kinds, Rate: func() float64 { return 50 },
				Enqueued: func() { servers.Wake(queue) }})
			wake[name] = d.Wake
			parts.Go(func() { d.Run(ctx) })
			shutdown = append(shutdown, func() { servers.Remove(queue)() })
		}
		if silent {
			submitSilent(t, l, "tenant-0", 600)
			time.Sleep(10 * time.Second)
		}
		for i := range rows {
			name := ledger.Tenant(fmt.Sprint("tenant-", 1+i%9))
			id := ledger.RunID(fmt.Sprint("row-", i))
			if _, _, err := l.SubmitRow(ctx, ledger.NewRun{ID: id, Tenant: name, Kind: single}, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			wake[name]()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		close(stopping)
		for _, f := range shutdown {
			f()
		}
		cancel()
		parts.Wait()
		<-ended
		if slices.Sort(waits); len(waits) != rows {
			t.Fatalf("%d rows were executed, want %d", len(waits), rows)
		}
		p99 = waits[len(waits)*99/100]
	})
	return p99
}

// submitSilent submits a run of domains.
func submitSilent(t *testing.T, l *ledger.Ledger, name ledger.Tenant, n int) {
	t.Helper()
	run, _, err := l.Create(t.Context(), ledger.NewRun{ID: "silent", Tenant: name, Kind: handlers.Verify})
	if err != nil {
		t.Fatal(err)
	}
	stager, err := l.NewStager(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		row, err := json.Marshal(tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: fmt.Sprint("dom_", i)})
		if err == nil {
			err = stager.Add(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stager.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
