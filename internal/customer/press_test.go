package customer

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// noQueue is the wait of a request for its permit: none.
type noQueue struct{}

func (noQueue) Ahead(pace.Class) time.Duration { return 0 }

// briefAPI keeps no connection between requests: see [redistest.InBubble].
type briefAPI struct{ *apiclient.Client }

// DiscoveryDomain implements [handlers.Domains].
func (a briefAPI) DiscoveryDomain(ctx context.Context, organization, domain string) (schema.DiscoveryDomain, error) {
	defer a.CloseIdle()
	return a.Client.DiscoveryDomain(ctx, organization, domain)
}

// UpdateDiscoveryDomain implements [handlers.Domains].
func (a briefAPI) UpdateDiscoveryDomain(ctx context.Context, organization, domain string,
	u schema.DiscoveryDomainUpdate, intent apiclient.Intent) (schema.DiscoveryDomain, error) {
	defer a.CloseIdle()
	return a.Client.UpdateDiscoveryDomain(ctx, organization, domain, u, intent)
}

// verifying is a worker that executes rows of one kind, and an API with its DNS.
type verifying struct {
	*enginetest.Site

	box    *sandbox.Sandbox
	domain sandbox.Domain
	worker *engine.Engine
}

// newVerifying returns a worker with a row of the domain of the world.
func newVerifying(t *testing.T, out *redistest.Outside) *verifying {
	t.Helper()
	v := &verifying{Site: enginetest.New(t)}
	var err error
	var token string // of the real time, as the API reads it
	out.Do(func() {
		if v.box, err = sandbox.Start(sandbox.Options{Seed: 1}); err == nil {
			token = v.box.Token()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Do(func() { _ = v.box.Close() }) })
	v.box.AddOrganization("org_1", "one")
	v.domain = v.box.AddDomain("org_1", sandbox.Domain{ID: "ord_1", Domain: "acme.example"})

	client, err := apiclient.New(apiclient.Config{BaseURL: v.box.BaseURL(),
		Tokens: apiclient.StaticToken(apiclient.NewSecret(token))})
	if err != nil {
		t.Fatal(err)
	}
	config := dnscheck.Config{Timeout: enginetest.Patience}
	for _, addr := range v.box.DNSAddrs() {
		r, err := dnscheck.ParseResolver(addr)
		if err != nil {
			t.Fatal(err)
		}
		config.Resolvers = append(config.Resolvers, r)
	}
	checker, err := dnscheck.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(checker.Close)
	verify := handlers.NewVerify(handlers.VerifyConfig{
		API: func(b apiclient.Binding) handlers.Domains { return briefAPI{client.For(b)} },
		DNS: checker, Line: noQueue{}, RequestTimeout: 30 * time.Second, GiveUp: 72 * time.Hour,
	})
	v.worker, _ = v.Worker(func(c *engine.Config) {
		c.Handlers = map[ledger.Kind]engine.Handler{handlers.Verify: verify}
	})

	row, err := json.Marshal(tasks.VerifyRow{OrganizationID: "org_1", DiscoveryDomainID: "ord_1"})
	if err != nil {
		t.Fatal(err)
	}
	v.SubmitAs("verified", handlers.Verify, string(row))
	return v
}

// execute executes the row, which is due, until it waits for a time or is settled.
func (v *verifying) execute(t *testing.T) {
	t.Helper()
	task := v.NextTask()
	if task == nil {
		t.Fatal("the row is not due")
	}
	for ; task != nil; task = v.NextTask() {
		_ = v.worker.ProcessTask(t.Context(), task)
	}
}

// TestCheckAgainAfterACorrection has a customer press Check now, correct the record once that check
// has read it, and press again in the same minute: the page says when the record is checked again,
// and that check verifies the domain, though the row by itself would wait much longer.
func TestCheckAgainAfterACorrection(t *testing.T) {
	redistest.InBubble(t, func(t *testing.T, out *redistest.Outside) {
		if out == nil {
			t.Skip("in real time it takes a minute")
		}
		w := newWorld(t, PageSettings{})
		rows := newVerifying(t, out)
		rows.box.SetTXT(rows.domain.Host, rows.domain.TXT+"x")
		for time.Until(rows.Row(0).Due) < 50*time.Minute {
			time.Sleep(time.Until(rows.Row(0).Due))
			rows.execute(t)
		}
		token := w.link(24 * time.Hour)
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 10*time.Second)))
		minute := time.Now().Truncate(time.Minute).Add(time.Minute)

		w.do("POST", "/"+token).want(t, 200, "The record is checked now.")
		rows.execute(t)
		w.do("GET", "/"+token).want(t, 200, "enter the expected value alone")
		rows.box.SetTXT(rows.domain.Host, rows.domain.TXT)
		again := "It is checked again on <time datetime=\"" + minute.UTC().Format(time.RFC3339)
		for range 3 {
			w.do("POST", "/"+token).want(t, 200, again)
			w.do("GET", "/"+token).want(t, 200, "<strong>Next check</strong>: by itself on <time datetime=\""+
				minute.UTC().Format(time.RFC3339))
		}
		if task := rows.NextTask(); task != nil {
			t.Error("the row is checked twice in a minute")
		}
		time.Sleep(time.Until(minute))
		rows.execute(t)
		w.do("GET", "/"+token).want(t, 200, "acme.example is verified")
	})
}
