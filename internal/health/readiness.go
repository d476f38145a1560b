package health

import (
	"context"
	"sync"
	"time"
)

const (
	// readyTimeout bounds the checks of one /readyz: below the usual patience of the systems
	// that request it, so that the answer names the check that hangs.
	readyTimeout = 3 * time.Second
	// checkTime bounds each check, so that the answer comes within readyTimeout.
	checkTime = readyTimeout - 500*time.Millisecond
	// readyFor is the time for which a finding is valid: orchestrators, load balancers and
	// people ask at the same time.
	readyFor = 2 * time.Second
)

// Check tests one thing that the worker needs. A finding after the end of its ctx is ignored.
type Check struct {
	Subject string
	Test    func(ctx context.Context) Finding
}

// Readiness runs checks side by side. All requests within two seconds get the same findings.
// It may be used from any goroutine.
type Readiness struct {
	checks []Check
	polls  []*Poll[Finding]
}

// NewReadiness returns a Readiness of these checks, in this order.
func NewReadiness(checks ...Check) *Readiness {
	r := &Readiness{checks: checks}
	for _, c := range checks {
		r.polls = append(r.polls, polled(c.find))
	}
	return r
}

// Findings returns the finding of each check. A check that has not answered within two and a
// half seconds is reported as wrong, and is not started again before it has answered.
func (r *Readiness) Findings(ctx context.Context) []Finding {
	found := make([]Finding, len(r.polls))
	var all sync.WaitGroup
	for i, p := range r.polls {
		all.Go(func() {
			f, since := p.Get(ctx)
			if !since.IsZero() {
				f = unanswered(time.Since(since))
			}
			f.Subject = r.checks[i].Subject
			found[i] = f
		})
	}
	all.Wait()
	return found
}

func (c Check) find(ctx context.Context) Finding {
	f := c.Test(ctx)
	if ctx.Err() != nil && f.Level == Wrong {
		return unanswered(checkTime)
	}
	return f
}

func unanswered(took time.Duration) Finding {
	return wrong("", "this check has not answered for %s", took.Round(100*time.Millisecond))
}

// polled returns a poll whose answers are valid for all checks within two seconds.
func polled[T any](ask func(context.Context) T) *Poll[T] {
	return &Poll[T]{Ask: ask, Within: checkTime, Patience: checkTime,
		Fresh: func(T, time.Duration) time.Duration { return readyFor }}
}
