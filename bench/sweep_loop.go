package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Widths of the plain loop: as many requests and looks at a time as a worker's
// sweep has.
const (
	loopLists = 50
	loopLooks = 100
)

// steadily is a gate of the loop's own process alone.
type steadily struct{ *rate.Limiter }

func (g steadily) Wait(ctx context.Context, _ string) error { return g.Limiter.Wait(ctx) }

// Answered does nothing: a 429 ends the loop.
func (g steadily) Answered(context.Context, string, int, http.Header) {}

// sweepPlainly lists and looks, and writes nothing down: what the same calls cost
// without queue, ledger and memory. Killed, it would begin from the beginning.
func sweepPlainly(ctx context.Context, _ *store, l sweepLoad, t *tenant, _ io.Writer) (r sweepResult, err error) {
	// Half of the burst is left: what arrives bunched must not meet a 429.
	c, err := callsTo(t.endpoint, steadily{rate.NewLimiter(rate.Limit(l.Rate), max(1, l.Rate/2))}, nil)
	if err != nil {
		return r, err
	}
	defer c.api.CloseIdle()
	organizations, domains := make(chan string, loopLists), make(chan found, loopLooks)
	var seen [3]atomic.Int64 // by state
	began, cpu := time.Now(), ownCPU()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { defer close(organizations); return c.organizations(ctx, organizations) })
	lists, listing := errgroup.WithContext(ctx)
	for range loopLists {
		lists.Go(func() error { return c.domains(listing, organizations, domains) })
	}
	g.Go(func() error { defer close(domains); return lists.Wait() })
	for range loopLooks {
		g.Go(func() error {
			for d := range domains {
				v, err := c.lookSwept(ctx, d)
				if err != nil {
					return err
				}
				seen[v.State].Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	r.Seconds, r.CPU.Bench = time.Since(began).Seconds(), (ownCPU() - cpu).Seconds()
	r.Seen = map[string]int64{}
	for state := range seen {
		r.Seen[dnscheck.State(state).String()] = seen[state].Load()
	}
	return r, err
}

// found is a domain and its organization.
type found struct {
	organization string
	domain       apiclient.DiscoveryDomain
}

func (c calls) organizations(ctx context.Context, to chan<- string) error {
	for from, more := "", true; more; more = from != "" {
		page, next, err := c.api.OrganizationsPage(ctx, from)
		if err != nil {
			return err
		}
		from = next
		for _, l := range page {
			if l.Err != nil {
				return l.Err
			}
			select {
			case to <- l.Record.ID:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (c calls) domains(ctx context.Context, organizations <-chan string, to chan<- found) error {
	for id := range organizations {
		for from, more := "", true; more; more = from != "" {
			page, next, err := c.api.DiscoveryDomainsPage(ctx, id, from)
			if err != nil {
				return err
			}
			from = next
			for _, l := range page {
				if l.Err != nil {
					return l.Err
				}
				select {
				case to <- found{id, l.Record}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

// lookSwept looks; an absence costs a GET, as it does in a sweep.
func (c calls) lookSwept(ctx context.Context, f found) (dnscheck.Verdict, error) {
	v, err := c.dns.Check(ctx, f.domain.VerificationHost, f.domain.VerificationTXT)
	if err == nil && v.State == dnscheck.Absent {
		_, err = c.api.DiscoveryDomain(ctx, f.organization, f.domain.ID)
	}
	return v, err
}
