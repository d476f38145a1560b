package ops

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"orgops/internal/cli"
	"orgops/tasks"
)

// docketPage is what the next sweep of a tenant would have done, if it saw what the last
// ones have seen.
type docketPage struct {
	Tenant  string
	Breaker string     // how it stands
	Cases   []cli.Case // the first of them
	Total   int
}

// mostCases bounds a page, in cases; those to be acted on are first.
const mostCases = 100

// docketWithin is how long it may take: every domain that is absent is read.
const docketWithin = 30 * time.Second

func docketPath(tenant string) string {
	return "/sweeps/docket?" + url.Values{"tenant": {tenant}}.Encode()
}

// docket shows what closing the breaker comes to: GET /sweeps/docket.
func (s *site) docket(w http.ResponseWriter, r *http.Request) {
	tenant := r.URL.Query().Get("tenant")
	if err := tasks.CheckTenant(tenant); err != nil {
		s.problem(w, r, http.StatusBadRequest, "runs", "This address names no tenant: "+err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), docketWithin)
	defer cancel()
	rules, judgement, err := cli.RulesFor(ctx, s.Redis, tenant)
	if err != nil {
		s.unread(w, r, "runs", err)
		return
	}
	docket, err := cli.DocketOf(ctx, s.Redis, tenant, "", rules, judgement, time.Now())
	if err != nil {
		s.unread(w, r, "runs", err)
		return
	}
	p := docketPage{Tenant: tenant, Breaker: judgement.BreakerText(tenant), Cases: docket.Cases, Total: len(docket.Cases)}
	p.Cases = p.Cases[:min(mostCases, p.Total)]
	s.show(w, r, http.StatusOK, "docket", page{Title: "The next sweep of " + tenant, Section: "runs", Data: p})
}
