package intakeapi

import (
	"context"
	"net/http"

	"orgops/internal/tenant"
)

// planJSON is the estimate of a submission.
type planJSON struct {
	DryRun      bool      `json:"dry_run"`
	Kind        string    `json:"kind"`
	Tenant      string    `json:"tenant"`
	Rows        int64     `json:"rows"`
	Invalid     int64     `json:"invalid"`
	InvalidRows []rowJSON `json:"invalid_rows"`
	Duplicates  int64     `json:"duplicates"`
	Tasks       int64     `json:"tasks"`
	APICalls    int64     `json:"api_calls"` // if none has to be repeated
}

// answerPlan answers with the estimate of a submission. It changes nothing.
func (s *Server) answerPlan(ctx context.Context, w http.ResponseWriter, o order, rows *body) error {
	settings, _, err := tenant.ReadAnnounced(ctx, s.cfg.Redis, o.run.Tenant)
	if err != nil {
		return err
	}
	plan, err := o.input(rows, s.limits).Plan(settings.MaxClientsPerRequest)
	if err != nil {
		return err
	}
	answerJSON(w, http.StatusOK, planJSON{
		DryRun: true, Kind: o.kind.Name, Tenant: o.run.Tenant,
		Rows: plan.Rows, Invalid: plan.Invalid.Total, InvalidRows: rowsAsJSON(plan.Invalid.First),
		Duplicates: plan.Duplicates.Total, Tasks: plan.Tasks, APICalls: plan.Calls,
	})
	return nil
}
