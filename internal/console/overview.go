package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/meters"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

// overviewPage is the first page.
type overviewPage struct {
	Lamp, Tone string
	Summary    string
	Warnings   int
	Problem    string      // why Redis was not read; the rest is from the last reading
	Here       []attention // warnings about this worker and its Redis
	Lines      []tenantLine
	Workers    []string
	First      string // path of the first page; empty: this is it
	Next       string // path of the page after this one; empty: it is the last
}

// tenantLine is a tenant on the first page.
type tenantLine struct {
	Name, Path  string
	State, Tone string
	Warnings    []attention
	Open        string // empty: not known, as all below
	Used        string
	Sweep       *status.Sweep
	Webhooks    string
	Hour        plot // rows; without periods: not known
}

// first is the first page, GET /. Tenants that are held come first, then others that need
// attention.
func (s *site) first(ctx context.Context, r *http.Request) (title string, data any, err error) {
	o, problem := s.overview(ctx, "")
	slices.SortFunc(o.states, status.Tenant.Compare)
	p := overviewPage{Lamp: "All is well", Tone: "good", Summary: status.Summary(o.Workers, o.states),
		Warnings: len(o.Warnings), Here: s.faults()}
	switch {
	case problem != nil:
		p.Lamp, p.Tone, p.Problem = "Not known", "wait", capital(unread(problem))
	case o.Workers == 0:
		p.Lamp, p.Tone = "No worker runs", "bad"
	case len(o.Warnings) > 0:
		p.Lamp, p.Tone = "Needs attention", "wait"
		if slices.ContainsFunc(o.Warnings, func(a attention) bool { return a.Tone == "bad" }) {
			p.Tone = "bad"
		}
	}
	for _, w := range o.sessions {
		p.Workers = append(p.Workers, status.WorkerText(w, time.Now()))
	}
	slices.Sort(p.Workers)
	begin := r.URL.Query().Get("from")
	from := max(slices.IndexFunc(o.states, func(t status.Tenant) bool { return t.Name == begin }), 0)
	to := min(from+tenantsAPage, len(o.states))
	if from > 0 {
		p.First = "/"
	}
	if to < len(o.states) {
		p.Next = link("/", map[string]string{"from": o.states[to].Name})
	}
	p.Lines = s.lines(ctx, o.states[from:to], problem == nil)
	if o.At.IsZero() {
		for i := range p.Lines {
			p.Lines[i].State, p.Lines[i].Tone = "not known", "wait"
		}
	}
	if p.Warnings > 0 {
		return fmt.Sprintf("(%d) Overview", p.Warnings), p, nil // in the tab
	}
	return "Overview", p, nil
}

// lines returns the lines of tenants. Unless Redis answers they have what is known of the states.
func (s *site) lines(ctx context.Context, states []status.Tenant, answers bool) []tenantLine {
	all := make([]tenantLine, len(states))
	for i, t := range states {
		l := tenantLine{Name: t.Name, Path: tenantsPath(t.Name, ""), State: t.State(), Tone: "good",
			Warnings: attentionOf(t), Sweep: t.Sweep}
		if len(l.Warnings) > 0 {
			l.Tone = l.Warnings[0].Tone
		}
		all[i] = l
	}
	if !answers {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	open, since := s.openRows.Get(ctx)
	err := redisconn.Batch(ctx, s.Redis, len(all), func(i int, rdb redis.UniversalClient) error {
		if since.IsZero() || open != nil {
			all[i].Open = open[all[i].Name].String()
		}
		return all[i].read(ctx, rdb, states[i])
	})
	if err != nil {
		s.Logger.WarnContext(ctx, "overview lacks details of tenants", "error", err)
	}
	return all
}

// read sets what is not part of the tenant's state.
func (l *tenantLine) read(ctx context.Context, rdb redis.UniversalClient, t status.Tenant) error {
	settings, announced, err := tenant.ReadAnnounced(ctx, rdb, t.Name)
	if announced {
		_, l.Used, _ = t.RateUsed(settings) // a rate that is not readable is on the tenant's page
	}
	past, noPast := meters.Read(ctx, rdb, t.Name)
	if noPast == nil {
		l.Hour = plotOf(past.Hour, charts[0].title, "a minute", charts[0].parts)
	}
	queue, noQueue := deliveriesOf(rdb, t.Name)
	if queue != nil {
		l.Webhooks = fmt.Sprintf("%d waiting, %d given up", waiting(queue), queue.Archived)
	}
	return cmp.Or(err, noPast, noQueue)
}

// newOpen returns the readings of the open rows by tenant. They may be old: there may be very many
// runs.
func (s *site) newOpen() *health.Poll[map[string]status.OpenWork] {
	var last map[string]status.OpenWork
	return &health.Poll[map[string]status.OpenWork]{Within: time.Minute, Patience: time.Second,
		Ask: func(ctx context.Context) map[string]status.OpenWork {
			if open, err := status.ReadOpen(ctx, s.Ledger); err == nil {
				last = open
			}
			return last
		},
		Fresh: func(_ map[string]status.OpenWork, took time.Duration) time.Duration { return openShare * took },
	}
}

// openShare is the part of the time in which the open rows are read.
const openShare = 20
