package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"orgops/internal/view"
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
	name := r.URL.Query().Get("tenant")
	domain := r.URL.Query().Get("domain")
	v := s.view(ctx)
	var o openWork
	tenants, err := tenantsOf(ctx, v, name)
	if err == nil {
		err = o.read(ctx, v, tenants)
	}
	if err != nil {
		s.fail(w, r, "queues", err)
		return
	}
	if name != "" && domain != "" {
		o.Domain = tenants[0].NameOf(ctx, domain) // without a name the id has to do
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // fails if the client has gone
}

// tenantsOf returns the tenant of the view of that name, or all of them if it is empty.
func tenantsOf(ctx context.Context, v view.View, name string) (all []view.Tenant, err error) {
	if name != "" {
		t, err := tenantOf(v, name)
		return []view.Tenant{t}, err
	}
	f, err := v.Fleet(ctx)
	for _, known := range f.Tenants {
		if t, err := v.Tenant(known.Name); err == nil {
			all = append(all, t)
		}
	}
	return all, err
}

func (o *openWork) read(ctx context.Context, v view.View, tenants []view.Tenant) error {
	all, ahead, err := v.OpenWork(ctx, tenants, mostWaiting)
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	for i, e := range ahead {
		open := max(all[i].Rows-all[i].Settled(), 0)
		if len(e.Held) == 0 {
			counts["waiting for DNS"] += e.DNS
			counts["waiting for another attempt"] += e.Again
			counts["in progress or waiting for permits"] += max(open-e.DNS-e.Again, 0)
			continue
		}
		counts["held up"] += open
		why := string(all[i].Tenant) + ": " + printable(e.Held[len(e.Held)-1].String()) // the tenant's, if there is one
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
