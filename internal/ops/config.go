package ops

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/internal/tenant"
)

// Config is what the pages and the probes show.
type Config struct {
	// Redis is where the queues are; it is never closed. Needed by Pages only. Its
	// commands have to end with their contexts (redisconn.Open), and so have Ledger's:
	// a page that nobody waits for any more is not to go on reading.
	Redis redis.UniversalClient
	// Metrics is what /metrics serves; nil makes it answer 404.
	Metrics *Metrics
	// Ready tells how everything is that the worker needs, such as Readiness.Checks;
	// ctx ends after 3 s. Nil: ready as soon as it answers.
	Ready func(ctx context.Context) []Check
	// Ledger and Intake are where runs are read, and acted on; needed by Pages only.
	Ledger *runs.Ledger
	Intake intake.Intake
	// Tenants are those that this worker works for; the pages of others' runs are
	// shown too, but not what only a worker of theirs can tell.
	Tenants []Tenant
	// Access says who may look at the pages.
	Access Access
	// Write lets the pages act: cancel, retry, and the like. They only show otherwise.
	Write bool
	// Version is told by pages and probes.
	Version string
	// Logger is told of refused requests; nil: nobody.
	Logger *slog.Logger
}

// Tenant is what the pages show of a tenant, and what they look with.
type Tenant struct {
	Name     string
	Settings tenant.Announced  // as announced to producers
	API      *apiclient.Client // for records; its requests wait for their permits
	DNS      *dnscheck.Checker
	DNSMode  string     // whom it asks: auto, authority or resolvers
	Quorum   int        // how many resolvers have to agree
	Reach    *Reach     // whether name servers can be reached; nil: nobody says
	Errors   *APIErrors // of the API, of late; nil: nobody says
	Webhooks []Receiver
}

// Receiver is told of a tenant's events: its name, and the scheme, host and port of
// its URL, which may have a token behind them.
type Receiver struct{ Name, Origin string }

// Check is one thing that the worker needs.
type Check struct {
	// Name is a word or two: "redis", "tenant acme".
	Name string
	// Err says what is wrong, in words for an operator; nil if nothing is.
	Err error
	// Note says what an operator should know though it works; may be empty.
	Note string
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
