package console

import (
	"log/slog"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/customer"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/web"
	"orgops/internal/webhooks"
)

// Config configures the pages.
type Config struct {
	// Redis, Ledger and Intake are those of [view.Config]. Redis has the queues of asynqmon, too.
	Redis  redis.UniversalClient
	Ledger *ledger.Ledger
	Intake intake.Intake
	// Tenants returns those of this worker, which may change; nil: there are none. The runs
	// of other tenants are shown too, without the data that only a worker of theirs has.
	Tenants func() []Tenant
	// Faults returns the known faults of this worker's settings and of the data in Redis; nil: there
	// are none.
	Faults func() []health.Finding
	// Links makes the links to customers' pages; nil: none are made.
	Links *customer.Links
	// Access has the users; Proxy names them instead; Hosts are the pages' names: see [web.Front].
	Access *web.Access
	Proxy  web.Proxy
	Hosts  []string
	// Unsigned is the role of everyone if there is neither.
	Unsigned web.Role
	Version  string
	Logger   *slog.Logger
}

// Tenant is a tenant of this worker. The requests of its API wait for their permits.
type Tenant struct {
	health.Served

	Network  func() dnscheck.Network // the way to name servers; nil: none is asked
	Errors   *APIErrors              // the last errors of the API; nil: unknown
	Webhooks []webhooks.Endpoint
}
