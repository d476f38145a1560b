package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/webhooks"
)

// endpointView is an endpoint of a tenant.
type endpointView struct {
	deliveries.EndpointState

	Origin string // "": this worker has no such endpoint in its file
}

// readWebhooks reads the endpoints of a tenant. known are those of this worker.
func readWebhooks(ctx context.Context, rdb redis.UniversalClient, tenant string,
	known []webhooks.Endpoint) (all []endpointView, err error) {
	names := make([]string, len(known))
	for i, e := range known {
		names[i] = e.Name
	}
	states, err := deliveries.ReadEndpoints(ctx, rdb, tenant, names...)
	for _, state := range states {
		view := endpointView{EndpointState: state}
		if i := slices.Index(names, state.Name); i >= 0 {
			view.Origin = known[i].Origin()
		}
		all = append(all, view)
	}
	return all, err
}

// resend has an endpoint get again what was given up: POST /webhooks/resend.
func (s *site) resend(w http.ResponseWriter, r *http.Request) {
	tenant, endpoint := field(r.PostForm, "tenant"), field(r.PostForm, "endpoint")
	if err := checkTenant(r.Context(), tenant); err != nil {
		s.lead(w, r, tenantsPath(""), "Not done: "+err.Error(), true)
		return
	}
	s.carryOut(w, r, "send webhooks again to "+printable(endpoint), "tenant "+tenant, tenantsPath(tenant),
		func(ctx context.Context) result {
			n, err := deliveries.Resend(ctx, s.Redis, tenant, endpoint)
			return result{err: err, text: fmt.Sprintf("Endpoint %s gets deliveries: %s sent again, within seconds.",
				endpoint, plural(int64(n), "delivery", "deliveries"))}
		})
}
