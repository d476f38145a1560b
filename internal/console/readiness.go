package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// checkTime bounds each check, so that the answer comes within readyTimeout.
	checkTime = readyTimeout - 500*time.Millisecond
	// readyFor is for how long a finding stands: orchestrators, load balancers and people
	// ask at the same time.
	readyFor = 2 * time.Second
)

// Probe checks one thing that the worker needs.
type Probe struct {
	// Name is a Check's.
	Name string
	// Look checks it. A finding after the end of ctx is ignored.
	Look func(ctx context.Context) Finding
}

// Finding is what a Probe finds.
type Finding struct {
	// Err says what is wrong and what to do, in words for an operator; nil if
	// nothing is.
	Err error
	// Note says what an operator should know though it works; empty: nothing.
	Note string
}

// Readiness checks everything that the worker needs, side by side. All who ask within two
// seconds get the same findings. It may be used by any number of goroutines.
type Readiness struct {
	names []string
	polls []*poll[Finding]
}

// NewReadiness returns a Readiness of these probes, in this order.
func NewReadiness(probes ...Probe) *Readiness {
	r := new(Readiness)
	for _, p := range probes {
		r.names = append(r.names, p.Name)
		r.polls = append(r.polls, &poll[Finding]{
			ask: p.ask, within: checkTime, patience: checkTime, fresh: forReady[Finding],
		})
	}
	return r
}

// Checks returns the findings. A check that has not answered within two and a half seconds
// is reported as that, and is not begun anew before it has answered.
func (r *Readiness) Checks(ctx context.Context) []Check {
	checks := make([]Check, len(r.polls))
	var all sync.WaitGroup
	for i, p := range r.polls {
		all.Go(func() {
			found, since := p.get(ctx)
			if !since.IsZero() {
				found = unanswered(time.Since(since))
			}
			checks[i] = Check{Name: r.names[i], Err: found.Err, Note: found.Note}
		})
	}
	all.Wait()
	return checks
}

// forReady returns the time for which a finding is valid.
func forReady[T any](T, time.Duration) time.Duration { return readyFor }

// Shared returns a function that reads something for many probes: one reading is for all
// calls within two seconds. The error says that it has not ended in time.
func Shared[T any](read func(context.Context) T) func(context.Context) (T, error) {
	p := &poll[T]{ask: read, within: checkTime, patience: checkTime, fresh: forReady[T]}
	return func(ctx context.Context) (answer T, err error) {
		answer, since := p.get(ctx)
		if !since.IsZero() {
			err = unanswered(time.Since(since)).Err
		}
		return answer, err
	}
}

func (p Probe) ask(ctx context.Context) Finding {
	found := p.Look(ctx)
	if ctx.Err() != nil && errors.Is(found.Err, context.DeadlineExceeded) {
		return unanswered(checkTime)
	}
	return found
}

func unanswered(took time.Duration) Finding {
	return Finding{Err: fmt.Errorf("this check has not answered for %s", took.Round(100*time.Millisecond))}
}
