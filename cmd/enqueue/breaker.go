package main

import (
	"context"
	"fmt"
	"time"

	"orgops/internal/status"
)

// confirmBreaker closes the tenant's breaker, if it is that of the sweep, and tells what
// the next sweep makes of it.
func (t *tool) confirmBreaker(ctx context.Context, c *sweepCommand) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	closed, err := status.CloseBreaker(ctx, t.redis, c.Tenant, c.Confirm)
	if err != nil {
		return err
	}
	rules, state, err := status.RulesFor(ctx, t.redis, c.Tenant)
	if err != nil {
		return err
	}
	preview, err := status.PreviewOf(ctx, t.redis, c.Tenant, "", rules, state, time.Now())
	if err != nil {
		return err
	}
	if t.json {
		return t.printJSON(confirmedJSON{c.Tenant, c.Confirm, closed.Confirmed, candidatesAsJSON(preview.Candidates)})
	}
	fmt.Fprintln(t.Stdout, status.BreakerClosed(c.Tenant, closed))
	fmt.Fprintln(t.Stdout, "Nothing is changed before the next sweep has ended; if it finds the same as the last ones:")
	return status.WriteCandidates(t.Stdout, preview.Candidates, c.Rows)
}

// confirmedJSON is the output of --json for a confirmation.
type confirmedJSON struct {
	Tenant    string          `json:"tenant"`
	Sweep     string          `json:"sweep"` // that held domains back
	Confirmed time.Time       `json:"confirmed_before"`
	Domains   []candidateJSON `json:"domains"` // all that are absent, or were taken away, as the next sweep would decide
}
