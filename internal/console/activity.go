package console

import (
	"context"
	"net/http"
	"strings"

	"orgops/internal/activity"
	"orgops/internal/web"
)

type activityPage struct {
	activity.Query

	Tenant  string
	Names   []string // of all tenants that the user may see
	Entries []activity.Entry
	Older   string // cursor of the page after this one; empty: it is the last
}

// activity shows the activity of the tenants that the user may see: GET /activity.
func (s *site) activity(ctx context.Context, r *http.Request) (title string, data any, err error) {
	query := r.URL.Query()
	p := activityPage{Tenant: query.Get("tenant"), Query: activity.Query{After: query.Get("after"), By: query.Get("by"),
		Text: query.Get("q"), Limit: 50}}
	if strings.Trim(p.After, "(0123456789-") != "" {
		return "", nil, &web.Refusal{Status: http.StatusBadRequest, Text: "Invalid address: after must be a place of the list."}
	}
	v := s.view(ctx)
	o, err := s.overview(ctx, v, "")
	if err != nil {
		return "", nil, err
	}
	p.Names = o.Tenants
	p.Tenants = o.Tenants
	if p.Tenant != "" {
		if err := v.CheckTenant(ctx, p.Tenant); err != nil {
			return "", nil, err
		}
		p.Tenants = []string{p.Tenant}
	}
	p.Entries, p.Older, err = v.Activity(ctx, p.Query)
	return "Activity", p, err
}
