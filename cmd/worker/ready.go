package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/ops"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
)

// readiness is what /readyz checks. It takes no permit and fetches no token: the token is
// the one that the worker fetched as one of the tenant's first, or that a request needed, and
// only a resolver that has not answered for half a minute is queried.
//
// A tenant whose credentials do not suffice is not ready, though no restart and no other
// pod cures it: nothing is routed to a worker by its readiness, and a rollout with
// credentials that do not work is to stop there.
func (w *worker) readiness() *ops.Readiness {
	probes := []ops.Probe{{Name: "redis", Look: func(ctx context.Context) ops.Finding {
		// The client's commands end with ctx.
		return ops.Finding{Err: cmp.Or(redisconn.Ready(ctx, w.permits), redisconn.CheckRights(ctx, w.permits, ledger.Commands()...))}
	}}}
	permission := ops.Shared(w.permissions)
	for i, t := range w.tenants {
		probes = append(probes,
			ops.Probe{Name: "tenant " + t.Name, Look: func(ctx context.Context) ops.Finding {
				all, err := permission(ctx)
				if err != nil {
					return ops.Finding{Err: err}
				}
				return all[i].unblocked(t.Name)
			}},
			ops.Probe{Name: "tenant " + t.Name + " queue", Look: func(ctx context.Context) ops.Finding {
				all, err := permission(ctx)
				if err != nil {
					return ops.Finding{Err: err}
				}
				return ops.Finding{Err: all[i].queueErr, Note: cli.QueueIsPaused(all[i].paused)}
			}},
			ops.Probe{Name: "tenant " + t.Name + " token", Look: func(context.Context) ops.Finding { return t.hasToken(w.awaitsToken(t)) }},
			ops.Probe{Name: "tenant " + t.Name + " resolvers", Look: t.hears})
		if t.CanaryZone != "" {
			probes = append(probes, ops.Probe{Name: "tenant " + t.Name + " canary", Look: t.trusts})
		}
	}
	return ops.NewReadiness(probes...)
}

// permission is whether rows of a tenant may be released, and its requests sent.
type permission struct {
	pace     pace.State
	paused   string // the queue, if it is paused
	paceErr  error
	queueErr error
}

// permissions reads those of all tenants together: see [redisconn.Batch].
func (w *worker) permissions(ctx context.Context) []permission {
	all := make([]permission, len(w.tenants))
	_ = redisconn.Batch(ctx, w.permits, len(all), func(i int, rdb redis.UniversalClient) error { // each has its errors
		p, tenant := &all[i], w.tenants[i].Name
		p.pace, p.paceErr = pace.New(pace.Config{Redis: rdb, Tenant: tenant}).State(ctx)
		p.paused, p.queueErr = cli.PausedQueue(rdb, tenant)
		return nil
	})
	return all
}

// unblocked says in words what keeps the tenant's requests from going out.
func (p permission) unblocked(tenant string) ops.Finding {
	if p.paceErr != nil {
		return ops.Finding{Err: p.paceErr}
	}
	var blocks []error
	for _, b := range p.pace.Blocks {
		blocks = append(blocks, fmt.Errorf("blocked: %s: %s", b.Operation, b.Reason))
	}
	f := ops.Finding{Err: errors.Join(blocks...)}
	if p.pace.Stopped != nil {
		f.Note = p.pace.Stopped.String() + "; to start it: enqueue tenant start " + tenant
	} else if !p.pace.PausedUntil.IsZero() {
		f.Note = "paused until " + p.pace.PausedUntil.Format("15:04:05Z") + ": the tenant answered 429"
	}
	return f
}

// hasToken reports the last token fetched, or that none was fetched yet, which is an error if
// the worker awaits it.
func (s *served) hasToken(awaited bool) ops.Finding {
	h := s.api.TokenHealth()
	f := ops.Finding{Err: h.Err}
	if h.Err == nil && h.GotAt.IsZero() {
		if !awaited {
			return ops.Finding{Note: "not needed yet: other workers serve the tenant"}
		}
		f.Err = errors.New("not fetched yet")
	}
	if h.Err == nil && h.LastErr != nil {
		f.Note = "it could not be renewed: " + h.LastErr.Error()
		if !h.ExpiresAt.IsZero() {
			f.Note += "; the present one ends at " + h.ExpiresAt.UTC().Format("2006-01-02T15:04:05Z")
		}
	}
	return f
}

// hears goes by how many resolvers answer: without a quorum of them nothing can
// be proven.
func (s *served) hears(ctx context.Context) ops.Finding {
	const what = "%d of %d resolvers do not answer: %s"
	const mend = "; a proof needs %s of them: check that this machine reaches them (TCP to port 853 for tls://, to port 443 for https://, else UDP and TCP to port 53), or name others by --resolvers"
	return s.votes(s.dns.Probe(ctx), what, mend, func(r dnscheck.ResolverState) string { return r.Silent })
}

// trusts goes by how many resolvers have a vote.
func (s *served) trusts(context.Context) ops.Finding {
	const what = "%d of %d resolvers answer for names that do not exist, and are not counted: %s"
	const mend = "; a proof needs %s: name other resolvers by --resolvers, or check that the canary zone has no wildcard"
	return s.votes(s.dns.Resolvers(), what, mend, func(r dnscheck.ResolverState) string { return r.Lies })
}

// votes finds fault with resolvers: it is an error if a proof lacks their votes.
func (s *served) votes(all []dnscheck.ResolverState, what, mend string, fault func(dnscheck.ResolverState) string) ops.Finding {
	var faults []string
	named, left := make(map[string]bool), make(map[string]bool) // perspectives
	for _, r := range all {
		named[r.Perspective] = true
		if f := fault(r); f != "" {
			faults = append(faults, r.Name+": "+f)
			continue
		}
		left[r.Perspective] = true
	}
	if len(faults) == 0 {
		return ops.Finding{}
	}
	said := fmt.Sprintf(what, len(faults), len(all), strings.Join(faults, "; "))
	needs, spanned := strconv.Itoa(s.quorum), true
	if len(named) > 1 {
		needs, spanned = needs+" (in two perspectives)", len(left) > 1
	}
	if len(all)-len(faults) >= s.quorum && spanned {
		return ops.Finding{Note: said}
	}
	return ops.Finding{Err: fmt.Errorf("%s"+mend, said, needs)}
}
