package status

import "orgops/internal/intake"

// Plan is the estimate of a submission, which changes nothing.
type Plan struct {
	DryRun bool   `json:"dry_run"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	intake.Plan
}
