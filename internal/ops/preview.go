package ops

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"orgops/internal/cli"
	"orgops/tasks"
)

// previewPage shows what the next sweep of a tenant would do if it found the same as the last
// ones.
type previewPage struct {
	Tenant  string
	Breaker string     // its state, in words
	Cases   []cli.Case // the first of them
	Total   int
}

// mostCases bounds a page, in cases; those to be acted on are first.
const mostCases = 100

// previewWithin is how long it may take: every domain that is absent is read.
const previewWithin = 30 * time.Second

func previewPath(tenant string) string {
	return "/sweeps/preview?" + url.Values{"tenant": {tenant}}.Encode()
}

// preview shows what closing the breaker comes to: GET /sweeps/preview.
func (s *site) preview(w http.ResponseWriter, r *http.Request) {
	tenant := r.URL.Query().Get("tenant")
	if err := tasks.CheckTenant(tenant); err != nil {
		s.problem(w, r, http.StatusBadRequest, "runs", "This address has no valid tenant: "+err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), previewWithin)
	defer cancel()
	rules, judgement, err := cli.RulesFor(ctx, s.Redis, tenant)
	if err != nil {
		s.unread(w, r, "runs", err)
		return
	}
	preview, err := cli.PreviewOf(ctx, s.Redis, tenant, "", rules, judgement, time.Now())
	if err != nil {
		s.unread(w, r, "runs", err)
		return
	}
	p := previewPage{Tenant: tenant, Breaker: judgement.BreakerText(tenant), Cases: preview.Cases, Total: len(preview.Cases)}
	p.Cases = p.Cases[:min(mostCases, p.Total)]
	s.show(w, r, http.StatusOK, "preview", page{Title: "Preview of the next sweep of " + tenant, Section: "runs", Data: p})
}
