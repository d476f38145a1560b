package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/watch"
	"orgops/tasks"
)

// confirmBreaker closes the tenant's breaker, if it is that of the sweep, and tells what
// comes of it.
func (t *tool) confirmBreaker(ctx context.Context, c *sweepCommand) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	const attempts = 20 // the judging of sweeps alone writes it
	for range attempts {
		closed, done, err := t.closeBreaker(ctx, c)
		switch {
		case err != nil:
			return err
		case done:
			return t.tellConfirmed(ctx, c, closed)
		}
	}
	return fmt.Errorf("the breaker of tenant %s is written by others all the time: try again", c.Tenant)
}

// closeBreaker closes it; done is false where somebody else has written it meanwhile.
func (t *tool) closeBreaker(ctx context.Context, c *sweepCommand) (closed tasks.Breaker, done bool, err error) {
	store := watch.New(t.redis, c.Tenant)
	former, err := store.State(ctx, tasks.StateBreaker)
	if err != nil {
		return closed, false, err
	}
	if former != nil {
		if err := json.Unmarshal(former, &closed); err != nil {
			return closed, false, fmt.Errorf("the breaker of tenant %s as it is kept: %w", c.Tenant, err)
		}
	}
	if err := c.checkConfirm(closed); err != nil {
		return closed, false, err
	}
	// By Redis' clock: one of ours that is ahead would confirm what nobody has seen.
	now, err := store.Clock(ctx)
	if err != nil {
		return closed, false, err
	}
	closed = tasks.Breaker{Confirmed: now.Truncate(time.Second)}
	value, err := json.Marshal(closed)
	if err != nil {
		return closed, false, fmt.Errorf("close the breaker: %w", err)
	}
	done, err = store.SetState(ctx, tasks.StateBreaker, former, value)
	return closed, done, err
}

// checkConfirm refuses to confirm what the sweep has not held back: whoever does has
// looked at something else.
func (c *sweepCommand) checkConfirm(b tasks.Breaker) error {
	switch {
	case b.ID == c.Confirm:
		return nil
	case b.ID != "":
		return fmt.Errorf("it is sweep %s that holds domains of tenant %s back, not %s: look at them (enqueue domains sweep --tenant %s --dry-run), then --confirm %s",
			b.ID, c.Tenant, c.Confirm, c.Tenant, b.ID)
	case !b.Confirmed.IsZero():
		return fmt.Errorf("no sweep holds domains of tenant %s back: what was absent before %s is confirmed to be gone", c.Tenant, stamp(b.Confirmed))
	}
	return fmt.Errorf("no sweep holds domains of tenant %s back: there is nothing to confirm", c.Tenant)
}

// confirmedJSON is what --json prints of a confirmation.
type confirmedJSON struct {
	Tenant    string     `json:"tenant"`
	Sweep     string     `json:"sweep"` // that held domains back
	Confirmed time.Time  `json:"confirmed_before"`
	Domains   []caseJSON `json:"domains"` // all that are absent, or were taken away, as the next sweep would decide
}

// tellConfirmed tells what was confirmed, and what the next sweep makes of it.
func (t *tool) tellConfirmed(ctx context.Context, c *sweepCommand, closed tasks.Breaker) error {
	rules, judgement, err := cli.RulesFor(ctx, t.redis, c.Tenant)
	if err != nil {
		return err
	}
	docket, err := cli.DocketOf(ctx, t.redis, c.Tenant, "", rules, judgement, time.Now())
	if err != nil {
		return err
	}
	if t.json {
		return t.printJSON(confirmedJSON{c.Tenant, c.Confirm, closed.Confirmed, casesAsJSON(docket.Cases)})
	}
	fmt.Fprintf(t.Stdout, "tenant %s: the breaker is closed. What was absent before %s is taken to be gone: it is not counted again, and no more held back.\n", c.Tenant, stamp(closed.Confirmed))
	fmt.Fprintln(t.Stdout, "Nothing is done before the next sweep has ended; if that sees what the last ones have seen:")
	return cli.CaseTable(t.Stdout, docket.Cases, c.Rows)
}
