package console

import (
	"context"
	"net/http"
	"time"

	"orgops/internal/status"
)

// previewPage shows the actions of the next sweep of a tenant if its checks have the results of
// the last ones.
type previewPage struct {
	status.Preview     // with the first of the candidates
	Total          int // of the candidates
}

// maxCandidates bounds the candidates of a page; those to be acted on are first.
const maxCandidates = 100

// previewWithin bounds the time of a preview, which reads every watched domain.
const previewWithin = 30 * time.Second

// preview shows the effect of closing the breaker: GET /sweeps/preview.
func (s *site) preview(ctx context.Context, r *http.Request) (title string, data any, err error) {
	tenant := r.URL.Query().Get("tenant")
	if err := checkTenant(ctx, tenant); err != nil {
		return "", nil, err
	}
	p := previewPage{}
	if p.Preview, err = status.PreviewOf(ctx, s.Redis, tenant, "", time.Now()); err != nil {
		return "", nil, err
	}
	p.Total = len(p.Candidates)
	p.Candidates = p.Candidates[:min(maxCandidates, p.Total)]
	return "Preview of the next sweep of " + tenant, p, nil
}
