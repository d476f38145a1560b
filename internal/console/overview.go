package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"orgops/internal/status"
	"orgops/internal/view"
)

// overviewPage is the first page.
type overviewPage struct {
	Lamp, Tone string
	Summary    string
	Warnings   int
	Problem    string           // why Redis was not read; the rest is from the last reading
	Read       time.Time        // when Redis was read last; zero: never
	Here       []status.Warning // about this worker and its Redis
	List       tenantList
	Lines      []tenantLine // of the tenants of List
	Workers    []string
	Died       []string // workers
}

// tenantLine is a tenant on the first page. A member that could not be read is empty.
type tenantLine struct {
	status.Tenant
	Open, Used string
	Hour       lastHour
}

// first is the first page, GET /: tenants that are held come first, then others that need
// attention.
func (s *site) first(ctx context.Context, r *http.Request) (title string, data any, err error) {
	v := s.view(ctx)
	o, problem := s.overview(ctx, v, "")
	slices.SortFunc(o.states, status.Tenant.Compare)
	p := overviewPage{Lamp: "All is well", Tone: "good", Summary: status.Summary(o.Workers, o.states),
		Warnings: len(o.Warnings), Here: s.warnings(), Read: o.At}
	switch {
	case problem != nil:
		p.Lamp = "Not known"
		p.Tone = "wait"
		p.Problem = capital(unread(problem))
	case o.Workers == 0:
		p.Lamp = "No worker runs"
		p.Tone = "bad"
	case slices.ContainsFunc(o.Warnings, func(w status.Warning) bool { return w.Urgent }):
		p.Lamp = "Needs attention"
		p.Tone = "bad"
	case len(o.Warnings) > 0:
		p.Lamp = "Needs attention"
		p.Tone = "wait"
	}

	// The workers.
	for _, w := range o.sessions {
		p.Workers = append(p.Workers, status.WorkerText(w, time.Now()))
	}
	slices.Sort(p.Workers)
	for _, w := range o.died {
		p.Died = append(p.Died, status.DiedText(w))
	}

	// The tenants of this page of their list.
	p.List = listOf(r, o.states)
	for _, t := range p.List.Tenants {
		p.Lines = append(p.Lines, tenantLine{Tenant: t})
	}
	if problem == nil {
		s.readLines(ctx, v, p.Lines)
	}
	if p.Warnings > 0 {
		return fmt.Sprintf("(%d) Overview", p.Warnings), p, nil // in the tab
	}
	return "Overview", p, nil
}

// readLines reads the members of the lines next to the states of the tenants.
func (s *site) readLines(ctx context.Context, v view.View, all []tenantLine) {
	ctx, cancel := context.WithTimeout(ctx, view.FleetPatience)
	defer cancel()
	open := v.OpenRows(ctx)
	err := v.Batch(ctx, len(all), func(i int, v view.View) error {
		l := &all[i]
		t, err := v.Tenant(l.Name)
		if err != nil {
			return err
		}
		if open != nil {
			l.Open = status.OpenText(open[l.Name])
		}
		settings, announced, err := t.Announced(ctx)
		if announced {
			permits, _ := l.Permits(settings) // the tenant's page has the error
			if used := fmt.Sprintf("%.0f", 100*permits.Share()); permits.Share() > 0 && used != "0" {
				l.Used = used + " % of the rate"
			}
		}
		var noPast error
		l.Hour, noPast = readHour(ctx, t)
		return cmp.Or(err, noPast)
	})
	if err != nil {
		s.log.WarnContext(ctx, "overview lacks details of tenants", "error", err)
	}
}
