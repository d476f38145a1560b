package health

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/internal/untrusted"
)

// Served is a tenant of a running worker.
type Served struct {
	Settings tenant.Settings
	API      *apiclient.Client
	DNS      *dnscheck.Checker
	// AwaitsToken reports whether the worker fetches the token before a request needs it.
	AwaitsToken func() bool
}

// NoToken returns why and since when there is no good token; nil: there is one, or none was needed
// yet.
func (s Served) NoToken() *obstacle.NoToken {
	h := s.API.TokenHealth()
	if h.Err == nil {
		return nil
	}
	return &obstacle.NoToken{Why: remedy.With(h.Err, "%s", s.Settings.Remedy(apiclient.FaultOf(h.Err))), Since: h.Since}
}

// OfWorker returns the checks of /readyz. They take no permit and fetch no token: the token is
// the one that the worker fetched as one of the tenant's first, or that a request needed, and
// only a resolver that has not answered for half a minute is queried. The commands of rdb end
// with their contexts.
//
// A tenant whose credentials do not suffice is not ready, though no restart and no other
// pod fixes it: nothing is routed to a worker by its readiness, and a rollout with
// credentials that do not work has to stop there.
func OfWorker(rdb redis.Cmdable, tenants []Served) *Readiness {
	checks := []Check{tried(rdb)}
	permissions := polled(func(ctx context.Context) []permission { return readPermissions(ctx, rdb, tenants) })
	for i, t := range tenants {
		permitted := func(find func(permission) Finding) func(context.Context) Finding {
			return func(ctx context.Context) Finding {
				all, since := permissions.Get(ctx)
				if !since.IsZero() {
					return unanswered(time.Since(since))
				}
				return find(all[i])
			}
		}
		subject := "tenant " + t.Settings.Tenant
		quorum := t.Settings.ResolverQuorum
		checks = append(checks,
			Check{subject, permitted(func(p permission) Finding { return p.requests })},
			Check{subject + " queue", permitted(func(p permission) Finding { return p.queue })},
			Check{subject + " token", func(context.Context) Finding {
				return Token(t.Settings, t.API.TokenHealth(), t.AwaitsToken())
			}},
			Check{subject + " resolvers", func(ctx context.Context) Finding { return answering(t.DNS.Probe(ctx), quorum) }})
	}
	return NewReadiness(checks...)
}

// OfIntake returns the checks of /readyz of a process that submits rows.
func OfIntake(rdb redis.Cmdable) *Readiness {
	return NewReadiness(tried(rdb), Check{"clock", func(ctx context.Context) Finding {
		return new(node).readClock(ctx, rdb).clock()
	}})
}

// tried is the check that Redis can be worked with: it stores a key, by a script.
func tried(rdb redis.Cmdable) Check {
	return Check{"redis", func(ctx context.Context) Finding {
		if err := redisconn.Ready(ctx, rdb); err != nil {
			return failed(err)
		}
		return failed(redisconn.Try(ctx, rdb, ledger.Commands()...))
	}}
}

// permission is whether the requests of a tenant may be sent, and its rows released.
type permission struct{ requests, queue Finding }

// readPermissions reads those of all tenants together: see [redisconn.Batch].
func readPermissions(ctx context.Context, rdb redis.Cmdable, tenants []Served) []permission {
	all := make([]permission, len(tenants))
	_ = redisconn.Batch(ctx, rdb, len(all), func(i int, rdb redis.Cmdable) error { // each has its errors
		tenant := tenants[i].Settings.Tenant
		budget, err := pace.New(pace.Config{Redis: rdb, Tenant: tenant}).State(ctx)
		all[i].requests = heldBy(obstacle.State{Tenant: tenant, Pace: budget}, err)
		paused, err := status.ReadPausedQueue(ctx, rdb, tenant)
		all[i].queue = heldBy(obstacle.State{Queue: paused}, err)
		return nil
	})
	return all
}

// heldBy is wrong if requests are refused for a fault, and a warning if something else holds
// rows back.
func heldBy(s obstacle.State, err error) Finding {
	obstacles := s.Obstacles()
	if err != nil || len(obstacles) == 0 {
		return failed(err)
	}
	found := Finding{Level: Warning}
	var texts []string
	for _, o := range obstacles {
		texts = append(texts, o.String())
		if o.Kind == obstacle.OperationBlocked {
			found.Level = Wrong
		}
	}
	found.Text = strings.Join(texts, "\n")
	return found
}

// Token evaluates the last token that was fetched. If none was fetched yet, that is wrong only
// if the worker awaits it.
func Token(t tenant.Settings, h apiclient.TokenHealth, awaited bool) Finding {
	switch {
	case h.Err != nil:
		return wrong(t.Remedy(apiclient.FaultOf(h.Err)), "%v", h.Err)
	case h.GotAt.IsZero() && awaited:
		return wrong("", "not fetched yet")
	case h.GotAt.IsZero():
		return warn("", "not needed yet: other workers serve the tenant")
	case h.LastErr == nil:
		return Finding{Level: OK}
	case h.ExpiresAt.IsZero():
		return warn(t.Remedy(apiclient.FaultOf(h.LastErr)), "it could not be renewed: %v", h.LastErr)
	}
	return warn(t.Remedy(apiclient.FaultOf(h.LastErr)), "it could not be renewed: %v; the present one ends at %s", h.LastErr,
		stamp.UTC(h.ExpiresAt))
}

// TokenFacts returns the state of a token for a tenant's page: it has no secret.
func TokenFacts(h apiclient.TokenHealth) []status.Fact {
	state := status.Fact{Name: "state", Text: "ok, fetched " + stamp.UTC(h.GotAt)}
	switch {
	case h.Err != nil:
		state.Text = "no valid token since " + stamp.UTC(h.Since)
	case h.GotAt.IsZero():
		state.Text = "not fetched yet"
	}
	all := []status.Fact{state}
	if !h.ExpiresAt.IsZero() {
		all = append(all, status.Fact{Name: "expires", Text: stamp.UTC(h.ExpiresAt) + " (renewed automatically)"})
	}
	if h.LastErr != nil {
		text := untrusted.Plain(h.LastErr.Error(), untrusted.MaxMessage)
		all = append(all, status.Fact{Name: "last error", Text: text})
	}
	if h.Failures > 0 {
		all = append(all, status.Fact{Name: "failures", Text: strconv.FormatUint(h.Failures, 10)})
	}
	if len(h.Scopes) > 0 {
		text := untrusted.Plain(strings.Join(h.Scopes, " "), untrusted.MaxMessage)
		all = append(all, status.Fact{Name: "scopes", Text: text})
	}
	return all
}
