package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/internal/ledger"
)

// openWork is the open work of a tenant, or of all, for the bar of asynqmon's pages.
type openWork struct {
	Rows   string   `json:"rows"`   // how many rows are open, and why they wait; "": none
	Held   []string `json:"held"`   // why rows are held up, or would be, and the remedy
	Domain string   `json:"domain"` // the name of the requested domain; "": not known
}

// mostWaiting and mostHeld bound the runs and reasons of the bar, which asks every few seconds.
const mostWaiting, mostHeld = 200, 5

// waits answers with the open work: GET /monitor/orgops/waiting.
func (s *site) waits(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	tenant, domain := r.URL.Query().Get("tenant"), r.URL.Query().Get("domain")
	names, err := []string{tenant}, error(nil)
	if tenant == "" {
		var all overview
		all, err = s.overview(ctx, "")
		names = all.Tenants
	} else {
		err = checkTenant(ctx, tenant)
	}
	var o openWork
	if err == nil && len(names) > 0 {
		err = s.readOpen(ctx, &o, names)
	}
	if err != nil {
		s.fail(w, r, "queues", err)
		return
	}
	if tenant != "" && domain != "" {
		known, _ := s.Ledger.Subject(ctx, ledger.Tenant(tenant), domain) // without a name the id has to do
		o.Domain = known.Name
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // fails if the client has gone
}

func (s *site) readOpen(ctx context.Context, o *openWork, names []string) error {
	tenants := make([]ledger.Tenant, len(names))
	for i, name := range names {
		tenants[i] = ledger.Tenant(name)
	}
	singles, err := s.Ledger.CountSingles(ctx, tenants...)
	all, runsErr := s.Ledger.OpenRuns(ctx, tenants...)
	if err = cmp.Or(err, runsErr); err != nil {
		return err
	}
	now := time.Now()
	for _, t := range tenants { // the single rows of each as one run, which may be empty
		all = append(all, ledger.Run{Tenant: t, Incarnation: ledger.Incarnation("singles of " + t), Rows: singles[t],
			CreatedAt: now, StagedAt: now, CommittedAt: now})
	}
	counts := map[string]int64{}
	for i, e := range s.estimator.Estimate(ctx, now, all[:min(len(all), mostWaiting)]) {
		open := max(all[i].Rows-all[i].Settled(), 0)
		if len(e.Held) == 0 {
			counts["waiting for DNS"] += e.DNS
			counts["waiting for another attempt"] += e.Again
			counts["in progress or waiting for permits"] += max(open-e.DNS-e.Again, 0)
			continue
		}
		counts["held up"] += open
		why := string(all[i].Tenant) + ": " + printable(e.Held[len(e.Held)-1]) // the tenant's, if there is one
		if !slices.Contains(o.Held, why) && len(o.Held) < mostHeld {
			o.Held = append(o.Held, why)
		}
	}
	var parts []string
	for _, what := range []string{"held up", "in progress or waiting for permits", "waiting for DNS",
		"waiting for another attempt"} {
		if n := counts[what]; n > 0 {
			parts = append(parts, plural(n, "row", "rows")+" "+what)
		}
	}
	o.Rows = strings.Join(parts, ", ")
	return nil
}
