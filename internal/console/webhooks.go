package console

import (
	"context"
	"fmt"
	"net/http"

	"orgops/internal/activity"
	"orgops/internal/deliveries"
)

// resend sends the given-up deliveries of an endpoint again: POST /webhooks/resend.
func (s *site) resend(w http.ResponseWriter, r *http.Request) {
	tenant, endpoint := field(r.PostForm, "tenant"), field(r.PostForm, "endpoint")
	if err := checkTenant(r.Context(), tenant); err != nil {
		s.lead(w, r, tenantsPath(""), "Not done: "+err.Error(), true)
		return
	}
	s.carryOut(w, r, "send webhooks again to "+printable(endpoint), "tenant "+tenant, tenantsPath(tenant),
		func(ctx context.Context) result {
			n, err := deliveries.Resend(ctx, s.Redis, tenant, endpoint)
			sent := plural(int64(n), "delivery", "deliveries")
			if err == nil {
				s.author(ctx, "").Record(ctx, activity.Entry{Tenant: tenant, Action: activity.Resent,
					Result: "to " + endpoint + ": " + sent})
			}
			return result{err: err, text: fmt.Sprintf("Endpoint %s gets deliveries: %s sent again, within seconds.", endpoint,
				sent)}
		})
}
