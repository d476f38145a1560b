package handlers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"orgops/apiclient"
	"orgops/internal/enginetest"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const (
	tenant = enginetest.Tenant
	org    = "org_1"
)

// site is a tenant with its ledger and its API.
type site struct {
	*enginetest.Site
	t       *testing.T
	sandbox *sandbox.Sandbox
	api     *apiclient.Client
	points  int // before and after the calls of executions, so far
	on      func(point string)
}

func newSite(t *testing.T, change ...func(*sandbox.Options)) *site {
	t.Helper()
	s := &site{Site: enginetest.New(t), t: t, on: func(string) {}}
	options := sandbox.Options{Seed: 1}
	for _, f := range change {
		f(&options)
	}
	sb, err := sandbox.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	s.sandbox = sb
	s.api = s.client(nil)
	return s
}

// client returns a client of the tenant.
func (s *site) client(gate apiclient.Gate) *apiclient.Client {
	s.t.Helper()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: s.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(s.sandbox.Token())), Gate: gate,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.CloseIdle)
	return client
}

// gated returns the domains of a client whose requests get their permits after something has
// happened.
func (s *site) gated(meanwhile func()) func(apiclient.Binding) handlers.Domains {
	s.t.Helper()
	return domainsOf(s.client(slowGate{meanwhile}))
}

// domainsOf returns the domains as clients that are bound to executions reach them.
func domainsOf(c *apiclient.Client) func(apiclient.Binding) handlers.Domains {
	return func(b apiclient.Binding) handlers.Domains { return c.For(b) }
}

type slowGate struct{ meanwhile func() }

func (g slowGate) Wait(context.Context, apiclient.Request) error {
	g.meanwhile()
	return nil
}

func (slowGate) Answered(context.Context, string, int, http.Header, time.Duration) {}

// requests returns the methods of the API's requests, in their order.
func (s *site) requests() (methods []string) {
	for _, r := range s.sandbox.Requests() {
		if r.Operation != sandbox.OpToken {
			methods = append(methods, r.Method)
		}
	}
	return methods
}
