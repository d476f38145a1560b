package console

import (
	"context"
	"net/http"
	"time"

	"orgops/internal/status"
	"orgops/tasks"
)

// previewPage shows the actions of the next sweep of a tenant if its checks have the results of
// the last ones.
type previewPage struct {
	Tenant     string
	Breaker    string             // its state, in words
	Candidates []status.Candidate // the first of them
	Total      int
}

// maxCandidates bounds the candidates of a page; those to be acted on are first.
const maxCandidates = 100

// previewWithin bounds the time of a preview, which reads every watched domain.
const previewWithin = 30 * time.Second

// preview shows the effect of closing the breaker: GET /sweeps/preview.
func (s *site) preview(ctx context.Context, r *http.Request) (title string, data any, err error) {
	tenant := r.URL.Query().Get("tenant")
	if err := tasks.CheckTenant(tenant); err != nil {
		return "", nil, &refusal{status: http.StatusBadRequest, text: "This address has no valid tenant: " + err.Error()}
	}
	rules, state, err := status.RulesFor(ctx, s.Redis, tenant)
	if err != nil {
		return "", nil, err
	}
	preview, err := status.PreviewOf(ctx, s.Redis, tenant, "", rules, state, time.Now())
	if err != nil {
		return "", nil, err
	}
	p := previewPage{Tenant: tenant, Breaker: state.BreakerText(tenant), Candidates: preview.Candidates, Total: len(preview.Candidates)}
	p.Candidates = p.Candidates[:min(maxCandidates, p.Total)]
	return "Preview of the next sweep of " + tenant, p, nil
}
